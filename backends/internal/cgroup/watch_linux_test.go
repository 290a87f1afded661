package cgroup_test

import (
	"errors"
	"os"
	"testing"

	"airlock/backends/internal/cgroup"
)

// TestWatchStranger: a process whose group is not named after what is looked
// for is somebody else's, with the same number.
func TestWatchStranger(t *testing.T) {
	t.Parallel()
	if _, err := cgroup.Watch(os.Getpid(), "no-such-container", 1); !errors.Is(err, cgroup.ErrUnusable) {
		t.Errorf("got error %v, want ErrUnusable", err)
	}
	if _, err := cgroup.Watch(1<<30, "no-such-container", 1); err == nil {
		t.Error("got no error for a process that does not exist")
	}
}
