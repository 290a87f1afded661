//go:build unix

package failpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"airlock/worker/failpoint"
)

func TestMain(m *testing.M) {
	if value := os.Getenv("FAILPOINT_TEST_CHILD"); value != "" {
		p, err := failpoint.Parse(value, zerolog.New(os.Stderr))
		if err != nil {
			os.Exit(3)
		}
		for range 3 {
			p.At(failpoint.AfterClaim)
			os.Stdout.WriteString("passed\n")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKill: the process dies of SIGKILL at the arrival that was asked for.
func TestKill(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FAILPOINT_TEST_CHILD=after-claim@2")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL || out.String() != "passed\n" {
		t.Errorf("got %s after %q, want SIGKILL at the second arrival", cmd.ProcessState, out.String())
	}
	for _, want := range []string{"FAILPOINTS ARE ARMED", failpoint.Reached} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, errs.String())
		}
	}
}

func TestPauseHoldsOneArrival(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p, err := failpoint.Parse("in-call@2=pause=30ms,after-ack=pause=1h", zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 4 {
		p.At(failpoint.InCall)
		p.At(failpoint.BeforeClaim) // not armed
	}
	if got := time.Since(began); got < 30*time.Millisecond || strings.Count(log.String(), failpoint.Reached) != 1 {
		t.Errorf("held %s, log %s; want one hold of 30 ms", got, log.String())
	}
	if !p.Armed(failpoint.AfterAck) || p.Armed(failpoint.AfterCommit) {
		t.Error("Armed does not say what is armed")
	}
}

func TestUnset(t *testing.T) {
	t.Parallel()
	p, err := failpoint.Parse("", zerolog.Nop())
	if p != nil || err != nil {
		t.Errorf("got %v, %v; want nothing", p, err)
	}
	p.At(failpoint.AfterClaim)
	if p.Armed(failpoint.AfterClaim) {
		t.Error("a nil set has an armed point")
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"nowhere", "after-claim=explode", "after-claim=pause", "after-claim=pause=-1s", "after-claim@0", "after-claim@x",
		"after-claim,after-claim=stop", "after-claim,", "after-claim=kill=1",
	} {
		if p, err := failpoint.Parse(value, zerolog.Nop()); err == nil || p != nil || !strings.Contains(err.Error(), failpoint.Env) {
			t.Errorf("%q: got %v, %v; want an error that names the variable", value, p, err)
		}
	}
}

// BenchmarkUnarmed is what a step costs a worker without failpoints.
func BenchmarkUnarmed(b *testing.B) {
	var p *failpoint.Points
	for b.Loop() {
		p.At(failpoint.AfterClaim)
	}
}
