package standalone

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// hasSocket is false, as few programs connect to sockets here.
const hasSocket = false

// pgAccount is never needed here: the server gives up an administrator's
// rights by itself when pg_ctl starts it, and refuses to run with them
// otherwise.
type pgAccount struct{}

func findAccount() (*pgAccount, error) { return nil, nil }

func (a *pgAccount) run(*exec.Cmd) {}

func (a *pgAccount) own(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			if err := os.Mkdir(path, 0o700); err != nil {
				return fmt.Errorf("make postgres directory: %w", err)
			}
		}
	}
	return nil
}

func (a *pgAccount) canReach(...string) error { return nil }

// detach keeps the console's Ctrl-C away from the server.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// signal goes by pg_ctl, which knows the server's own pipe for signals.
func (s *pgServer) signal(mode string) error {
	out, err := exec.Command(s.pgctl, "stop", "-D", s.dataDir, "-m", mode, "-W").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_ctl stop: %w: %s", err, lastLines(string(out), 3))
	}
	return nil
}

// servesDir can only tell that the process lives; pg_ctl, which the caller
// uses, checks the rest.
func servesDir(pid int, _ string) bool {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(handle)
	return true
}

// dirLock is held by one process at a time and ends with it.
type dirLock struct{ file *os.File }

func lockDir(path string) (*dirLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{})
	if err != nil {
		file.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, fmt.Errorf("%w: %s", ErrDataInUse, filepath.Dir(path))
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	return &dirLock{file: file}, nil
}

func (l *dirLock) release() error { return l.file.Close() }
