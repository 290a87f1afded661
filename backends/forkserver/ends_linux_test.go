package forkserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/forkserver"
	"airlock/job"

	"golang.org/x/sys/unix"
)

const forever = "print('up')\nimport time\nwhile True: time.sleep(1)"

// TestKilledBehindItsBack: whatever of the tree dies or stops, guests that ran
// end as our failure, with its cause, and the next ones are as if nothing had
// been.
func TestKilledBehindItsBack(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(tree) int{
		"launcher": func(it tree) int { return it.launcher },
		"template": func(it tree) int { return it.template },
		"slot":     func(it tree) int { return it.slots()[0] },
	} {
		t.Run(name+" while a guest runs", func(t *testing.T) {
			t.Parallel()
			b, _ := open(t, forkserver.Config{})
			r := guest{code: forever}.start(t, b)
			it := treeOf(t, b)
			kill(t, target(it), unix.SIGKILL)
			s, err := r.end()
			if err == nil || !strings.Contains(err.Error(), "the guest's slot is lost") {
				t.Errorf("got outcome %+v and error %v, want an error that says what was lost", s.outcome, err)
			}
			works(t, b)
			if name != "slot" {
				until(t, "nothing of the old template runs", func() bool { return !alive(it.launcher) })
			}
			closesClean(t, b)
		})
		t.Run(name+" while idle", func(t *testing.T) {
			t.Parallel()
			b, _ := open(t, forkserver.Config{})
			works(t, b)
			// At once, so that the backend cannot have noticed.
			for range 3 {
				victim := target(treeOf(t, b))
				kill(t, victim, unix.SIGKILL)
				until(t, "those that were there are dead", func() bool {
					_, err := guest{code: "return 1"}.try(t.Context(), b)
					if err != nil && !strings.Contains(err.Error(), "the guest's slot is lost") && !strings.Contains(err.Error(), "the guest ended") {
						t.Errorf("got error %v, want none but of a guest that was there when it died", err)
					}
					return err == nil && !alive(victim)
				})
				works(t, b)
			}
			closesClean(t, b)
		})
	}
}

// TestStoppedBehindItsBack: a process that is stopped is as good as dead, when
// the time that it has for its next step is over.
func TestStoppedBehindItsBack(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(tree) int{
		"template": func(it tree) int { return it.template },
		"slot":     func(it tree) int { return it.slots()[0] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := open(t, forkserver.Config{}.WithStartTime(10*time.Second))
			works(t, b)
			if name == "template" { // nothing waits that needs none
				kill(t, treeOf(t, b).slots()[0], unix.SIGKILL)
			}
			kill(t, target(treeOf(t, b)), unix.SIGSTOP)
			works(t, b)
			works(t, b)
			closesClean(t, b)
		})
	}
	t.Run("template gone, launcher stopped", func(t *testing.T) {
		t.Parallel()
		b, _ := open(t, forkserver.Config{})
		it := treeOf(t, b)
		kill(t, it.launcher, unix.SIGSTOP)
		kill(t, it.slots()[0], unix.SIGKILL)
		kill(t, it.template, unix.SIGKILL)
		works(t, b)
		closesClean(t, b)
	})
	t.Run("slot, with a guest that is to end", func(t *testing.T) {
		t.Parallel()
		b, _ := open(t, forkserver.Config{})
		r := guest{code: forever}.start(t, b)
		it := treeOf(t, b)
		kill(t, it.slots()[0], unix.SIGSTOP)
		guests := it.guests()
		r.cancel()
		if _, err := r.end(); err == nil {
			t.Error("got no error, want one: nobody told of the guest's end")
		}
		if len(guests) != 1 || alive(guests[0]) {
			t.Errorf("guests %v are still there", guests)
		}
		works(t, b)
		closesClean(t, b)
	})
}

// TestLauncherHangs: a launcher that never gets anywhere is given up in time.
func TestLauncherHangs(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	path := filepath.Join(dir, "hangs")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 1234\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := forkserver.New(forkserver.Config{Launcher: forkserver.LauncherAt(path)}.WithStartTime(time.Second))
	_, err := b.Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got error %v, want one that wraps ErrUnavailable and says that the time was over", err)
	}
	// One that is cancelled meanwhile does not wait for that, nor does Close.
	slow := forkserver.New(forkserver.Config{Launcher: forkserver.LauncherAt(path)}.WithStartTime(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	s, err := guest{code: "return 1"}.try(ctx, slow)
	if err != nil || s.outcome.Cause != backends.Killed {
		t.Errorf("got outcome %+v, error %v for a job that is cancelled, want killed", s.outcome, err)
	}
	if err := errors.Join(b.Close(), slow.Close()); err != nil {
		t.Error(err)
	}
	for _, child := range childrenOf(os.Getpid()) {
		words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if strings.Contains(string(words), "1234") || strings.Contains(string(words), path) {
			t.Errorf("process %d (%q) is still there", child, words)
		}
	}
}

// TestNoRoomToFork: what the kernel refuses is said, and another guest runs
// once it can.
func TestNoRoomToFork(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may bound another's processes")
	}
	// The kernel counts a user's processes, and templates are one's.
	t.Run("slots", func(t *testing.T) {
		t.Parallel()
		b, _ := open(t, forkserver.Config{})
		r := guest{code: forever}.start(t, b)
		it := treeOf(t, b)
		bound(t, it.template, unix.RLIMIT_NPROC, 0)
		_, err := guest{code: "return 1"}.try(t.Context(), b)
		if err == nil || !strings.Contains(err.Error(), "Resource temporarily unavailable") {
			t.Errorf("got error %v, want the kernel's", err)
		}
		if len(it.guests()) != 1 {
			t.Error("the guest that ran is gone with a fork that failed")
		}
		bound(t, it.template, unix.RLIMIT_NPROC, 1000)
		works(t, b)
		if treeOf(t, b) != it {
			t.Error("the template was replaced for a fork that failed")
		}
		r.cancel()
		closesClean(t, b)
	})
	t.Run("guests", func(t *testing.T) {
		t.Parallel()
		b, _ := open(t, forkserver.Config{})
		it := treeOf(t, b)
		slot := it.slots()[0]
		bound(t, slot, unix.RLIMIT_NPROC, 0)
		works(t, b) // in another slot
		if slices.Contains(it.slots(), slot) {
			t.Error("a slot that cannot fork is kept")
		}
		closesClean(t, b)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		b, _ := open(t, forkserver.Config{})
		it := treeOf(t, b)
		bound(t, it.slots()[0], unix.RLIMIT_AS, 1<<20)
		works(t, b)
		works(t, b)
		closesClean(t, b)
	})
}

// TestGroupsBehindItsBack: a guest that would not be held to its limits does
// not start, and a group that is lost or busy costs no job.
func TestGroupsBehindItsBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"moved", "removed", "busy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, caps := open(t, forkserver.Config{})
			if len(caps.Limits) < 4 {
				t.Skipf("limits are %v here", caps.Isolated.Limits)
			}
			slot := treeOf(t, b).slots()[0]
			dirs := groupsOf(t, slot)
			if len(dirs) == 0 {
				t.Fatal("the slot is in no group")
			}
			stranger := slot
			if name == "busy" {
				stranger = sleeper(t)
			}
			for _, dir := range dirs {
				to := filepath.Dir(dir)
				if name == "busy" {
					to = dir
				}
				if err := os.WriteFile(filepath.Join(to, "cgroup.procs"), fmt.Append(nil, stranger), 0); err != nil {
					t.Fatal(err)
				}
				if name == "removed" {
					if err := os.Remove(dir); err != nil {
						t.Fatal(err)
					}
				}
			}
			s, err := guest{code: "return 6 * 7", limits: job.Limits{Memory: 100 * job.MiB}}.try(t.Context(), b)
			if name == "moved" && (err == nil || !strings.Contains(err.Error(), "control groups")) {
				t.Errorf("got %+v and error %v for a guest outside of its groups, want one that says so", s.outcome, err)
			}
			works(t, b)
			closesClean(t, b)
		})
	}
}

// bound sets a process's soft limit.
func bound(t *testing.T, pid, resource int, soft uint64) {
	t.Helper()
	var limit unix.Rlimit
	err := unix.Prlimit(pid, resource, nil, &limit)
	limit.Cur = soft
	if err = errors.Join(err, unix.Prlimit(pid, resource, &limit, nil)); err != nil {
		t.Fatal(err)
	}
}

func sleeper(t *testing.T) int {
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = p.Wait()
	})
	return p.Pid
}

func kill(t testing.TB, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatalf("signal %d: %v", pid, err)
	}
	if signal == unix.SIGSTOP {
		until(t, "it stops", func() bool { return strings.HasPrefix(statusOf(pid)["State"], "T") })
	}
}

// closesClean closes the backend and looks for what is left.
func closesClean(t testing.TB, b *forkserver.Backend) {
	t.Helper()
	var all []int
	for _, launcher := range b.Launchers() {
		all = append(append(all, launcher), descendants(launcher)...)
	}
	var dirs []string
	for _, pid := range all {
		if alive(pid) {
			dirs = append(dirs, groupsOf(t, pid)...)
		}
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, pid := range all {
		if alive(pid) {
			t.Errorf("process %d (%s) is still there", pid, statusOf(pid)["Name"])
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}

// publicDir is a directory that other users can reach, unlike t.TempDir's.
func publicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-forkserver-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
