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

// rules is a configuration with a policy.
func rules(t *testing.T, rules ...string) broker.Config {
	t.Helper()
	p, err := policy.Parse([]byte(`{"rules": [` + strings.Join(rules, ",") + `]}`))
	if err != nil {
		t.Fatalf("parse the policy: %v", err)
	}
	return broker.Config{Policy: func() *policy.Policy { return p }}
}

// all is a rule for everything, with these members more.
func all(members string) string {
	return `{"tenant": "*", "namespace": "*", "name": "*", ` + members + `}`
}

func of(tenant string) func(*job.Job) { return func(j *job.Job) { j.Tenant = tenant } }

// counting is a tool that answers with the number of its calls.
func counting(s *brokertest.Tools, t *testing.T, spec broker.ToolSpec) *atomic.Int64 {
	t.Helper()
	calls := &atomic.Int64{}
	s.AddSpec(t, spec, func(broker.Request) *broker.Answer { return brokertest.Body(fmt.Sprint(calls.Add(1))) })
	return calls
}

func value(id int, v string) string { return fmt.Sprintf(`{"id":%d,"ok":true,"value":%s}`, id, v) }

// A job of one tenant reaches nothing of a namespace that only another may use,
// whatever it grants itself and however it spells the name.
func TestTenantsAreKeptApart(t *testing.T) {
	t.Parallel()
	cfg := func() broker.Config {
		return rules(t, `{"tenant": "b", "namespace": "vault", "name": "*"}`, `{"tenant": "*", "namespace": "math", "name": "*"}`)
	}
	names := []struct {
		namespace, name string
		want            broker.Code
	}{
		{"vault", "read", broker.CodeDenied}, {"vault", "nothing", broker.CodeDenied}, {"Vault", "read", broker.CodeDenied},
		{"VAULT", "read", broker.CodeDenied}, {"other", "read", broker.CodeDenied},
		{"vault ", "read", broker.CodeBadName}, {" vault", "read", broker.CodeBadName}, {"vault\n", "read", broker.CodeBadName},
		{"vault.", "read", broker.CodeBadName}, {"vault.read", "read", broker.CodeBadName}, {"tools.vault", "read", broker.CodeBadName},
		{"math.vault", "read", broker.CodeBadName}, {"*", "read", broker.CodeBadName}, {">", "read", broker.CodeBadName},
		{"v*", "read", broker.CodeBadName}, {"", "read", broker.CodeBadName}, {"..", "read", broker.CodeBadName},
		{"va\u200bult", "read", broker.CodeBadName}, {"v\u0430ult", "read", broker.CodeBadName}, {"ｖault", "read", broker.CodeBadName},
		{"vau\u0131t", "read", broker.CodeBadName}, {"vault\u0000", "read", broker.CodeBadName}, {"vaul\u0074\u0301", "read", broker.CodeBadName},
		{"math", "vault.read", broker.CodeBadName}, {"math", "../vault/read", broker.CodeBadName}, {"math", "*", broker.CodeBadName},
		{"math", "read\r\nAirlock-Tenant: b", broker.CodeBadName}, {"math", "", broker.CodeBadName}, {"math", "read", broker.CodeUnknownTool},
	}
	tools := brokertest.Math(t)
	vault := counting(tools, t, broker.ToolSpec{Namespace: "vault", Name: "read"})
	grants := "vault.* Vault.* VAULT.* vault.read other.* math.*"

	a := begin(t, setup{tools: tools, grants: grants, cfg: cfg(), edits: []func(*job.Job){of("a")}})
	if frame := a.Hello(); strings.Contains(frame, `"vault"`) || !strings.Contains(frame, `"math"`) {
		t.Errorf("job frame %s, want the tools of math and no vault", frame)
	}
	for i, c := range names {
		a.Send(fmt.Sprintf(`{"id":%d,"method":"call_tool","params":{"namespace":%s,"name":%s,"arguments":{}}}`, i, quoted(c.namespace), quoted(c.name)))
		a.ExpectCode(i, c.want)
	}
	a.Send(`{"id":100,"method":"list_tools"}`)
	if list := a.Recv(); strings.Contains(strings.ToLower(list), "vault") || !strings.Contains(list, `"math"`) {
		t.Errorf("list %s, want the tools of math and no vault", list)
	}
	a.end(t)

	pinned := begin(t, setup{tools: tools, grants: "vault.*", cfg: cfg(), edits: []func(*job.Job){of("a"), func(j *job.Job) { j.Namespace = "vault" }}})
	pinned.Hello()
	pinned.Send(`{"id":1,"method":"call_tool","params":{"name":"read","arguments":{}}}`)
	pinned.ExpectCode(1, broker.CodeDenied)
	pinned.end(t)
	if got := vault.Load(); got != 0 || len(tools.Requests()) != 0 {
		t.Fatalf("the vault was reached %d times, and requests left: %v", got, tools.Requests())
	}

	b := begin(t, setup{tools: tools, grants: grants, cfg: cfg(), edits: []func(*job.Job){of("b")}})
	if frame := b.Hello(); !strings.Contains(frame, `"vault"`) {
		t.Errorf("job frame %s, want the vault", frame)
	}
	b.Call(1, "vault.read", `{}`)
	b.Expect(value(1, "1"))
	b.end(t)
}

// quoted is a JSON text; the names hold what fmt's %q writes in Go's way.
func quoted(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

func TestARuleBoundsArguments(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{cfg: rules(t, all(`"arguments": {"properties": {"a": {"maximum": 10}}}`))})
	b.Hello()
	b.Call(1, "math.add", `{"a": 10, "b": 1}`)
	b.Expect(value(1, `{"sum":11}`))
	b.Call(2, "math.add", `{"a": 11, "b": 1}`)
	b.ExpectCode(2, broker.CodeDenied)
	b.Call(3, "math.add", `{"a": 1}`)
	b.ExpectCode(3, broker.CodeBadArguments)
	report := b.end(t)
	if got := len(b.tools.Requests()); got != 1 || report.ToolCalls != 1 {
		t.Errorf("got %d requests, %d calls, want 1 each", got, report.ToolCalls)
	}
}

func TestARulesTimeoutTakesThePlaceOfTheWorkers(t *testing.T) {
	t.Parallel()
	tools := &brokertest.Tools{}
	var left atomic.Int64
	tools.Add(t, "slow.never", "", func(broker.Request) *broker.Answer { return nil })
	tools.Add(t, "slow.later", "", func(r broker.Request) *broker.Answer {
		left.Store(int64(time.Until(r.Deadline)))
		time.Sleep(30 * time.Millisecond) // what is slower than the worker lets be
		return brokertest.Body("1")
	})
	cfg := rules(t, `{"tenant": "*", "namespace": "slow", "name": "never", "timeout": "20ms"}`, all(`"timeout": "14m"`))
	cfg.CallTimeout = time.Millisecond
	b := begin(t, setup{tools: tools, grants: "slow.*", cfg: cfg, edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolTime = job.Duration(30 * time.Minute) }}})
	b.Hello()
	b.Call(1, "slow.never", `{}`)
	b.ExpectCode(1, broker.CodeTimeout)
	b.Call(2, "slow.later", `{}`)
	b.Expect(value(2, "1"))
	if got := time.Duration(left.Load()); got < 10*time.Minute || got > 14*time.Minute {
		t.Errorf("the provider had %s, want about 14 minutes", got)
	}
	b.end(t)

	short := begin(t, setup{tools: tools, grants: "slow.*", cfg: cfg, edits: []func(*job.Job){func(j *job.Job) { j.Limits.ToolTime = job.Duration(5 * time.Minute) }}})
	short.Hello()
	short.Call(1, "slow.later", `{}`)
	short.Expect(value(1, "1"))
	if got := time.Duration(left.Load()); got > 5*time.Minute {
		t.Errorf("the provider had %s, want no more than the job's tool time", got)
	}
	short.end(t)
}

// An attempt keeps the rules with which it began, and says which these were.
func TestAnAttemptKeepsItsPolicy(t *testing.T) {
	t.Parallel()
	open, closed := rules(t, all(`"calls": 3`)).Policy(), rules(t, all(`"deny": true`)).Policy()
	var now atomic.Pointer[policy.Policy]
	now.Store(open)
	tools, audit := brokertest.Math(t), &brokertest.Audit{}
	shared := broker.New(broker.Config{Tools: tools, Audit: audit, Policy: now.Load})
	first := begin(t, setup{shared: shared, tools: tools, audit: audit})
	first.Hello()
	now.Store(closed)
	first.Call(1, "math.add", `{"a": 1, "b": 1}`)
	first.Expect(value(1, `{"sum":2}`))
	if report := first.end(t); report.Policy != open.Digest() || report.Policy == "" {
		t.Errorf("got policy %q, want %q", report.Policy, open.Digest())
	}
	second := begin(t, setup{shared: shared, tools: tools})
	second.Hello()
	second.Call(1, "math.add", `{"a": 1, "b": 1}`)
	second.ExpectCode(1, broker.CodeDenied)
	second.Finish(2, "null")
	if report, err := second.Wait(); err != nil || report.Policy != closed.Digest() {
		t.Errorf("got policy %q, error %v, want %q", report.Policy, err, closed.Digest())
	}
	plain := begin(t, setup{})
	plain.Hello()
	if report := plain.end(t); report.Policy != "" {
		t.Errorf("without a policy: got %q", report.Policy)
	}
}
