package broker_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

// One test per kind of abuse of the channel. What a frame alone can break is in
// testdata/wire/breach-*.txtar; here is what needs a conversation.

// breaks wants the conversation to have ended as a breach that mentions why.
func (b *bench) breaks(t *testing.T, why string) *job.Report {
	t.Helper()
	report, err := b.Wait()
	if !errors.Is(err, broker.ErrBreach) || !strings.Contains(report.Breach, why) {
		t.Errorf("got breach %q and error %v, want %q", report.Breach, err, why)
	}
	b.verify(t, report)
	return report
}

func TestBK1LengthIsRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	for _, length := range []uint32{broker.MaxFrame + 1, 1 << 31, 1<<32 - 1} {
		b := begin(t, setup{})
		b.Hello()
		b.SendRaw(binary.BigEndian.AppendUint32(nil, length)) // and no body follows
		b.breaks(t, "a length of")
	}
}

func TestBK4Nesting(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{62, 65, 10_001, 1_000_000} {
		b := begin(t, setup{edits: []func(*job.Job){func(j *job.Job) { j.Limits.Result = 4 * job.MiB }}})
		b.Hello()
		b.Send(`{"id":1,"method":"result","params":{"value":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}`)
		if depth == 62 {
			b.Expect(`{"id":1,"ok":true}`)
			continue
		}
		b.breaks(t, "nested deeper")
	}
}

func TestBK7Numbers(t *testing.T) { // B24
	t.Parallel()
	for _, n := range []string{
		"2512292042121000001", "1152921504606846977", "-9223372036854775809", "1" + strings.Repeat("0", 4000),
		"0.1000000000000000055511151231257827", "1e400", "1E-400",
	} {
		b := begin(t, setup{})
		b.Hello()
		b.Call(1, "math.echo", `{"text":`+n+`}`)
		b.Expect(`{"id":1,"ok":true,"value":` + n + `}`)
		if sent := b.tools.Requests()[0]; string(sent.Arguments) != `{"text":`+n+`}` {
			t.Errorf("got arguments %s, want %s as written", sent.Arguments, n)
		}
		b.end(t)
	}
	for _, n := range []string{"1e131071", "1e401", "1e-401", strings.Repeat("9", 4401)} {
		b := begin(t, setup{})
		b.Hello()
		b.Call(1, "math.echo", `{"text":`+n+`}`)
		b.breaks(t, "params.arguments.text")
	}
}

func TestBK14Token(t *testing.T) { // BK15, BK17: each conversation has its own
	t.Parallel()
	hello := func(token string) string {
		return `{"method":"hello","params":{"protocol":1,"python":"3"` + token + `}}`
	}
	for _, tt := range []struct {
		name, want, sent string
		ok               bool
	}{
		{"right", "s3cret", `,"token":"s3cret"`, true},
		{"another guest's", "s3cret", `,"token":"s3cres"`, false},
		{"longer", "s3cret", `,"token":"s3cret0"`, false},
		{"empty", "s3cret", `,"token":""`, false},
		{"none", "s3cret", ``, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			guest, host := brokertest.NewSocketGuest(t)
			b := broker.New(broker.Config{Tools: brokertest.Math(t), Audit: brokertest.Nothing{}})
			running := brokertest.ServeToken(t, b, brokertest.Attempt(t, "math.*"), host, tt.want)
			guest.Send(hello(tt.sent))
			if tt.ok {
				guest.Recv()
				guest.Close()
				if report, err := running.Wait(); err != nil || report.Ready.IsZero() {
					t.Errorf("got error %v, want the token accepted", err)
				}
				return
			}
			report, err := running.Wait()
			if !errors.Is(err, broker.ErrBreach) || report.Breach != "wrong token" || !report.Ready.IsZero() {
				t.Errorf("got breach %q and error %v, want a wrong token", report.Breach, err)
			}
			host.Close()
			if frame, err := guest.TryRecv(); err == nil {
				t.Errorf("got frame %s, want none", frame)
			}
		})
	}
	t.Run("a worker without one", func(t *testing.T) {
		_, host := brokertest.NewGuest(t)
		b := broker.New(broker.Config{Tools: brokertest.Math(t), Audit: brokertest.Nothing{}})
		if _, err := brokertest.ServeToken(t, b, brokertest.Attempt(t, ""), host, "").Wait(); err == nil {
			t.Errorf("got no error, want an empty token refused")
		}
	})
}

func TestBK18AuthorityInFrames(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"tenant", "job", "attempt", "deadline", "budget", "grants"} {
		for _, frame := range []string{
			`{"id":1,"method":"call_tool","params":{"namespace":"math","name":"add","arguments":{"a":1,"b":2},"` + field + `":1}}`,
			`{"id":1,"method":"call_tool","` + field + `":1,"params":{"namespace":"math","name":"add","arguments":{"a":1,"b":2}}}`,
			`{"id":1,"method":"result","params":{"value":1,"` + field + `":1}}`,
		} {
			b := begin(t, setup{})
			b.Hello()
			b.Send(frame)
			b.breaks(t, field+": unknown field")
			if sent := b.tools.Requests(); len(sent) != 0 {
				t.Errorf("%s: got %d calls sent, want none", field, len(sent))
			}
		}
	}
}

func TestBK19PinnedNamespace(t *testing.T) {
	t.Parallel()
	var touched atomic.Int32
	tools := brokertest.Math(t)
	tools.Add(t, "admin.add", "", func(broker.Request) *broker.Answer { touched.Add(1); return brokertest.Body(`"no"`) })
	b := begin(t, setup{tools: tools, grants: "math.* admin.*", edits: []func(*job.Job){func(j *job.Job) { j.Namespace = "math" }}})
	if frame := b.Hello(); strings.Contains(frame, "admin") || !strings.Contains(frame, `"namespace":"math"`) {
		t.Errorf("got job frame %s, want only math's tools", frame)
	}
	b.Call(1, "admin.add", `{"a":1,"b":2}`)
	b.ExpectCode(1, broker.CodeNamespaceNotAllowed)
	b.Call(2, ".add", `{"a":1,"b":2}`)
	b.ExpectCode(2, broker.CodeBadName)
	b.Send(`{"id":3,"method":"call_tool","params":{"name":"add","arguments":{"a":1,"b":2}}}`)
	b.Expect(`{"id":3,"ok":true,"value":{"sum":3}}`)
	b.Call(4, "math.add", `{"a":1,"b":2}`)
	b.Expect(`{"id":4,"ok":true,"value":{"sum":3}}`)
	b.end(t)
	if touched.Load() != 0 {
		t.Errorf("got the other namespace's tool called")
	}
}

// The names that BK20 and BK21 are about: near misses of a granted one, and
// what could reach beyond a subject's token.
var badNames = []string{
	"Add", "ADD", "add ", " add", "add.", "add\\u0000", "\\u0430dd", "add\\u200b", "math.add", "*", ">", "a*", "a b", "a\\tb", "a\\r\\nb",
	"$SRV", "$JS.ACK", "_INBOX", "__import__", "", "1add", "a/b", "tools.math.add", strings.Repeat("a", 65), strings.Repeat("a", 10_000),
}

func TestBK20NearMisses(t *testing.T) { // and BK21, without NATS; TestBK21 has the subjects
	t.Parallel()
	b := begin(t, setup{grants: "math.add"})
	b.Hello()
	for i, name := range badNames {
		b.Call(i, "math.add", `{}`) // refused for its arguments: the tool itself is granted
		b.ExpectCode(i, broker.CodeBadArguments)
		b.Send(fmt.Sprintf(`{"id":%d,"method":"call_tool","params":{"namespace":"math","name":"%s","arguments":{"a":1,"b":2}}}`, i, name))
		if got := b.Recv(); !strings.Contains(got, `"code":"bad_name"`) && !strings.Contains(got, `"code":"not_granted"`) {
			t.Errorf("name %.40q: got %.200s, want it refused", name, got)
		}
		b.Send(fmt.Sprintf(`{"id":%d,"method":"call_tool","params":{"namespace":"%s","name":"add","arguments":{"a":1,"b":2}}}`, i, name))
		if got := b.Recv(); !strings.Contains(got, `"code":"bad_name"`) && !strings.Contains(got, `"code":"not_granted"`) {
			t.Errorf("namespace %.40q: got %.200s, want it refused", name, got)
		}
	}
	b.end(t)
	if sent := b.tools.Requests(); len(sent) != 0 {
		t.Errorf("got %d calls sent, want none", len(sent))
	}
	for _, c := range b.audit.Calls() {
		if c.Name != job.Printable(c.Name, 1<<20) || len(c.Name) > 80 || len(c.Namespace) > 80 {
			t.Errorf("call %d: got name %q recorded, want it short and printable", c.Seq, c.Name)
		}
	}
}

func TestBK25Arguments(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{})
	b.Hello()
	for i, arguments := range []string{
		`[]`, `""`, `0`, `null`, `false`, `{}`, `{"a":1}`, `{"a":1,"b":null}`, `{"a":1,"b":[]}`, `{"a":1,"b":2,"c":3}`, `{"A":1,"B":2}`,
	} {
		b.Call(i, "math.add", arguments)
		b.ExpectCode(i, broker.CodeBadArguments)
	}
	report := b.end(t)
	if sent := b.tools.Requests(); len(sent) != 0 || report.ToolCalls != 0 {
		t.Errorf("got %d calls sent and %d counted, want none", len(sent), report.ToolCalls)
	}
}

func TestBK26CallsAfterTheResult(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{memory: true, cfg: broker.Config{Linger: time.Hour}})
	b.Hello()
	b.Send(`{"id":1,"method":"result","params":{"value":1}}`)
	b.Expect(`{"id":1,"ok":true}`)
	for i := range 100 {
		b.Call(i, "math.add", `{"a":1,"b":2}`)
		b.ExpectCode(i, broker.CodeFinished)
	}
	b.Close()
	report, err := b.Wait()
	if err != nil || len(b.tools.Requests()) != 0 {
		t.Errorf("got %d calls sent and error %v, want none", len(b.tools.Requests()), err)
	}
	b.verify(t, report)
}

func TestBK37CallsOfOthers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	tools := &brokertest.Tools{}
	tools.Add(t, "slow.tool", "", never(release, `"mine"`))
	first := begin(t, setup{tools: tools, grants: "slow.tool"})
	second := begin(t, setup{tools: tools, grants: "slow.tool"})
	first.Hello()
	second.Hello()
	first.Call(1, "slow.tool", `{}`)
	second.Call(1, "slow.tool", `{}`) // the same id is free here
	second.Send(`{"id":2,"method":"result","params":{"value":1}}`)
	second.ExpectCode(1, broker.CodeCancelled)
	close(release)
	first.Expect(`{"id":1,"ok":true,"value":"mine"}`)
	first.end(t)
}

func TestBK38GrantsAreASnapshot(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{grants: "math.add"})
	b.Hello()
	b.attempt.Job.Tools[0] = job.Grant{Namespace: "math", Name: "echo"}
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.Expect(`{"id":1,"ok":true,"value":{"sum":3}}`)
	b.Call(2, "math.echo", `{"text":1}`)
	b.ExpectCode(2, broker.CodeNotGranted)
	b.end(t)
}

func TestBK39ToolsLearnTheTenantFromTheWorker(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{edits: []func(*job.Job){func(j *job.Job) { j.Tenant = "red" }}})
	b.Hello()
	b.Call(1, "math.echo", `{"text":{"tenant":"blue"}}`)
	b.Recv()
	b.end(t)
	if r := b.tools.Requests()[0]; r.Tenant != "red" || r.Job != b.attempt.Job.ID || r.Attempt != 1 || r.Seq != 1 {
		t.Errorf("got request for %s %s %d %d, want the lease's", r.Tenant, r.Job, r.Attempt, r.Seq)
	}
}

func TestNoGrantsAllowNothing(t *testing.T) {
	t.Parallel()
	guest, host := brokertest.NewSocketGuest(t)
	tools := brokertest.Math(t)
	running := brokertest.Serve(t, broker.New(broker.Config{Tools: tools, Audit: brokertest.Nothing{}}), brokertest.Attempt(t, ""), host)
	if frame := guest.Hello(); strings.Contains(frame, "tools") {
		t.Errorf("got job frame %s, want no tools", frame)
	}
	guest.Send(`{"id":1,"method":"list_tools"}`)
	guest.Expect(`{"id":1,"ok":true,"value":[]}`)
	guest.Call(1, "math.add", `{"a":1,"b":2}`)
	guest.ExpectCode(1, broker.CodeNotGranted)
	guest.Finish(1, "1")
	running.Wait()
}

func TestSP3LeavingWithoutAResult(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.Recv()
	b.Close()
	report, err := b.Wait()
	if got := brokertest.Verdict(report, err); got != "no_result" {
		t.Errorf("got verdict %s, want no_result", got)
	}
	b.verify(t, report)
}

func TestSP8ErrorsAreBounded(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{})
	b.Hello()
	long := strings.Repeat(`x\u202e\u0000`, 200_000)
	b.Send(`{"id":1,"method":"result","params":{"error":{"type":"` + long + `","message":"` + long + `","traceback":"` + long + `"}}}`)
	b.Expect(`{"id":1,"ok":true}`)
	b.Close()
	report, err := b.Wait()
	if err != nil {
		t.Fatalf("Serve: %v", err)
	}
	e := report.Error
	if len(e.Type) > 250 || len(e.Message) > 17<<10 || len(e.Traceback) > 65<<10 || strings.ContainsAny(e.Type+e.Message+e.Traceback, "\u202e\x00") {
		t.Errorf("got %d, %d and %d bytes, want them cut and printable", len(e.Type), len(e.Message), len(e.Traceback))
	}
}

func TestSP10CountsAreTheHosts(t *testing.T) { // SP5, SP16
	t.Parallel()
	b := begin(t, setup{})
	b.Hello()
	b.Call(1, "math.add", `{"a":1,"b":2}`)
	b.Recv()
	b.Call(2, "math.add", `{"a":1}`)
	b.Recv()
	b.Send(`{"id":3,"method":"result","params":{"value":{"ok":true,"tool_calls":0,"duration":0}}}`)
	b.Recv()
	b.Close()
	report, err := b.Wait()
	if err != nil || report.ToolCalls != 1 || len(b.audit.Calls()) != 2 {
		t.Errorf("got %d calls, %d recorded, error %v, want 1 and 2", report.ToolCalls, len(b.audit.Calls()), err)
	}
}
