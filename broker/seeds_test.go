package broker_test

import (
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"
)

// What the isolated runner that this grew out of promised of its broker, in
// our words. Its dotted allow-list entries are pairs here.

func pin(namespace string) []func(*job.Job) {
	return []func(*job.Job){func(j *job.Job) { j.Namespace = namespace }}
}

// safeAndAdmin offers safe.add, admin.add and admin.danger, which answer with
// their own names.
func safeAndAdmin(t *testing.T) *brokertest.Tools {
	tools := &brokertest.Tools{}
	for _, name := range []string{"safe.add", "admin.add", "admin.danger"} {
		tools.Add(t, name, "", func(broker.Request) *broker.Answer { return brokertest.Body(`"` + name + `"`) })
	}
	return tools
}

func TestSeedNamespaceAuthority(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, grants, pin, params, want string }{
		{"cannot override the pin", "safe.* admin.*", "safe", `"namespace":"admin","name":"danger"`, "namespace_not_allowed"},
		{"resolves in the pin", "safe.* admin.*", "safe", `"name":"add"`, "safe.add"},
		{"no other namespace's tool", "safe.* admin.*", "safe", `"name":"danger"`, "unknown_tool"},
		{"naming the pin is fine", "safe.* admin.*", "safe", `"namespace":"safe","name":"add"`, "safe.add"},
		{"no pin and no namespace", "safe.* admin.*", "", `"name":"add"`, "namespace_not_allowed"},
		{"a pair grants its namespace", "safe.add", "", `"namespace":"safe","name":"add"`, "safe.add"},
		{"and no other", "safe.add", "", `"namespace":"admin","name":"add"`, "not_granted"},
		{"all of a namespace", "admin.*", "", `"namespace":"admin","name":"danger"`, "admin.danger"},
		{"and no other's", "admin.*", "", `"namespace":"safe","name":"add"`, "not_granted"},
		{"a dotted name is no pair", "safe.add", "admin", `"name":"safe.add"`, "bad_name"}, // W18
		{"an unserved namespace", "gone.tool", "", `"namespace":"gone","name":"tool"`, "no_provider"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := begin(t, setup{tools: safeAndAdmin(t), grants: tt.grants, edits: pin(tt.pin)})
			b.Hello()
			b.Send(`{"id":1,"method":"call_tool","params":{` + tt.params + `,"arguments":{}}}`)
			if got := b.Recv(); !strings.Contains(got, `"`+tt.want+`"`) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			b.end(t)
		})
	}
}

func TestSeedListIsFiltered(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{tools: safeAndAdmin(t), grants: "safe.add admin.gone"})
	b.Hello()
	b.Send(`{"id":0,"method":"list_tools"}`)
	b.Expect(`{"id":0,"ok":true,"value":[{"namespace":"safe","name":"add"},{"namespace":"admin","name":"gone"}]}`)
	b.end(t)
}

func TestSeedConcurrentCallsCountOnceEach(t *testing.T) {
	t.Parallel()
	b := begin(t, setup{tools: safeAndAdmin(t), grants: "safe.add"})
	b.Hello()
	for i := range 3 {
		b.Call(i, "safe.add", `{}`)
	}
	for range 3 {
		if got := b.Recv(); !strings.Contains(got, `"ok":true`) {
			t.Errorf("got %s, want ok", got)
		}
	}
	if report := b.end(t); report.ToolCalls != 3 {
		t.Errorf("got %d calls, want 3", report.ToolCalls)
	}
}

func TestSeedFailingToolCountsAndItsSecretsStay(t *testing.T) { // BK36
	t.Parallel()
	tools := &brokertest.Tools{}
	tools.Add(t, "safe.fail", "", func(broker.Request) *broker.Answer {
		return &broker.Answer{Code: broker.CodeProviderError, Message: "not_found", Detail: "password=hunter2", Provider: "p1"}
	})
	b := begin(t, setup{tools: tools, grants: "safe.fail"})
	b.Hello()
	b.Call(1, "safe.fail", `{}`)
	b.Expect(`{"id":1,"ok":false,"error":{"code":"provider_error","message":"not_found"}}`)
	if report := b.end(t); report.ToolCalls != 1 {
		t.Errorf("got %d calls, want 1", report.ToolCalls)
	}
	if c := b.audit.Calls()[0]; c.State != job.CallFailed || c.Detail != "password=hunter2" || c.Provider != "p1" {
		t.Errorf("got call %s with detail %q of %s, want it failed with the detail", c.State, c.Detail, c.Provider)
	}
}
