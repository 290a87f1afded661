package broker_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"airlock/broker"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
)

// tally is a Meter that notes what it was told.
type tally struct {
	mu   sync.Mutex
	told []string // guarded by mu
}

func (m *tally) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, what)
}

func (m *tally) Call(tool string, state job.CallState, took time.Duration) {
	m.note("call " + tool + " " + string(state))
}

func (m *tally) Audited(start bool, _ time.Duration, err error) {
	what := "end"
	if start {
		what = "start"
	}
	if err != nil {
		what += " lost"
	}
	m.note(what)
}

// TestWhatAMeterIsTold: of a name that no provider announces, nothing.
func TestWhatAMeterIsTold(t *testing.T) {
	t.Parallel()
	m := &tally{}
	b := begin(t, setup{cfg: broker.Config{Meter: m}})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.Recv()
	for id, name := range []string{"math.evil", "evil.add", `e\u001bvil`, ""} {
		b.Send(`{"id":` + string(rune('2'+id)) + `,"method":"call_tool","params":{"namespace":"math","name":"` + name + `","arguments":{}}}`)
		b.Recv()
	}
	b.end(t)
	slices.Sort(m.told)
	want := []string{"call  refused", "call  refused", "call  refused", "call  refused", "call math.add ok", "end", "end", "end", "end", "end", "start"}
	if diff := cmp.Diff(want, m.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
