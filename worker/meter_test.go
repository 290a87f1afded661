package worker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/backends"
	"airlock/backends/fake"
	"airlock/job"
	"airlock/worker"
)

// tally is a Meter that notes what it was told.
type tally struct {
	mu     sync.Mutex
	told   []string // guarded by mu, as phases
	phases []string
}

func (m *tally) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, what)
}

func (m *tally) Claim(outcome string)           { m.note("claim " + outcome) }
func (m *tally) Attempt(backend, status string) { m.note("attempt " + backend + " " + status) }
func (m *tally) LeaseLost()                     { m.note("lease lost") }
func (m *tally) Fenced()                        { m.note("fenced") }

func (m *tally) Phase(_, phase string, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phases = append(m.phases, phase)
}

func TestWhatAMeterIsTold(t *testing.T) {
	done := said{report: &job.Report{Ready: time.Now().Add(time.Second), Done: true, Value: []byte("1")}}
	exited := ends(backends.Outcome{Cause: backends.Exited})
	for _, tc := range []struct {
		name   string
		ledger *ledger
		script fake.Script
		edit   func(*job.Job)
		want   []string
	}{
		{name: "a result", ledger: &ledger{}, script: exited, want: []string{"claim claimed", "attempt fake ok"}},
		{name: "held elsewhere", ledger: &ledger{claim: job.Claim{Verdict: job.Held}}, script: exited, want: []string{"claim held"}},
		{name: "unfit", ledger: &ledger{}, script: exited, edit: func(j *job.Job) { j.Requires.Backends = []string{"docker"} }, want: []string{"claim unfit"}},
		{name: "unreachable", ledger: &ledger{claimed: job.ErrUnreachable}, script: exited, want: []string{"claim unreachable"}},
		{name: "fenced off", ledger: &ledger{refuse: func(int) error { return job.ErrFenced }}, script: exited, want: []string{"claim claimed", "fenced", "attempt fake abandoned"}},
		{name: "lease lost", ledger: &ledger{}, script: lives, edit: func(j *job.Job) { j.Limits.Wall = job.Duration(10 * time.Minute) }, want: []string{"claim claimed", "lease lost", "attempt fake abandoned"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &tally{}
				b := newBench(t, tc.ledger, done, tc.script, func(j *job.Job, cfg *worker.Config) {
					cfg.Meter = m
					if tc.edit != nil {
						tc.edit(j)
					}
				})
				b.Handle(t.Context(), b.delivery())
				if diff := cmp.Diff(tc.want, m.told); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
				for _, phase := range m.phases {
					if !slices.Contains(worker.Phases(), phase) {
						t.Errorf("phase %q is none of worker.Phases", phase)
					}
				}
				if tc.name == "a result" && !slices.Contains(m.phases, worker.PhaseAnnounce) {
					t.Errorf("got phases %v, want the announcement among them", m.phases)
				}
			})
		})
	}
}

func TestAMeterIsToldOfWhatIsHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &tally{}
		b := newBench(t, &ledger{}, said{}, lives, func(_ *job.Job, cfg *worker.Config) { cfg.Meter = m })
		over := make(chan struct{})
		go func() { defer close(over); b.Handle(context.Background(), b.delivery()) }()
		synctest.Wait()
		b.HandBack()
		<-over
		if diff := cmp.Diff([]string{"claim claimed", "attempt fake " + worker.AttemptHandedBack}, m.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
