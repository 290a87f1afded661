package main

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// TestAReceiptSaysWhereTheJobStands: behind what the tenant submitted before.
func TestAReceiptSaysWhereTheJobStands(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{slots: 1})
	f.close()
	var receipt struct {
		Job   job.ID `json:"job"`
		Ahead *int   `json:"ahead"`
	}
	for n := range 5 {
		got := f.submit("run", "--code", "print x", "--no-wait", "--json").want(t, codeOK)
		receipt.Ahead = nil
		if err := json.Unmarshal([]byte(got.stdout), &receipt); err != nil {
			t.Fatalf("receipt %q: %v", got.stdout, err)
		}
		// One may be running by then.
		if receipt.Ahead == nil || *receipt.Ahead > n || *receipt.Ahead < n-1 {
			t.Errorf("receipt %d: got %s, want about %d ahead", n, got.stdout, n)
		}
	}
	f.submit("run", "--code", "print x", "--no-wait").want(t, codeOK).wantIn(t, "stderr", "jobs are before it")
	f.open()
}

// TestOverQuotaIsToldWithItsNumbers: while the command waits for room.
func TestOverQuotaIsToldWithItsNumbers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{slots: 1, quota: 2})
	f.close()
	f.submit("run", "--code", "print x", "--no-wait").want(t, codeOK)
	f.submit("run", "--code", "print x", "--no-wait").want(t, codeOK)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stdout, stderr safeBuffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"run", "--code", "print third"}, []string{"AIRLOCK_NATS=" + f.url}, strings.NewReader(""), &stdout, &stderr)
	}()
	eventually(t, "the refusal", func() bool {
		return strings.Contains(stderr.String(), "over quota: tenant default has 2 of at most 2 normal jobs in lane any")
	})
	f.open()
	if code := <-done; code != codeOK || stdout.String() != "third" {
		t.Errorf("got exit code %d, stdout %q once there was room, want 0 and third; stderr %s", code, stdout.String(), stderr.String())
	}
}

// TestEarlierTriesAreTold: a retry that helped is not hidden.
func TestEarlierTriesAreTold(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("run", "--code", "second").want(t, codeOK)
	got.wantIn(t, "stderr", "attempt 1 failed on docker, worker w0: infra_error (backend_error: gone")
	if strings.Contains(got.stderr, "attempt 2") || strings.Contains(got.stderr, "\x1b") {
		t.Errorf("got stderr %q, want the first attempt only, made harmless", got.stderr)
	}
	r := results(t, f.submit("run", "--code", "second", "--json").want(t, codeOK).stdout)[0]
	if len(r.Attempts) != 2 || r.Attempts[0].Worker != "w0" || r.Attempts[0].Status != job.StatusInfraError {
		t.Errorf("got attempts %+v in the JSON, want both", r.Attempts)
	}
}

// TestRetryOnReachesTheJob: as a list, and wrong words are refused.
func TestRetryOnReachesTheJob(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("run", "--code", "echo", "--retry-on", "timeout,guest_error", "--json").want(t, codeOK)
	if !strings.Contains(got.stdout, `"retry_on":["timeout","guest_error"]`) {
		t.Errorf("got %s, want both statuses in the job", got.stdout)
	}
	f.submit("run", "--code", "echo", "--retry-on", "ok").want(t, codeUsage).wantIn(t, "stderr", "retry_on[0]")
	f.submit("run", "--code", "echo", "--retry-on", "never").want(t, codeUsage)
}
