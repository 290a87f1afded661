//go:build unix

package standalone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// hasSocket says that clients can connect without the network.
const hasSocket = true

// pgAccount is the unprivileged user that the server runs as, because it
// refuses to run as root. nil means ourselves.
type pgAccount struct {
	name     string
	uid, gid uint32
}

// findAccount returns nil unless we are root. initdb needs a user with a
// name, so a bare number will not do.
func findAccount() (*pgAccount, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &pgAccount{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("postgres does not run as root, and there is neither a user postgres nor a user nobody to run it as")
}

// run makes the command run as the account.
func (a *pgAccount) run(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

// own makes the directories that do not exist and gives all paths to the
// account. The first directory is entered by it, the rest belong to it.
func (a *pgAccount) own(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			if err := os.Mkdir(path, 0o700); err != nil {
				return fmt.Errorf("make postgres directory: %w", err)
			}
		}
		if a == nil {
			continue
		}
		if err := os.Lchown(path, int(a.uid), int(a.gid)); err != nil {
			return fmt.Errorf("give %s to user %s: %w", path, a.name, err)
		}
	}
	return nil
}

// canReach checks that the account may enter every directory above the
// paths, since the server's own message would not say which one is closed.
func (a *pgAccount) canReach(paths ...string) error {
	if a == nil {
		return nil
	}
	for _, path := range paths {
		for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
			info, err := os.Stat(dir)
			if err != nil {
				return fmt.Errorf("check way to %s: %w", path, err)
			}
			if !a.mayEnter(info) {
				return fmt.Errorf("postgres runs as user %s, who may not enter %s: choose another data directory, or run chmod o+x %s", a.name, dir, dir)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return nil
}

func (a *pgAccount) mayEnter(dir fs.FileInfo) bool {
	stat, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch {
	case stat.Uid == a.uid:
		return dir.Mode()&0o100 != 0
	case stat.Gid == a.gid:
		return dir.Mode()&0o010 != 0
	}
	return dir.Mode()&0o001 != 0
}

// signal asks the postmaster for a shutdown.
func (s *pgServer) signal(mode string) error {
	if mode == "fast" {
		return s.cmd.Process.Signal(syscall.SIGINT)
	}
	return s.cmd.Process.Signal(syscall.SIGQUIT)
}

// dirLock is held by one process at a time and ends with it.
type dirLock struct{ file *os.File }

func lockDir(path string) (*dirLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrDataInUse, filepath.Dir(path))
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	return &dirLock{file: file}, nil
}

func (l *dirLock) release() error { return l.file.Close() }
