package bubblewrap_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/backends"
	"airlock/backends/bubblewrap"
	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
)

// open gives a backend that probes well, or skips.
func open(t *testing.T) (*bubblewrap.Backend, backends.Capabilities) {
	t.Helper()
	b := bubblewrap.New(bubblewrap.Config{Log: zerolog.New(zerolog.NewTestWriter(t))})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	caps, err := b.Probe(t.Context())
	if err != nil && slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), bubblewrap.Name) {
		t.Fatalf("AIRLOCK_REQUIRE names bubblewrap: %v", err)
	}
	if err != nil {
		t.Skip(err)
	}
	return b, caps
}

// seen is what became of a guest.
type seen struct {
	outcome        backends.Outcome
	stdout, stderr string
	// value is the code's as JSON, fault its exception.
	value, fault string
}

// ran runs code that calls no tool and fails the test if Run does.
func ran(t *testing.T, b backends.Backend, code string, limits job.Limits) seen {
	t.Helper()
	s, err := try(t.Context(), b, code, limits, nil)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return s
}

func try(ctx context.Context, b backends.Backend, code string, limits job.Limits, enforce []job.LimitName) (s seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	s.outcome, err = b.Run(ctx, backends.Task{
		Job: job.NewID(), Attempt: 1, Limits: limits.WithDefaults(), Enforce: enforce, Stdout: &stdout, Stderr: &stderr,
		Serve: func(_ context.Context, channel io.ReadWriteCloser) error { return s.serve(channel, code) },
	})
	s.stdout, s.stderr = stdout.String(), stderr.String()
	return s, err
}

// serve is the host's side; that a guest ends without a result is no error.
func (s *seen) serve(channel io.ReadWriter, code string) error {
	var hello, last frame.Request
	if err := frame.Read(channel, &hello); err != nil {
		return nil
	}
	limits := frame.Limits{Result: 1 << 20, Frame: frame.Max, Parallel: 1}
	if err := frame.Write(channel, frame.Job{Method: "job", Params: frame.JobParams{Code: code, Limits: limits}}); err != nil {
		return nil
	}
	if err := frame.Read(channel, &last); err != nil {
		return nil
	}
	var result frame.Result
	if err := json.Unmarshal(last.Params, &result); err != nil {
		return err
	}
	s.value = string(result.Value)
	if result.Error != nil {
		s.fault = fmt.Sprintf("%s: %s\n%s", result.Error.Type, result.Error.Message, result.Error.Traceback)
	}
	return frame.Write(channel, frame.Reply{ID: *last.ID, OK: true})
}
