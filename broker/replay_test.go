package broker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"
)

// history is a record in memory: of attempts of one job, or of another job's
// last attempt.
type history struct {
	id    job.ID
	calls []job.Call
	asked atomic.Int32
	fails atomic.Int32 // so often it cannot be reached
}

func (h *history) Recorded(_ context.Context, q job.CallQuery, each func(job.Call) error) error {
	h.asked.Add(1)
	if h.fails.Add(-1) >= 0 {
		return fmt.Errorf("select: %w", job.ErrUnreachable)
	}
	if q.Job != h.id || q.Tenant != job.DefaultTenant {
		return nil
	}
	calls := slices.Clone(h.calls)
	slices.SortStableFunc(calls, func(a, b job.Call) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Seq, b.Seq))
	})
	for _, c := range calls {
		switch {
		case q.Seq > 0 && (c.Seq != q.Seq || c.Attempt != q.Attempt), q.Before > 0 && c.Attempt >= q.Before:
			continue
		}
		if q.Outline {
			c.Answer, c.Detail = nil, ""
		}
		if err := each(c); err != nil {
			return err
		}
	}
	return nil
}

// again begins another attempt after what h holds.
func again(t *testing.T, h *history, s setup, number int) *bench {
	t.Helper()
	s.cfg.Past = h
	s.number = number
	s.edits = append(s.edits, func(j *job.Job) { j.ID = h.id })
	return begin(t, s)
}

// counter offers n.spend, which is called in earnest, and n.look, which says it
// is idempotent. Both answer how often they were called.
func counter(t *testing.T) *brokertest.Tools {
	tools, n := &brokertest.Tools{}, new(atomic.Int32)
	handle := func(broker.Request) *broker.Answer { return brokertest.Body(fmt.Sprint(n.Add(1))) }
	tools.Add(t, "n.spend", "", handle)
	tools.AddSpec(t, broker.ToolSpec{Namespace: "n", Name: "look", Idempotent: true}, handle)
	return tools
}

func record(b *bench) []job.Call { return b.audit.Calls() }

// said is how a call was answered, without its id.
func said(b *bench, id int, tool, arguments string) string {
	b.Call(id, tool, arguments)
	reply := b.Recv()
	_, reply, _ = strings.Cut(reply, ",")
	return reply
}

func TestALaterAttemptIsGivenWhatWasAnswered(t *testing.T) {
	t.Parallel()
	h := &history{id: job.NewID()}
	tools := counter(t)
	first := again(t, h, setup{tools: tools, grants: "n.*"}, 1)
	first.Hello()
	for i, arguments := range []string{`{"x":1,"y":"é"}`, `{"x":1,"y":"é"}`, `{"x":2}`} {
		said(first, i, "n.spend", arguments)
	}
	first.end(t)
	if h.asked.Load() != 0 {
		t.Errorf("a first attempt asked %d times for a record, want never", h.asked.Load())
	}
	h.calls = record(first)

	second := again(t, h, setup{tools: tools, grants: "n.*"}, 2)
	second.Hello()
	got := []string{
		said(second, 0, "n.spend", `{"x":2}`),
		said(second, 1, "n.spend", `{"y":"\u00e9", "x":1}`),
		said(second, 2, "n.spend", `{"x":1,"y":"é"}`),
		said(second, 3, "n.spend", `{"x":1,"y":"é"}`), // one more than before
		said(second, 4, "n.spend", `{"x":1.0,"y":"é"}`),
	}
	want := []string{`"ok":true,"value":3}`, `"ok":true,"value":1}`, `"ok":true,"value":2}`, `"ok":true,"value":4}`, `"ok":true,"value":5}`}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	report := second.end(t)
	if report.ToolCalls != 5 {
		t.Errorf("got %d calls counted, want 5", report.ToolCalls)
	}
	var states []string
	for _, c := range record(second) {
		states = append(states, fmt.Sprintf("%s %s %s", c.State, c.Answer, c.Detail))
	}
	wantStates := []string{
		"replayed 3 recorded by attempt 1 as call 3", "replayed 1 recorded by attempt 1 as call 1",
		"replayed 2 recorded by attempt 1 as call 2", "ok 4 ", "ok 5 ",
	}
	if diff := gocmp.Diff(wantStates, states); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}

	// A third attempt finds what the first and the second were answered.
	h.calls = append(h.calls, numbered(record(second), 2)...)
	third := again(t, h, setup{tools: tools, grants: "n.*"}, 3)
	third.Hello()
	for i, want := range []string{"1", "2", "4", "6"} {
		if got := said(third, i, "n.spend", `{"x":1,"y":"é"}`); got != `"ok":true,"value":`+want+`}` {
			t.Errorf("call %d of the third attempt: got %s, want %s", i, got, want)
		}
	}
	third.end(t)
}

func numbered(calls []job.Call, attempt int) []job.Call {
	for i := range calls {
		calls[i].Attempt = attempt
	}
	return calls
}

func TestWhatALaterAttemptDoesAboutEachEnd(t *testing.T) {
	t.Parallel()
	const made, refused, value = `"ok":true,"value":1}`, `"code":"not_recorded"`, `"ok":true,"value":"then"}`
	for _, c := range []struct {
		name         string
		state        job.CallState
		code, answer string
		spend, look  string // what the guest is told, of a tool that is not and one that is idempotent
	}{
		{"ok", job.CallOK, "", `"then"`, value, value},
		{"late", job.CallLate, "timeout", `"then"`, value, value},
		{"late with a failure", job.CallLate, "timeout", "", made, made},
		{"redacted", job.CallOK, "", `{"card":"[redacted]"}`, refused, made},
		{"not kept", job.CallOK, "", "", refused, made},
		{"provider error", job.CallFailed, "provider_error", "", `"code":"provider_error","message":"no funds","retryable":true`, `"retryable":true`},
		{"bad answer", job.CallFailed, "bad_answer", "", `"code":"bad_answer"`, `"code":"bad_answer"`},
		{"too large", job.CallFailed, "too_large", "", `"code":"too_large"`, `"code":"too_large"`},
		{"timeout", job.CallFailed, "timeout", "", made, made},
		{"nobody there", job.CallFailed, "no_provider", "", made, made},
		{"cancelled", job.CallCancelled, "cancelled", "", made, made},
		{"worker died", job.CallStarted, "", "", made, made},
		{"not recorded", job.CallRefused, "audit_failed", "", made, made},
	} {
		for tool, want := range map[string]string{"n.spend": c.spend, "n.look": c.look} {
			t.Run(c.name+" "+tool, func(t *testing.T) {
				t.Parallel()
				id := job.NewID()
				h := &history{id: id, calls: []job.Call{{
					Job: id, Attempt: 1, Seq: 1, Namespace: "n", Name: tool[2:], Arguments: jsontext.Value(`{"a":1}`), State: c.state,
					Code: c.code, Message: "no funds", Answer: jsontext.Value(c.answer), StartLink: 1, Retryable: c.code == "provider_error",
				}}}
				b := again(t, h, setup{tools: counter(t), grants: "n.*"}, 2)
				b.Hello()
				if got := said(b, 1, tool, `{"a":1}`); !strings.Contains(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
				b.end(t)
				if sent := len(b.tools.Requests()); (sent == 1) != (want == made) {
					t.Errorf("got %d requests, want one only where it is made", sent)
				}
			})
		}
	}
}

// A call of which nobody knows whether it acted is made under its own key.
func TestAnUnknownCallKeepsItsKey(t *testing.T) {
	t.Parallel()
	h := &history{id: job.NewID()}
	tools := counter(t)
	first := again(t, h, setup{tools: tools, grants: "n.*"}, 1)
	first.Hello()
	for i := range 3 {
		said(first, i, "n.spend", `{}`)
	}
	first.end(t)
	h.calls = record(first)
	h.calls[1].State, h.calls[1].Answer, h.calls[1].EndLink = job.CallStarted, nil, 0
	second := again(t, h, setup{tools: tools, grants: "n.*"}, 2)
	second.Hello()
	for i, want := range []string{"1", "4", "3"} {
		if got := said(second, i, "n.spend", `{}`); got != `"ok":true,"value":`+want+`}` {
			t.Errorf("call %d: got %s, want %s", i, got, want)
		}
	}
	second.end(t)
	sent := tools.Requests()
	if len(sent) != 4 || sent[3].Key != sent[1].Key {
		t.Errorf("got requests %+v, want the fourth with the key of the second", sent)
	}

	// What the second attempt was answered stands in for it in a third.
	h.calls = append(h.calls, numbered(record(second), 2)...)
	third := again(t, h, setup{tools: tools, grants: "n.*"}, 3)
	third.Hello()
	for i, want := range []string{"1", "4", "3"} {
		if got := said(third, i, "n.spend", `{}`); got != `"ok":true,"value":`+want+`}` {
			t.Errorf("third attempt, call %d: got %s, want %s", i, got, want)
		}
	}
	third.end(t)
}

func TestRecallMakesAllCallsAgain(t *testing.T) {
	t.Parallel()
	id := job.NewID()
	h := &history{id: id, calls: []job.Call{{
		Job: id, Attempt: 1, Seq: 1, Namespace: "n", Name: "spend", Arguments: jsontext.Value(`{}`), State: job.CallOK, Answer: jsontext.Value(`9`), StartLink: 1,
	}}}
	b := again(t, h, setup{tools: counter(t), grants: "n.*", edits: []func(*job.Job){func(j *job.Job) { j.OnRetry = job.OnRetryRecall }}}, 2)
	b.Hello()
	if got := said(b, 1, "n.spend", `{}`); got != `"ok":true,"value":1}` {
		t.Errorf("got %s, want the call made", got)
	}
	b.end(t)
	if h.asked.Load() != 0 {
		t.Errorf("got %d questions for the record, want none", h.asked.Load())
	}
}

func TestAReplayedCallCountsAndNeedsItsRecord(t *testing.T) {
	t.Parallel()
	id := job.NewID()
	h := &history{id: id}
	for seq := range 3 {
		h.calls = append(h.calls, job.Call{
			Job: id, Attempt: 1, Seq: seq + 1, Namespace: "n", Name: "spend", Arguments: jsontext.Value(`{}`), State: job.CallOK, Answer: jsontext.Value(`9`), StartLink: seq + 1,
		})
	}
	// The record cannot be reached at first, and a limit of two calls holds.
	h.fails.Store(2)
	limit := func(j *job.Job) { j.Limits.ToolCalls = 2 }
	b := again(t, h, setup{tools: counter(t), grants: "n.*", edits: []func(*job.Job){limit}}, 2)
	b.Hello()
	for i, want := range []string{`"value":9`, `"value":9`, `"code":"tool_limit"`} {
		if got := said(b, i, "n.spend", `{}`); !strings.Contains(got, want) {
			t.Errorf("call %d: got %s, want %s", i, got, want)
		}
	}
	if report := b.end(t); report.ToolCalls != 2 || !report.ToolLimited {
		t.Errorf("got %d calls, limited %t, want 2 and limited", report.ToolCalls, report.ToolLimited)
	}

	// A row that vanished between the outline and the call is not made up.
	gone := &vanishing{history: history{id: id, calls: h.calls}}
	s := setup{tools: counter(t), grants: "n.*"}
	s.cfg.Past, s.number, s.edits = gone, 2, []func(*job.Job){func(j *job.Job) { j.ID = id }}
	c := begin(t, s)
	c.Hello()
	if got := said(c, 1, "n.spend", `{}`); !strings.Contains(got, `"code":"audit_failed"`) || len(c.tools.Requests()) != 0 {
		t.Errorf("got %s, want audit_failed and no request", got)
	}
	c.end(t)
}

type vanishing struct{ history }

func (v *vanishing) Recorded(ctx context.Context, q job.CallQuery, each func(job.Call) error) error {
	if q.Seq > 0 {
		return nil
	}
	return v.history.Recorded(ctx, q, each)
}

func TestALaterAttemptWithoutItsRecordDoesNotBegin(t *testing.T) {
	t.Parallel()
	s := setup{tools: counter(t), grants: "n.*", number: 2}
	s.cfg.Past = broken{}
	b := begin(t, s)
	if _, err := b.Wait(); err == nil || !strings.Contains(err.Error(), "read what was recorded") {
		t.Errorf("Serve: got error %v, want that the record cannot be read", err)
	}
}

type broken struct{}

func (broken) Recorded(context.Context, job.CallQuery, func(job.Call) error) error {
	return errors.New("no such table")
}

// replayed runs calls against the record of an ended job.
func replayOf(t *testing.T, h *history, tools *brokertest.Tools) *bench {
	t.Helper()
	s := setup{tools: tools, grants: "n.*", edits: []func(*job.Job){func(j *job.Job) { j.ReplayOf = h.id }}}
	s.cfg.Past = h
	return begin(t, s)
}

func TestAReplayReachesNobody(t *testing.T) {
	t.Parallel()
	id := job.NewID()
	h := &history{id: id}
	add := func(name, arguments string, state job.CallState, code, answer string) {
		c := job.Call{
			Job: id, Attempt: 2, Seq: len(h.calls) + 1, Namespace: "n", Name: name, Arguments: jsontext.Value(arguments), State: state, Code: code,
			Message: "then", Answer: jsontext.Value(answer), Provider: "p", EndLink: 2 * (len(h.calls) + 1), Retryable: code == "no_provider" || code == "timeout",
		}
		h.calls = append(h.calls, c)
	}
	add("gone", `{}`, job.CallOK, "", `1`)
	add("gone", `{}`, job.CallReplayed, "", `2`)
	add("gone", `{"t":1}`, job.CallFailed, "timeout", ``)
	add("gone", `{"t":2}`, job.CallLate, "timeout", `7`)
	add("gone", `{"n":1}`, job.CallRefused, "no_provider", ``)
	add("gone", `{"b":1}`, job.CallRefused, "bad_arguments", ``)
	add("other", `{}`, job.CallRefused, "not_granted", ``)
	add("gone", `{"r":1}`, job.CallOK, "", `"[redacted]"`)
	b := replayOf(t, h, &brokertest.Tools{})
	if frame := b.Hello(); !strings.Contains(frame, `{"namespace":"n","name":"gone"}`) {
		t.Errorf("got job frame %s, want the tool that was called in it", frame)
	}
	for i, c := range []struct{ tool, arguments, want string }{
		{"n.gone", `{}`, `"value":1`},
		{"n.gone", `{}`, `"value":2`},
		{"n.gone", `{}`, `"code":"diverged"`},
		{"n.gone", `{"t":1}`, `"code":"timeout","message":"then","retryable":true}`},
		{"n.gone", `{"t":2}`, `"code":"timeout"`},
		{"n.gone", `{"n":1}`, `"code":"no_provider","message":"then","retryable":true`},
		{"n.gone", `{"b":1}`, `"code":"bad_arguments"`},
		{"n.gone", `{"r":1}`, `"code":"not_recorded"`},
		{"m.gone", `{}`, `"code":"not_granted"`},
		{"n.gone", `{"new":1}`, `"code":"diverged"`},
	} {
		if got := said(b, i, c.tool, c.arguments); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.tool, c.arguments, got, c.want)
		}
	}
	if report := b.end(t); report.ToolCalls != 5 {
		t.Errorf("got %d calls counted, want the 5 that were let through then", report.ToolCalls)
	}
	if sent := b.tools.Requests(); len(sent) != 0 {
		t.Errorf("got requests %+v, want none", sent)
	}
}

func TestAReplayedCallThatWasOpenToTheEndIsSo(t *testing.T) {
	t.Parallel()
	id := job.NewID()
	h := &history{id: id, calls: []job.Call{{
		Job: id, Attempt: 1, Seq: 1, Namespace: "n", Name: "spend", Arguments: jsontext.Value(`{}`), State: job.CallCancelled, Code: "cancelled", StartLink: 1,
	}}}
	b := replayOf(t, h, counter(t))
	b.Hello()
	b.Call(1, "n.spend", `{}`)
	for i := range 50 { // an answer would come among these
		b.Send(fmt.Sprintf(`{"id":%d,"method":"list_tools"}`, 10+i))
		if got := b.Recv(); !strings.HasPrefix(got, fmt.Sprintf(`{"id":%d,`, 10+i)) {
			t.Fatalf("got %s, want the call open", got)
		}
	}
	b.Send(`{"id":2,"method":"result","params":{"value":1}}`)
	if got := b.Recv(); !strings.Contains(got, `"code":"cancelled"`) {
		t.Errorf("got %s, want cancelled with the result", got)
	}
	b.Expect(`{"id":2,"ok":true}`)
	report, err := b.Wait()
	if err != nil {
		t.Fatal(err)
	}
	b.verify(t, report)
}

func TestAReplayOfNothingDiverges(t *testing.T) {
	t.Parallel()
	for name, past := range map[string]broker.Past{"no record": nil, "of another tenant": &history{id: job.NewID()}} {
		s := setup{tools: counter(t), grants: "n.*", edits: []func(*job.Job){func(j *job.Job) { j.ReplayOf = job.NewID() }}}
		s.cfg.Past = past
		b := begin(t, s)
		b.Hello()
		if got := said(b, 1, "n.spend", `{}`); !strings.Contains(got, `"code":"diverged"`) || len(b.tools.Requests()) != 0 {
			t.Errorf("%s: got %s, want diverged", name, got)
		}
		b.end(t)
	}
}

// Equal calls in parallel are told apart by the order in which they were made,
// whatever the order in which they were served.
func TestParallelEqualCallsGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	h := &history{id: job.NewID()}
	tools := counter(t)
	gather := func(number int) []string {
		b := again(t, h, setup{tools: tools, grants: "n.*", edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolCalls = 500 }}}, number)
		b.Hello()
		const n = 300
		go func() { // the worker stops reading while nobody takes replies
			for i := range n {
				b.Call(i, "n.spend", `{"same":1}`)
			}
		}()
		got := make([]string, n)
		for range n {
			var id int
			reply := b.Recv()
			if _, err := fmt.Sscanf(reply, `{"id":%d,`, &id); err != nil {
				t.Fatalf("reply %s: %v", reply, err)
			}
			_, got[id], _ = strings.Cut(reply, ",")
		}
		b.end(t)
		h.calls = append(h.calls, numbered(record(b), number)...)
		return got
	}
	first, second := gather(1), gather(2)
	if diff := gocmp.Diff(first, second); diff != "" || len(tools.Requests()) != 300 {
		t.Errorf("answers of two attempts (-first +second), %d requests, want 300:\n%s", len(tools.Requests()), diff)
	}
}

// Calls that differ only in what the audit does not keep cannot be told apart
// by it.
func TestWhatWasRedactedIsNotTakenForTheSame(t *testing.T) {
	t.Parallel()
	h := &history{id: job.NewID()}
	tools := counter(t)
	secret := func(number int) *bench {
		return again(t, h, setup{tools: tools, grants: "n.*", cfg: rules(t, `{"tenant":"*","namespace":"n","name":"*","redact":["card"]}`)}, number)
	}
	first := secret(1)
	first.Hello()
	for i, tool := range []string{"n.spend", "n.look"} {
		said(first, i, tool, `{"card":1}`)
	}
	said(first, 2, "n.spend", `{"sum":1}`)
	first.end(t)
	h.calls = record(first)

	second := secret(2)
	second.Hello()
	for i, c := range []struct{ tool, arguments, want string }{
		{"n.spend", `{"card":2}`, `"code":"not_recorded"`},
		{"n.look", `{"card":1}`, `"value":4`},
		{"n.spend", `{"sum":1}`, `"value":3`},
	} {
		if got := said(second, i, c.tool, c.arguments); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.tool, c.arguments, got, c.want)
		}
	}
	if report := second.end(t); report.ToolCalls != 2 {
		t.Errorf("got %d calls counted, want 2", report.ToolCalls)
	}
	if sent := tools.Requests(); len(sent) != 4 || sent[3].Key != sent[1].Key {
		t.Errorf("got requests %+v, want the fourth with the key of the second", sent)
	}
}

func TestNobodyIsAskedAboutACallThatIsRecorded(t *testing.T) {
	t.Parallel()
	h := &history{id: job.NewID()}
	tools := counter(t)
	for number := 1; number <= 2; number++ {
		p := &people{asked: make(chan job.Call, 9), decide: make(chan job.Approval, 1)}
		p.decide <- job.Approval{State: job.ApprovalApproved}
		cfg := rules(t, `{"tenant":"*","namespace":"n","name":"*","approve":true}`)
		cfg.Approvals = p
		b := again(t, h, setup{tools: tools, grants: "n.*", cfg: cfg}, number)
		b.Hello()
		if got := said(b, 1, "n.spend", `{}`); got != `"ok":true,"value":1}` {
			t.Errorf("attempt %d: got %s, want 1", number, got)
		}
		b.end(t)
		h.calls = record(b)
		if got, want := len(p.asked), 2-number; got != want {
			t.Errorf("attempt %d: got %d requests for approval, want %d", number, got, want)
		}
	}
}
