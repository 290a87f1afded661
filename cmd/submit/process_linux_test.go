package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start starts the command as a process of its own.
func (f *fleet) start(stdout, stderr any, args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command("submit", args...)
	cmd.Env = append(os.Environ(), "AIRLOCK_NATS="+f.url)
	if w, ok := stdout.(*safeBuffer); ok {
		cmd.Stdout = w
	}
	if w, ok := stderr.(*safeBuffer); ok {
		cmd.Stderr = w
	}
	if tty, ok := stdout.(*os.File); ok {
		cmd.Stdout = tty
	}
	if tty, ok := stderr.(*os.File); ok {
		cmd.Stderr = tty
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	return cmd
}

func wantExit(t *testing.T, cmd *exec.Cmd, code int, talk fmt.Stringer) {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("got exit code %d, want %d\n%s", got, code, talk)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		sig  os.Signal
		args []string
	}{
		{"run", os.Interrupt, []string{"run", "--code", "hang"}},
		{"run with SIGTERM", syscall.SIGTERM, []string{"run", "--code", "hang"}},
		{"batch", os.Interrupt, []string{"batch", write(t, "jobs.jsonl", strings.Repeat(`{"code": "hang"}`+"\n", 10))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetConfig{})
			talk := &safeBuffer{}
			cmd := f.start(nil, talk, tt.args...)
			eventually(t, "a job's start", func() bool { jobs, _ := f.ran(); return jobs > 0 })
			if err := cmd.Process.Signal(tt.sig); err != nil {
				t.Fatal(err)
			}
			wantExit(t, cmd, codeInterrupted, talk)
			if !strings.Contains(talk.String(), "interrupted") {
				t.Errorf("got %q, want a word on the interruption", talk.String())
			}
		})
	}
}

func TestSecondSignalLeavesAtOnce(t *testing.T) {
	t.Parallel()
	// No result will come of the cancelled job: it waits for a worker.
	f := newFleet(t, fleetConfig{workers: -1})
	talk := &safeBuffer{}
	cmd := f.start(nil, talk, "run", "--code", "hang", "--park")
	eventually(t, "the job's submission", func() bool {
		lanes, err := f.q.Lanes(t.Context())
		return err == nil && len(lanes) == 1 && lanes[0].Depth["normal"].Waiting == 1
	})
	for _, said := range []string{"", "cancelling"} {
		eventually(t, said, func() bool { return strings.Contains(talk.String(), said) })
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	wantExit(t, cmd, -1, talk) // ended by the signal itself
}

// TestBatchMemoryIsFlat runs a small and a large file and compares what the
// process took at most.
func TestBatchMemoryIsFlat(t *testing.T) {
	t.Parallel()
	peak := func(n int) int64 {
		f := newFleet(t, fleetConfig{})
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "{\"code\": \"print %s %d\"}\n", strings.Repeat("x", 8<<10), i)
		}
		file := write(t, "jobs.jsonl", text.String())
		talk := &safeBuffer{}
		cmd := f.start(nil, talk, "batch", file, "-o", file+".out", "--quiet", "--in-flight", "500")
		most := residentPeak(cmd.Process.Pid)
		wantExit(t, cmd, codeOK, talk)
		return most()
	}
	// The large file has 80 MiB of jobs, and as much in results.
	small, large := peak(1_000), peak(10_000)
	if small == 0 || large == 0 {
		t.Fatal("got no measurement")
	}
	t.Logf("peak: %d MiB for 1,000 jobs, %d MiB for 10,000", small>>20, large>>20)
	if large > small+32<<20 {
		t.Errorf("got %d MiB for 10,000 jobs, want about the %d MiB of 1,000", large>>20, small>>20)
	}
}

// residentPeak watches what a process holds at most, in bytes. Its rusage would
// not do: that starts with what the test held when it forked.
func residentPeak(pid int) (most func() int64) {
	var (
		wg   sync.WaitGroup
		peak int64
	)
	wg.Go(func() {
		for range time.Tick(20 * time.Millisecond) {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, after, found := strings.Cut(string(status), "VmHWM:")
			if err != nil || !found {
				return // it has ended
			}
			var kib int64
			if _, err := fmt.Sscan(after, &kib); err == nil {
				peak = max(peak, kib<<10)
			}
		}
	})
	return func() int64 {
		wg.Wait()
		return peak
	}
}

// openTerminal returns a terminal and what is seen on it.
func openTerminal(t *testing.T) (tty *os.File, screen *safeBuffer) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	fd := int(control.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 150}); err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	screen = &safeBuffer{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := control.Read(buffer)
			_, _ = screen.Write(buffer[:n]) // a buffer takes everything
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = tty.Close()
		<-done // the read fails once nobody has the terminal open
		_ = control.Close()
	})
	return tty, screen
}

func TestTerminalSeesNothingThatItWouldObey(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	tty, screen := openTerminal(t)
	talk := &safeBuffer{}
	wantExit(t, f.start(tty, talk, "run", "--code", "bytes"), codeOK, talk)
	want := `\xff\x1b[31mred\u202e` + "\r\n"
	eventually(t, "the output", func() bool { return len(screen.String()) >= len(want) })
	if got := screen.String(); got != want {
		t.Errorf("got %q on the terminal, want %q", got, want)
	}
	// A pipe gets the bytes themselves.
	if got := f.submit("run", "--code", "bytes"); got.stdout != "\xff\x1b[31mred\u202e\n" {
		t.Errorf("got %q in the pipe, want the guest's bytes", got.stdout)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.close()
	tty, screen := openTerminal(t)
	file := write(t, "jobs.jsonl", strings.Repeat(`{"code": "value 1"}`+"\n", 20)+`{"code": "fail"}`+"\nnonsense\n")
	out := &safeBuffer{}
	cmd := f.start(out, tty, "batch", file, "-o", file+".out")
	shown := func(text string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%q on the terminal", text), func() bool { return strings.Contains(screen.String(), text) })
	}
	shown("1/22 ")
	f.open()
	wantExit(t, cmd, codeFailed, screen)
	shown("22/22 ")
	shown("ok 20 guest_error 1 refused 1")
	shown("/s")
	shown("line 22: ")
}

func TestProgressInAPipe(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.close()
	file := jobsFile(t, 4)
	talk := &safeBuffer{}
	cmd := f.start(nil, talk, "batch", file, "--report-every", "10ms")
	eventually(t, "a line of progress", func() bool { return strings.Contains(talk.String(), "submit: 0/4, 0 jobs/s\n") })
	f.open()
	wantExit(t, cmd, codeOK, talk)
	if strings.ContainsRune(talk.String(), 0x1b) {
		t.Errorf("got an escape in %q", talk.String())
	}
	quiet := f.submit("batch", file, "--report-every", "1ms", "--quiet").want(t, codeOK)
	if quiet.stderr != "" {
		t.Errorf("got %q with --quiet, want nothing", quiet.stderr)
	}
}
