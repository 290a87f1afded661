//go:build unix

package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"airlock/backends"
	"airlock/backends/internal/guestproc"
	"airlock/backends/internal/interpreter"
	"airlock/runner-image/guest"
)

// run runs one guest to its end, in a directory of its own.
func (r *ready) run(ctx context.Context, task backends.Task) (backends.Outcome, error) {
	dir, err := interpreter.TempDir("run")
	if err != nil {
		return backends.Outcome{}, err
	}
	outcome, err := r.runIn(ctx, dir, task)
	return outcome, errors.Join(err, removeAll(dir))
}

func (r *ready) runIn(ctx context.Context, dir string, task backends.Task) (outcome backends.Outcome, err error) {
	group, err := r.fence.NewGroup(task.Limits)
	if err != nil {
		return outcome, err
	}
	if group != nil {
		defer func() { err = errors.Join(err, group.Remove()) }()
	}
	env := []string{"HOME=" + dir, "TMPDIR=" + dir, "PWD=" + dir, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}
	t := tree{}
	if group == nil {
		t.marker = marker + "=" + rand.Text()
		env = append(env, t.marker)
	}
	g := guestproc.Guest{
		Task:  task,
		Group: group,
		Command: guestproc.Command{
			Path: r.python.Path, Dir: dir, Env: env,
			Args:   append(append([]string{r.python.Path}, interpreter.Flags()...), filepath.Join(r.stage, guest.Main)),
			Bounds: guestproc.NewBounds(task.Limits, group != nil),
		},
		Started: func(pid int) error { t.pid = pid; return nil },
		Spoke:   func(int) error { return nil },
		Kill:    t.kill,
	}
	ending, err := g.Run(ctx)
	if err != nil {
		return outcome, fmt.Errorf("run guest: %w", err)
	}
	status, known := ending.State.Sys().(syscall.WaitStatus)
	return ending.Outcome(task.Limits, status, known, 0), nil
}

// marker is the variable by which a guest's processes are found.
const marker = "AIRLOCK_GUEST"

// tree is what a guest started.
type tree struct {
	pid int
	// marker is the assignment to look for; "" where a group holds the tree.
	marker string
}

// removeAll removes the directory, also where a guest took its own rights to
// parts of it away.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove guest's directory: %w", err)
	}
	return nil
}
