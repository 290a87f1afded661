package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"airlock/backends/internal/guestproc"
)

// kill kills every process that has the marker among its variables, until
// there is none.
func (t *tree) kill(ctx context.Context) error {
	if t.marker == "" {
		return nil
	}
	for {
		found, err := t.round()
		if err != nil || found == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("kill guest: %w", err)
		}
	}
}

// patience is how long one round waits for what it killed.
const patience = 20 * time.Millisecond

// round kills what it finds and returns how many that were.
func (t *tree) round() (found int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("look for the guest's processes: %w", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !t.has(pid) {
			continue
		}
		found++
		// The pid may have passed to another process since: look again once
		// it is held.
		process := guestproc.OpenMain(pid)
		if t.has(pid) {
			process.Kill()
			process.Wait(time.Now().Add(patience))
		}
		process.Close()
	}
	return found, nil
}

// has reports whether the process was started with the marker. A dead one
// that nobody has reaped has no variables.
func (t *tree) has(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(append([]byte{0}, env...), append(append([]byte{0}, t.marker...), 0))
}
