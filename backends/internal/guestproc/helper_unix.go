//go:build unix

package guestproc

import (
	"errors"
	"os"
	"os/exec"
)

// RunHelper runs a command that is no guest, with further descriptors from 3
// on. begun is called once it runs. The bounds are for systems where a process
// that goes on after ours has to be kept from it.
func RunHelper(cmd *exec.Cmd, files []*os.File, _ Bounds, begun func() error) error {
	cmd.ExtraFiles = files
	if err := cmd.Start(); err != nil {
		return err
	}
	err := begun()
	return errors.Join(cmd.Wait(), err)
}
