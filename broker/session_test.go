package broker_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a broker with tools and an audit in memory, and one guest in
// conversation with it.
type bench struct {
	*brokertest.Guest
	*brokertest.Running
	tools   *brokertest.Tools
	audit   *brokertest.Audit
	attempt *job.Attempt
}

type setup struct {
	tools  *brokertest.Tools
	audit  *brokertest.Audit
	grants string
	edits  []func(*job.Job)
	cfg    broker.Config
	clock  job.Clock
	memory bool // a channel without a buffer
	// shared, if set, is the worker that other conversations are held by too;
	// cfg has no effect then.
	shared *broker.Broker
	number int // of the attempt: 1 if zero
}

func begin(t *testing.T, s setup) *bench {
	t.Helper()
	if s.tools == nil {
		s.tools = brokertest.Math(t)
	}
	if s.audit == nil {
		s.audit = &brokertest.Audit{}
	}
	if s.grants == "" {
		s.grants = "math.*"
	}
	s.cfg.Tools, s.cfg.Audit = s.tools, s.audit
	b := &bench{tools: s.tools, audit: s.audit, attempt: brokertest.Attempt(t, s.grants, s.edits...)}
	b.attempt.Number = max(s.number, 1)
	var host io.ReadWriteCloser
	if s.memory {
		b.Guest, host = brokertest.NewGuest(t)
	} else {
		b.Guest, host = brokertest.NewSocketGuest(t)
	}
	if s.shared == nil {
		s.shared = broker.New(s.cfg)
	}
	b.Running = brokertest.ServeClock(t, s.shared, b.attempt, host, s.clock)
	return b
}

// end gives a result, and checks what must hold after every conversation: no
// error, and a chain that verifies up to the reported head.
func (b *bench) end(t *testing.T) *job.Report {
	t.Helper()
	b.Finish(1<<20, "null")
	report, err := b.Wait()
	if err != nil {
		t.Fatalf("Serve: got error %v, want none", err)
	}
	b.verify(t, report)
	return report
}

func (b *bench) verify(t *testing.T, report *job.Report) {
	t.Helper()
	head, err := broker.Verify(b.attempt.Job.ID, b.attempt.Number, b.audit.Calls())
	if err != nil || head != report.AuditHead {
		t.Errorf("Verify: got head %s and error %v, want the report's %s", head, err, report.AuditHead)
	}
}

// never is a tool whose answer does not come before release.
func never(release <-chan struct{}, body string) brokertest.Handler {
	return func(broker.Request) *broker.Answer {
		<-release
		return brokertest.Body(body)
	}
}

func TestConversation(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{edits: []func(*job.Job){func(j *job.Job) {
		j.Code, j.Vars, j.Args, j.Env = "return x", []byte(`{"x":2512292042121000001}`), []string{"-v"}, map[string]string{"MODE": "fast"}
		j.Files = []job.File{{Path: "data/a.txt", Content: job.Bytes("hi")}}
	}}})
	tools := `[{"namespace":"math","name":"add","description":"Adds two numbers, exactly.","input_schema":` +
		`{"type":"object","properties":{"a":{"type":["number","string"],"description":"a number, or its text"},` +
		`"b":{"type":["number","string"],"description":"a number, or its text"}},"required":["a","b"],"additionalProperties":false}},` +
		`{"namespace":"math","name":"echo","description":"Gives back what it is given.","input_schema":` +
		`{"type":"object","properties":{"text":true},"required":["text"],"additionalProperties":false}}]`
	want := `{"method":"job","params":{"code":"return x","vars":{"x":2512292042121000001},"args":["-v"],"env":{"MODE":"fast"},` +
		`"files":[{"path":"data/a.txt","base64":"aGk="}],"tools":` + tools +
		`,"limits":{"result":1048576,"frame":8388608,"parallel":64}}}`
	if diff := brokertest.DiffJSON(want, b.Hello()); diff != "" {
		t.Errorf("job frame (-want +got):\n%s", diff)
	}
	b.Send(`{"id":1,"method":"list_tools"}`)
	sum := `,"output_schema":{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`
	b.Expect(`{"id":1,"ok":true,"value":` + strings.Replace(tools, `},{"namespace":"math","name":"echo"`, sum+`},{"namespace":"math","name":"echo"`, 1) + `}`)
	b.Call(2, "math.add", `{"a":1,"b":"2"}`)
	b.Expect(`{"id":2,"ok":true,"value":{"sum":3}}`)
	b.Call(3, "math.echo", `{"text":2512292042121000001}`)
	b.Expect(`{"id":3,"ok":true,"value":2512292042121000001}`)
	report := b.end(t)
	if !report.Done || string(report.Value) != "null" || report.ToolCalls != 2 || report.Python != "3.11.2" {
		t.Errorf("got report %+v, want done with null, 2 calls and python 3.11.2", report)
	}
	var before time.Time
	for i, at := range []time.Time{report.Ready, report.Sent, report.Spoke, report.Returned} {
		if !at.After(before) {
			t.Errorf("moment %d is %v, want it after %v", i, at, before)
		}
		before = at
	}
}

func TestCallsRunInParallel(t *testing.T) { // B102
	t.Parallel()
	tools := &brokertest.Tools{}
	const calls = 20
	var turns [calls + 1]chan struct{}
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[calls])
	tools.Add(t, "slow.echo", "", func(r broker.Request) *broker.Answer { // in reverse order
		<-turns[r.Seq]
		close(turns[r.Seq-1])
		return brokertest.Body(string(r.Arguments))
	})
	b := begin(t, setup{tools: tools, grants: "slow.echo"})
	b.Hello()
	for i := range calls {
		b.Call(i+1, "slow.echo", fmt.Sprintf(`{"n":%d}`, i+1))
	}
	seen := map[string]bool{}
	for range calls {
		seen[b.Recv()] = true
	}
	for i := range calls {
		if want := fmt.Sprintf(`{"id":%d,"ok":true,"value":{"n":%d}}`, i+1, i+1); !seen[want] {
			t.Errorf("got no reply %s", want)
		}
	}
	if report := b.end(t); report.ToolCalls != calls {
		t.Errorf("got %d calls, want %d", report.ToolCalls, calls)
	}
}

func TestResultEndsOpenCalls(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	tools := &brokertest.Tools{}
	sent := make(chan struct{})
	tools.Add(t, "slow.tool", "", func(r broker.Request) *broker.Answer {
		close(sent)
		return never(release, `"late"`)(r)
	})
	b := begin(t, setup{tools: tools, grants: "slow.tool", cfg: broker.Config{Grace: time.Minute}})
	b.Hello()
	b.Call(1, "slow.tool", `{}`)
	<-sent
	b.Send(`{"id":2,"method":"result","params":{"value":1}}`)
	b.ExpectCode(1, broker.CodeCancelled)
	b.Expect(`{"id":2,"ok":true}`)
	b.Close()
	close(release) // answers within the grace
	report, err := b.Wait()
	if err != nil {
		t.Fatalf("Serve: got error %v, want none", err)
	}
	b.verify(t, report)
	call := b.audit.Calls()[0]
	if call.State != job.CallLate || call.Code != "cancelled" || string(call.Answer) != `"late"` {
		t.Errorf("got call %s %s %s, want it late with its answer", call.State, call.Code, call.Answer)
	}
}

func TestCancelledCallIsRecordedWithoutAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	tools := &brokertest.Tools{}
	defer tools.Wait()
	defer close(release)
	tools.Add(t, "slow.tool", "", never(release, `1`))
	started := make(chan struct{})
	audit := &brokertest.Audit{OnStart: func(job.Call) { close(started) }}
	b := begin(t, setup{tools: tools, audit: audit, grants: "slow.tool", cfg: broker.Config{Grace: time.Millisecond}})
	b.Hello()
	b.Call(1, "slow.tool", `{}`)
	<-started
	b.Cancel(job.ErrTimeout)
	report, err := b.Wait()
	if err != nil {
		t.Errorf("Serve: got error %v, want none at the end of its context", err)
	}
	b.verify(t, report)
	if call := audit.Calls()[0]; call.State != job.CallCancelled || call.Answer != nil {
		t.Errorf("got call %s with %s, want it cancelled with nothing", call.State, call.Answer)
	}
	if report.Done {
		t.Errorf("got a result, want none")
	}
}

func TestTimeoutThenLateAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	tools := &brokertest.Tools{}
	tools.Add(t, "slow.tool", "", never(release, `"late"`))
	b := begin(t, setup{tools: tools, grants: "slow.tool", cfg: broker.Config{CallTimeout: time.Millisecond}})
	b.Hello()
	b.Call(1, "slow.tool", `{}`)
	b.ExpectCode(1, broker.CodeTimeout)
	close(release)
	tools.Wait()
	report := b.end(t) // receives nothing but the acknowledgement
	call := b.audit.Calls()[0]
	if call.State != job.CallLate || call.Code != "timeout" || string(call.Answer) != `"late"` {
		t.Errorf("got call %s %s %s, want it late with its answer", call.State, call.Code, call.Answer)
	}
	if report.ToolLimited {
		t.Errorf("got a tool limit, want none")
	}
}

func TestToolTime(t *testing.T) {
	t.Parallel()
	// Both calls must begin within the limit, however slow this machine is.
	limit := 20 * time.Millisecond
	for !ranOutOfToolTime(t, limit) {
		if limit *= 4; limit > 10*time.Minute {
			t.Fatal("no two calls begin in ten minutes")
		}
	}
}

// ranOutOfToolTime reports whether two calls were open when the limit came, and
// fails the test if they did not end as they should.
func ranOutOfToolTime(t *testing.T, limit time.Duration) bool {
	release := make(chan struct{})
	tools := &brokertest.Tools{}
	defer tools.Wait()
	defer close(release)
	tools.Add(t, "slow.tool", "", never(release, `1`))
	b := begin(t, setup{
		tools: tools, grants: "slow.tool", cfg: broker.Config{Grace: time.Millisecond, CallTimeout: time.Hour},
		edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolTime = job.Duration(limit) }},
	})
	b.Hello()
	b.Call(1, "slow.tool", `{}`)
	b.Call(2, "slow.tool", `{}`)
	for range 2 {
		if got := b.Recv(); !strings.Contains(got, `"code":"tool_time_limit"`) {
			t.Errorf("got %s, want tool_time_limit", got)
		}
	}
	b.Call(3, "slow.tool", `{}`)
	b.ExpectCode(3, broker.CodeToolTimeLimit)
	report := b.end(t)
	if !report.ToolLimited || report.ToolCalls > 2 || report.ToolWait < limit {
		t.Errorf("got limited %v, %d calls, waited %s, want limited, 2, at least %s", report.ToolLimited, report.ToolCalls, report.ToolWait, limit)
	}
	return report.ToolCalls == 2 || t.Failed()
}

func TestClock(t *testing.T) { // B105: a tool's time is not the guest's
	t.Parallel()
	var mu sync.Mutex
	depth, deepest, started, wrong := 0, 0, 0, false
	clock := job.Clock{
		Start: func() { mu.Lock(); started++; mu.Unlock() },
		Pause: func() {
			mu.Lock()
			defer mu.Unlock()
			wrong = wrong || started != 1
			depth++
			deepest = max(deepest, depth)
		},
		Resume: func() { mu.Lock(); depth--; wrong = wrong || depth < 0; mu.Unlock() },
	}
	both := make(chan struct{})
	var arrived atomic.Int32
	tools := &brokertest.Tools{}
	tools.Add(t, "slow.tool", "", func(broker.Request) *broker.Answer {
		if arrived.Add(1) == 2 {
			close(both)
		}
		<-both
		return brokertest.Body("1")
	})
	b := begin(t, setup{tools: tools, grants: "slow.tool", clock: clock})
	b.Hello()
	b.Call(1, "slow.tool", `{}`)
	b.Call(2, "slow.tool", `{}`)
	b.Recv()
	b.Recv()
	b.Call(3, "slow.other", `{}`)
	b.Recv()
	b.end(t)
	if depth != 0 || deepest != 2 || started != 1 || wrong {
		t.Errorf("got depth %d, deepest %d, started %d, wrong order %v, want 0, 2, 1, false", depth, deepest, started, wrong)
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	small := func(j *job.Job) { j.Limits.Result = 64 }
	for _, tt := range []struct {
		name, params, reply, verdict string
		check                        func(r *job.Report) bool
	}{
		{"value", `{"value":{"n":1e400}}`, `{"id":1,"ok":true}`, "ok", func(r *job.Report) bool { return string(r.Value) == `{"n":1e400}` }},
		{"null", `{"value":null,"lossy":true}`, `{"id":1,"ok":true}`, "ok", func(r *job.Report) bool { return string(r.Value) == `null` && r.Lossy }},
		{"error", `{"error":{"type":"KeyError","message":"'x'\u001b[2J","traceback":"a\nb"}}`, `{"id":1,"ok":true}`, "guest_error",
			func(r *job.Report) bool {
				return *r.Error == job.Error{Type: "KeyError", Message: `'x'\x1b[2J`, Traceback: "a\nb"}
			}},
		{"too large, said", `{"too_large":65}`, `{"id":1,"ok":true}`, "result_limit", func(r *job.Report) bool { return r.Done && r.Value == nil }},
		{"too large, sent", `{"value":"` + strings.Repeat("x", 63) + `"}`, "", "result_limit", func(r *job.Report) bool { return r.Done && r.Value == nil }},
		{"unawaited", `{"value":1,"unawaited":["math.echo","a\u202eb","math.echo"]}`, `{"id":1,"ok":true}`, "ok", func(r *job.Report) bool {
			return cmp.Equal(r.Events, []job.Event{
				{Kind: job.EventUnawaited, Count: 2, Note: "math.echo"}, {Kind: job.EventUnawaited, Count: 1, Note: `a\u202eb`},
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := begin(t, setup{edits: []func(*job.Job){small}})
			b.Hello()
			b.Send(`{"id":1,"method":"result","params":` + tt.params + `}`)
			if tt.reply == "" {
				b.ExpectCode(1, broker.CodeTooLarge)
			} else {
				b.Expect(tt.reply)
			}
			b.Close()
			report, err := b.Wait()
			if got := brokertest.Verdict(report, err); got != tt.verdict || !tt.check(report) {
				t.Errorf("got verdict %s and report %+v, want %s", got, report, tt.verdict)
			}
		})
	}
}
