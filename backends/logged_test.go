package backends_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"

	"github.com/rs/zerolog"
)

func TestLogged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		step fake.Step
		want []string
	}{
		{"an outcome", fake.Step{Mute: true, Cause: "out of memory"}, []string{`"level":"debug"`, `"backend":"fake"`, `"cause":"out of memory"`, `"message":"guest ended"`}},
		{"a failure", fake.Step{Fail: "gone"}, []string{`"level":"debug"`, `"error":"scripted failure: gone"`, `"message":"guest lost"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			b := backends.Logged(fake.New(fake.Config{Script: fake.Play(tt.step)}), fake.Name, zerolog.New(&out))
			task := backends.Task{
				Job: job.NewID(), Attempt: 2, Stdout: io.Discard, Stderr: io.Discard,
				Serve: func(context.Context, io.ReadWriteCloser) error { return nil },
			}
			_, _ = b.Run(t.Context(), task)
			if lines := strings.Count(out.String(), "\n"); lines != 1 {
				t.Errorf("got %d lines, want 1:\n%s", lines, out.String())
			}
			for _, want := range append(tt.want, `"job":"`+task.Job.String(), `"attempt":2`) {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got %s, want it to hold %s", out.String(), want)
				}
			}
		})
	}
}

func TestEveryCauseHasAName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := backends.Exited; c <= backends.Violated; c++ {
		if c.String() == "" || c.String() == "invalid" || seen[c.String()] {
			t.Errorf("cause %d is named %q", int(c), c)
		}
		seen[c.String()] = true
	}
}
