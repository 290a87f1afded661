package broker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// recorded holds a conversation with parallel and refused calls, and returns
// what was recorded and reported of it.
func recorded(t *testing.T) (*job.Attempt, []job.Call, string) {
	t.Helper()
	b := begin(t, setup{grants: "math.add"})
	b.Hello()
	for i := range 5 {
		b.Call(2*i, "math.add", fmt.Sprintf(`{"a":%d,"b":1}`, i))
		b.Call(2*i+1, "math.echo", `{"text":"refused"}`)
	}
	for range 10 {
		b.Recv()
	}
	report := b.end(t)
	return b.attempt, b.audit.Calls(), report.AuditHead
}

func TestVerifySeesTampering(t *testing.T) {
	t.Parallel()
	a, calls, head := recorded(t)
	verify := func(calls []job.Call) (string, error) { return broker.Verify(a.Job.ID, a.Number, calls) }
	if got, err := verify(calls); err != nil || got != head {
		t.Fatalf("untouched: got head %s and error %v, want %s", got, err, head)
	}
	shuffled := slices.Clone(calls)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if got, err := verify(shuffled); err != nil || got != head {
		t.Errorf("in another order: got head %s and error %v, want %s", got, err, head)
	}
	edits := map[string]func(c *job.Call){
		"namespace": func(c *job.Call) { c.Namespace += "x" },
		"name":      func(c *job.Call) { c.Name += "x" },
		"arguments": func(c *job.Call) { c.Arguments = jsontext.Value(`{}`) },
		"state":     func(c *job.Call) { c.State = job.CallCancelled },
		"answer":    func(c *job.Call) { c.Answer = jsontext.Value(`{"sum":666}`) },
		"code":      func(c *job.Call) { c.Code += "x" },
		"message":   func(c *job.Call) { c.Message += "x" },
		"detail":    func(c *job.Call) { c.Detail += "x" },
		"started":   func(c *job.Call) { c.Started = c.Started.Add(time.Microsecond) },
		"ended":     func(c *job.Call) { c.Ended = c.Ended.Add(time.Microsecond) },
		"provider":  func(c *job.Call) { c.Provider += "x" },
		"digest":    func(c *job.Call) { c.SchemaDigest += "x" },
		"retryable": func(c *job.Call) { c.Retryable = !c.Retryable },
		"attempt":   func(c *job.Call) { c.Attempt++ },
		"job":       func(c *job.Call) { c.Job = job.NewID() },
		"sequence":  func(c *job.Call) { c.Seq++ },
		"link":      func(c *job.Call) { c.EndLink++ },
		"no end":    func(c *job.Call) { c.EndLink, c.EndHash = 0, nil },
		"hash":      func(c *job.Call) { c.EndHash = slices.Clone(c.EndHash); c.EndHash[0] ^= 1 },
		"moved text": func(c *job.Call) { // between two fields
			c.Namespace, c.Name = c.Namespace+c.Name[:1], c.Name[1:]
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			for i := range calls {
				edited := slices.Clone(calls)
				edit(&edited[i])
				if got, err := verify(edited); err == nil && got == head {
					t.Errorf("call %d: got no error and the same head, want the edit to be seen", calls[i].Seq)
				}
			}
		})
	}
	for i := range calls {
		if got, err := verify(slices.Delete(slices.Clone(calls), i, i+1)); err == nil && got == head {
			t.Errorf("without call %d: got no error and the same head, want the loss to be seen", calls[i].Seq)
		}
		twice := append(slices.Clone(calls), calls[i])
		if _, err := verify(twice); err == nil {
			t.Errorf("call %d twice: got no error, want one", calls[i].Seq)
		}
	}
	if _, err := broker.Verify(a.Job.ID, a.Number+1, calls); err == nil {
		t.Errorf("as another attempt: got no error, want one")
	}
}

func TestChainOfNoCalls(t *testing.T) {
	t.Parallel()
	id := job.NewID()
	first, err := broker.Verify(id, 1, nil)
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	second, _ := broker.Verify(id, 2, nil)
	other, _ := broker.Verify(job.NewID(), 1, nil)
	if first == second || first == other {
		t.Errorf("got heads %s, %s, %s, want three different ones", first, second, other)
	}
}

// Whatever the mix of calls and their order, sequences and links have no gap,
// and the chain verifies.
func TestChainProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		audit := &brokertest.Audit{}
		guest, host := brokertest.NewSocketGuest(t)
		limit := rapid.IntRange(1, 10).Draw(rt, "limit")
		a := brokertest.Attempt(t, "math.add", func(j *job.Job) { j.Limits.ToolCalls = limit })
		running := brokertest.Serve(t, broker.New(broker.Config{Tools: brokertest.Math(t), Audit: audit}), a, host)
		guest.Hello()
		kinds := []struct{ tool, arguments string }{
			{"math.add", `{"a":1,"b":1}`}, {"math.add", `{"a":1}`}, {"math.add", `[]`}, {"math.echo", `{}`}, {"a.b", `{}`}, {"math.a.b", `1`},
		}
		n := rapid.IntRange(0, 20).Draw(rt, "calls")
		good := 0
		for i := range n {
			kind := rapid.IntRange(0, len(kinds)-1).Draw(rt, "kind")
			if kind == 0 {
				good++
			}
			guest.Call(i, kinds[kind].tool, kinds[kind].arguments)
		}
		for range n {
			guest.Recv()
		}
		guest.Finish(n, "0")
		report, err := running.Wait()
		if err != nil || report.ToolCalls != min(good, limit) || report.ToolLimited != (good > limit) {
			rt.Fatalf("got %d calls, limited %v, error %v, want %d of %d", report.ToolCalls, report.ToolLimited, err, min(good, limit), good)
		}
		calls := audit.Calls()
		if len(calls) != n {
			rt.Fatalf("got %d calls recorded, want %d", len(calls), n)
		}
		if head, err := broker.Verify(a.Job.ID, a.Number, calls); err != nil || head != report.AuditHead {
			rt.Fatalf("Verify: got head %s and error %v, want %s", head, err, report.AuditHead)
		}
	})
}
