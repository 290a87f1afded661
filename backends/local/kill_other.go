//go:build unix && !linux

package local

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// kill kills the guest's process group.
func (t *tree) kill(context.Context) error {
	if t.pid == 0 {
		return nil
	}
	if err := syscall.Kill(-t.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("kill guest: %w", err)
	}
	return nil
}
