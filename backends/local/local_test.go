package local_test

import (
	"errors"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/local"
	"airlock/job"
)

// TestRefusedByDefault: without the operator's word nothing runs.
func TestRefusedByDefault(t *testing.T) {
	t.Parallel()
	b := local.New(local.Config{})
	defer b.Close()
	_, err := b.Probe(t.Context())
	if !errors.Is(err, backends.ErrUnavailable) || !strings.Contains(err.Error(), "--allow-no-isolation") {
		t.Errorf("got %v from Probe, want ErrUnavailable that names --allow-no-isolation", err)
	}
	_, err = b.Run(t.Context(), backends.Task{Job: job.NewID(), Limits: job.DefaultLimits()})
	if err == nil || !strings.Contains(err.Error(), "--allow-no-isolation") {
		t.Errorf("got %v from Run, want an error that names --allow-no-isolation", err)
	}
}
