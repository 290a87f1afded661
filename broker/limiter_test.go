package broker_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/broker/policy"
	"airlock/job"
)

// sharing is a worker for several conversations.
func sharing(tools *brokertest.Tools, cfg broker.Config) *broker.Broker {
	cfg.Tools, cfg.Audit = tools, brokertest.Nothing{}
	return broker.New(cfg)
}

// over ends a conversation whose audit nobody looks at.
func (b *bench) over(t *testing.T) *job.Report {
	t.Helper()
	b.Finish(1<<20, "null")
	report, err := b.Wait()
	if err != nil {
		t.Fatalf("Serve: got error %v, want none", err)
	}
	return report
}

func TestARateHoldsForATenantsJobsTogether(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	once, other := counting(tools, t, broker.ToolSpec{Namespace: "n", Name: "once"}), counting(tools, t, broker.ToolSpec{Namespace: "n", Name: "other"})
	shared := sharing(tools, rules(t, all(`"rate": {"per_second": 0.0001, "burst": 2}`)))
	one := begin(t, setup{shared: shared, tools: tools, grants: "n.*", edits: []func(*job.Job){of("a"), func(j *job.Job) { j.Limits.ToolCalls = 3 }}})
	two := begin(t, setup{shared: shared, tools: tools, grants: "n.*", edits: []func(*job.Job){of("a")}})
	foreign := begin(t, setup{shared: shared, tools: tools, grants: "n.*", edits: []func(*job.Job){of("b")}})
	for _, b := range []*bench{one, two, foreign} {
		b.Hello()
	}
	one.Call(1, "n.once", `{}`)
	one.Expect(value(1, "1"))
	two.Call(1, "n.once", `{}`)
	two.Expect(value(1, "2"))
	for i := range 5 { // refused calls are no calls of the job
		one.Call(2+i, "n.once", `{}`)
		if reply := one.Recv(); !strings.Contains(reply, `"rate_limited"`) || !strings.Contains(reply, `"retryable":true`) {
			t.Errorf("got %s, want rate_limited, retryable", reply)
		}
	}
	for i := range 2 {
		one.Call(20+i, "n.other", `{}`)
		one.Expect(value(20+i, fmt.Sprint(i+1)))
	}
	foreign.Call(1, "n.once", `{}`)
	foreign.Expect(value(1, "3"))
	if report := one.over(t); report.ToolCalls != 3 || report.ToolLimited {
		t.Errorf("got %d calls, limited %v, want 3 and not", report.ToolCalls, report.ToolLimited)
	}
	two.over(t)
	foreign.over(t)
	if once.Load() != 3 || other.Load() != 2 {
		t.Errorf("got %d and %d calls, want 3 and 2", once.Load(), other.Load())
	}
}

func TestACallWaitsForItsTurnInTheRate(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{cfg: rules(t, all(`"rate": {"per_second": 100}`))})
	b.Hello()
	for i := range 6 { // all but the first come before their turn
		b.Call(i, "math.add", `{"a": 1, "b": 1}`)
		b.Expect(value(i, `{"sum":2}`))
	}
	b.end(t)
}

// gated is a tool whose calls wait until the test lets them go.
type gated struct {
	tools   *brokertest.Tools
	release chan struct{}
	running atomic.Int64
	most    atomic.Int64
}

func newGated(t *testing.T) *gated {
	g := &gated{tools: &brokertest.Tools{}, release: make(chan struct{})}
	g.tools.Add(t, "n.slow", "", func(broker.Request) *broker.Answer {
		now := g.running.Add(1)
		for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
		}
		<-g.release
		g.running.Add(-1)
		return brokertest.Body("1")
	})
	return g
}

func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !met(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

func TestConcurrencyHoldsForATenantsJobsTogether(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	shared := sharing(g.tools, rules(t, all(`"concurrency": 2`)))
	var benches []*bench
	for range 3 {
		b := begin(t, setup{shared: shared, tools: g.tools, grants: "n.*", edits: []func(*job.Job){of("a")}})
		b.Hello()
		b.Call(1, "n.slow", `{}`)
		b.Call(2, "n.slow", `{}`)
		benches = append(benches, b)
	}
	until(t, "two calls", func() bool { return g.running.Load() == 2 })
	foreign := begin(t, setup{shared: shared, tools: g.tools, grants: "n.*", edits: []func(*job.Job){of("b")}})
	foreign.Hello()
	foreign.Call(1, "n.slow", `{}`)
	until(t, "another tenant's call", func() bool { return g.running.Load() == 3 })
	close(g.release)
	for _, b := range benches {
		b.Recv()
		b.Recv()
		b.over(t)
	}
	foreign.Expect(value(1, "1"))
	foreign.over(t)
	if most, sent := g.most.Load(), len(g.tools.Requests()); most != 3 || sent != 7 {
		t.Errorf("at most %d at once of %d calls, want 2 of one tenant and 1 of another, of 7", most, sent)
	}
}

func TestACallThatDoesNotGetAPlaceIsRefused(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	patient, hasty := rules(t, all(`"concurrency": 1`)).Policy(), rules(t, all(`"concurrency": 1, "timeout": "30ms"`)).Policy()
	var now atomic.Pointer[policy.Policy]
	now.Store(patient)
	shared := sharing(g.tools, broker.Config{Policy: now.Load})
	first := begin(t, setup{shared: shared, tools: g.tools, grants: "n.*"})
	first.Hello()
	first.Call(1, "n.slow", `{}`)
	until(t, "the first call", func() bool { return g.running.Load() == 1 })
	now.Store(hasty)
	second := begin(t, setup{shared: shared, tools: g.tools, grants: "n.*"})
	second.Hello()
	second.Call(1, "n.slow", `{}`)
	second.ExpectCode(1, broker.CodeRateLimited)
	if report := second.over(t); report.ToolCalls != 0 || len(g.tools.Requests()) != 1 {
		t.Errorf("got %d calls and %d requests, want none and the first", report.ToolCalls, len(g.tools.Requests()))
	}
	close(g.release)
	first.Expect(value(1, "1"))
	first.over(t)
}

// What waits for its turn ends with its job, and gives back what it had.
func TestAWaitEndsWithTheJob(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	shared := sharing(g.tools, rules(t, all(`"concurrency": 1`)))
	b := begin(t, setup{shared: shared, tools: g.tools, grants: "n.*"})
	b.Hello()
	b.Call(1, "n.slow", `{}`)
	until(t, "the first call", func() bool { return g.running.Load() == 1 })
	b.Call(2, "n.slow", `{}`)
	b.Send(`{"id":3,"method":"result","params":{"value":1}}`)
	for range 2 {
		if reply := b.Recv(); !strings.Contains(reply, `"cancelled"`) {
			t.Errorf("got %s, want cancelled", reply)
		}
	}
	b.Expect(`{"id":3,"ok":true}`)
	b.Close()
	close(g.release)
	if _, err := b.Wait(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	again := begin(t, setup{shared: shared, tools: g.tools, grants: "n.*"})
	again.Hello()
	again.Call(1, "n.slow", `{}`)
	again.Expect(value(1, "1"))
	again.over(t)
}

// A turn that would come after the job's tool time is not waited for: the time
// is left for other calls.
func TestAWaitLeavesTheJobItsToolTime(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{
		cfg:   rules(t, `{"tenant": "*", "namespace": "math", "name": "add", "rate": {"per_second": 0.001}}`, all(`"calls": 9`)),
		edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolTime = job.Duration(5 * time.Minute) }},
	})
	b.Hello()
	b.Call(1, "math.add", `{"a": 1, "b": 1}`)
	b.Expect(value(1, `{"sum":2}`))
	b.Call(2, "math.add", `{"a": 1, "b": 1}`)
	b.ExpectCode(2, broker.CodeRateLimited)
	b.Call(3, "math.echo", `{"text": "x"}`)
	if reply := b.Recv(); !strings.Contains(reply, `"ok":true`) {
		t.Errorf("another tool: got %s, want an answer", reply)
	}
	b.end(t)
}

// A call that timed out has left its place, though its answer may still come.
func TestACallThatTimedOutHoldsNoPlace(t *testing.T) {
	t.Parallel()
	tools, calls := &brokertest.Tools{}, &atomic.Int64{}
	tools.Add(t, "n.t", "", func(broker.Request) *broker.Answer {
		if calls.Add(1) == 1 {
			return nil
		}
		return brokertest.Body("2")
	})
	b := begin(t, setup{tools: tools, grants: "n.*", cfg: rules(t, all(`"concurrency": 1, "timeout": "1s"`))})
	b.Hello()
	b.Call(1, "n.t", `{}`)
	b.ExpectCode(1, broker.CodeTimeout)
	for id, reply := 2, ""; !strings.Contains(reply, `"value":2`); id++ {
		b.Call(id, "n.t", `{}`)
		// An answer that takes longer than the second is another matter.
		if reply = b.Recv(); !strings.Contains(reply, `"value":2`) && !strings.Contains(reply, `"timeout"`) {
			t.Fatalf("got %s, want the answer", reply)
		}
	}
	b.end(t)
}
