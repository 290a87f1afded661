package wasm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// trusted are those who may reach a directory of compiled code beside us: the
// system and its administrators, who reach everything.
func trusted() (us *windows.SID, all []*windows.SID, err error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, nil, fmt.Errorf("find out who we are: %w", err)
	}
	all = []*windows.SID{user.User.Sid}
	for _, kind := range []windows.WELL_KNOWN_SID_TYPE{
		windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid, windows.WinCreatorOwnerSid, windows.WinCreatorOwnerRightsSid,
	} {
		sid, err := windows.CreateWellKnownSid(kind)
		if err != nil {
			continue // a system that does not know it has given nobody's rights to it
		}
		all = append(all, sid)
	}
	return user.User.Sid, all, nil
}

// makePrivate makes a directory for us alone, if it is not there; those above
// it are as others made there are.
func makePrivate(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	us, _, err := trusted()
	if err != nil {
		return err
	}
	descriptor, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;" + us.String() + ")(A;OICI;FA;;;SY)")
	if err != nil {
		return fmt.Errorf("describe who may reach it: %w", err)
	}
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return err
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: descriptor}
	sa.Length = uint32(unsafe.Sizeof(sa))
	if err := windows.CreateDirectory(path, &sa); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}

// checkPrivate refuses a directory that is not ours alone.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at directory for compiled code: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is to hold compiled code and is no directory: remove it", dir)
	}
	_, all, err := trusted()
	if err != nil {
		return err
	}
	known := func(sid *windows.SID) bool {
		for _, t := range all {
			if t.Equals(sid) {
				return true
			}
		}
		return false
	}
	rights, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("look at who may reach %s: %w", dir, err)
	}
	if owner, _, err := rights.Owner(); err != nil || !known(owner) {
		return fmt.Errorf("%s is to hold compiled code and belongs to another user: remove it", dir)
	}
	return checkList(dir, rights, known)
}

// checkList refuses a list of rights that gives any to somebody unknown.
func checkList(dir string, rights *windows.SECURITY_DESCRIPTOR, known func(*windows.SID) bool) error {
	list, _, err := rights.DACL()
	if err != nil || list == nil {
		return fmt.Errorf("%s is to hold compiled code and everybody may reach it: remove it", dir)
	}
	for i := range uint32(list.AceCount) {
		var entry *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &entry); err != nil {
			return fmt.Errorf("look at who may reach %s: %w", dir, err)
		}
		if entry.Header.AceType == windows.ACCESS_DENIED_ACE_TYPE {
			continue
		}
		sid := (*windows.SID)(unsafe.Pointer(&entry.SidStart))
		if entry.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || !known(sid) {
			return fmt.Errorf("%s is to hold compiled code and %s may reach it: take that away, after a look at who wrote what is in it, or remove it", dir, sid)
		}
	}
	return nil
}
