package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/queue"
)

// tools answers with one tool, whose provider writes to terminals.
func (f *fleet) tools(_ context.Context, _ string, request []byte) (any, error) {
	var r job.ToolsQuery
	if err := job.DecodeStrict(request, &r); err != nil {
		return nil, err
	}
	if r.Refused {
		return map[string][]job.RefusedTool{"refused": {
			{Subject: "tools.x.y.z", Reason: "odd\x1b[2J", Providers: 2}, {Subject: "tools.n._a", Reason: "no name", Providers: 1},
		}}, nil
	}
	rows := []job.ListedTool{{
		Namespace: "math", Name: "add", Description: "Adds\x1b[31m " + strings.Repeat("x", 100), Providers: 2, ReadOnly: true, Approval: true,
		Calls: 200, Errors: 3, P50: job.Duration(2 * time.Millisecond), P99: job.Duration(time.Second), Breaker: "open",
	}, {Namespace: "math", Name: "new-tool", Idempotent: true}}
	if r.Schemas {
		rows[0].InputSchema = jsontext.Value(`{"type":"object"}`)
	}
	if r.Namespace != "" && r.Namespace != "math" {
		rows = nil
	}
	return map[string][]job.ListedTool{"tools": rows}, nil
}

var (
	asked    = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	aCall, _ = job.ParseID("01980000-0000-7000-8000-00000000abcd")
	request  = job.Approval{
		CallRef: job.CallRef{Job: aCall, Attempt: 1, Seq: 2}, Tenant: "default", Namespace: "files", Name: "delete",
		Arguments: jsontext.Value(`{"path":"\u001b[2J/etc"}`), Asked: asked, Expires: asked.Add(time.Hour), State: job.ApprovalWaiting,
	}
)

func (f *fleet) approvals(_ context.Context, _ string, body []byte) (any, error) {
	var r approvalsRequest
	if err := job.DecodeStrict(body, &r); err != nil {
		return nil, err
	}
	list := []job.Approval{request}
	if r.All {
		gone := request
		gone.Seq, gone.State, gone.By, gone.Reason = 1, job.ApprovalDenied, "ann@host", "no\x1b[2J"
		list = append(list, gone)
	}
	if r.Call != nil && r.Call.Tail != "00000000abcd" && r.Call.Job != aCall {
		return nil, notFound("no such request")
	}
	return map[string][]job.Approval{"approvals": list}, nil
}

// decide lets ann decide, and takes no decision of anybody else.
func (f *fleet) decide(_ context.Context, _ string, body []byte) (any, error) {
	var d job.Decision
	if err := job.DecodeStrict(body, &d); err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	if d.By == "late" {
		return nil, &queue.RemoteError{Code: remoteConflict, Message: "the attempt has ended"}
	}
	now := request
	now.State, now.By, now.Reason, now.Decided = d.State(), d.By, d.Reason, asked.Add(90*time.Second)
	return now, nil
}

// performCall does what callCode does: it gives back what would be called.
func (f *fleet) performCall(r *job.Result, j *job.Job) {
	var vars struct {
		Call struct {
			Namespace string         `json:"namespace"`
			Name      string         `json:"name"`
			Arguments jsontext.Value `json:"arguments"`
		} `json:"call"`
	}
	if err := json.Unmarshal(j.Vars, &vars); err != nil || j.Code != callCode {
		r.Status, r.Error = job.StatusGuestError, &job.Error{Type: "TypeError", Message: "not a call"}
		return
	}
	switch vars.Call.Name {
	case "fails":
		r.Status, r.Error = job.StatusGuestError, &job.Error{Type: "ToolError", Message: "provider_error: bad\x1b[2J", Traceback: "Traceback"}
	case "null":
		r.Value = jsontext.Value("null")
	case "job":
		r.Value = echo(j)
	default:
		r.Value = vars.Call.Arguments
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("tools").want(t, codeOK)
	for _, text := range []string{"math.add", `Adds\x1b[31m`, "read-only, asks a person", "200", "2ms", "1s", "1.5 %", "open", "math.new-tool", "idempotent"} {
		got.wantIn(t, "stdout", text)
	}
	if strings.ContainsRune(got.stdout, 0x1b) || strings.Contains(got.stdout, strings.Repeat("x", 61)) {
		t.Errorf("got %q, want it printable and cut", got.stdout)
	}
	rows := documents[job.ListedTool](t, f.submit("tools", "math", "--json").want(t, codeOK).stdout)
	if len(rows) != 2 || string(rows[0].InputSchema) != `{"type":"object"}` || rows[0].P99 != job.Duration(time.Second) {
		t.Errorf("got %+v, want two tools with schemas", rows)
	}
	f.submit("tools", "none").want(t, codeOK).wantIn(t, "stderr", "no provider")
	f.submit("tools", "--refused").want(t, codeOK).wantIn(t, "stdout", `odd\x1b[2J`).wantIn(t, "stdout", "tools.n._a")
	if refused := documents[job.RefusedTool](t, f.submit("tools", "x", "--refused", "--json").want(t, codeOK).stdout); len(refused) != 1 {
		t.Errorf("got %+v, want that of x", refused)
	}
	f.submit("tools", "--since", "soon").want(t, codeUsage)
}

func TestCall(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	for _, tt := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{"math.add", `{"a": 1, "b": 2512292042121000001}`}, "", `{"a":1,"b":2512292042121000001}`},
		{[]string{"math.odd-name"}, "", "{}"},
		{[]string{"math.add", "-"}, ` {"a": "é"} `, `{"a":"é"}`},
		{[]string{"math.null"}, "", "null"},
	} {
		got := f.submitIn(t.Context(), nil, tt.stdin, append([]string{"call"}, tt.args...)...).want(t, codeOK)
		if got.stdout != tt.want+"\n" {
			t.Errorf("%v: got %q, want %q", tt.args, got.stdout, tt.want)
		}
	}
	failed := f.submit("call", "math.fails").want(t, codeFailed).wantIn(t, "stderr", `ToolError: provider_error: bad\x1b[2J`)
	if failed.stdout != "" {
		t.Errorf("got %q on stdout, want nothing", failed.stdout)
	}
	results := documents[job.Result](t, f.submit("call", "math.fails", "--json").want(t, codeFailed).stdout)
	if len(results) != 1 || results[0].Error.Type != "ToolError" {
		t.Errorf("got %+v, want the result", results)
	}
	j, err := job.Decode([]byte(f.submit("call", "math.job", "--tool-time", "5s").want(t, codeOK).stdout))
	if err != nil || len(j.Tools) != 1 || j.Tools[0] != (job.Grant{Namespace: "math", Name: "job"}) || j.Labels[callLabel] != "math.job" ||
		j.Limits.ToolCalls != 1 || j.Limits.ToolTime.Std() != 5*time.Second || j.MaxAttempts != 1 {
		t.Errorf("got job %+v and error %v, want one that may make this call, once", j, err)
	}
	for _, args := range [][]string{
		{"add"}, {"math."}, {"math.a.b"}, {"math.*"}, {"math.a\x1b"}, {"math.add", "[1]"}, {"math.add", "{"}, {"math.add", `{"a":1,"a":2}`}, {"math.add", ""}, {"math.add", `{}{}`},
	} {
		f.submit(append([]string{"call"}, args...)...).want(t, codeUsage)
	}
}

func TestApprovalsAndApprove(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("approvals").want(t, codeOK)
	for _, text := range []string{"00000000abcd/1/2", "files.delete", "waiting", `\x1b[2J/etc`} {
		if text == `\x1b[2J/etc` {
			text = `\u001b[2J/etc`
		}
		got.wantIn(t, "stdout", text)
	}
	f.submit("approvals", "--all").want(t, codeOK).wantIn(t, "stdout", `ann@host: no\x1b[2J`)
	if list := documents[job.Approval](t, f.submit("approvals", "--all", "--json").want(t, codeOK).stdout); len(list) != 2 || list[0].CallRef != request.CallRef {
		t.Errorf("got %+v, want both", list)
	}
	f.submit("approvals", "00000000abcd/1/2").want(t, codeOK).wantIn(t, "stdout", "call       "+request.CallRef.String()).wantIn(t, "stdout", `{"path":"\u001b[2J/etc"}`)
	f.submit("approvals", "00000000ffff/1/2").want(t, codeUsage).wantIn(t, "stderr", "not_found")

	// A submitter cannot decide where the server has users.
	f.cfg.server.ExpectRefusals()
	f.submit("approve", "00000000abcd/1/2").want(t, codeUsage).wantIn(t, "stderr", "login of the tenant's approver")
	approver := []string{"AIRLOCK_NATS=" + f.cfg.server.URLOf("approver-default")}
	approve := func(args ...string) ended {
		return f.submitIn(t.Context(), approver, "", append([]string{"approve"}, args...)...)
	}
	approve("00000000abcd/1/2").want(t, codeOK).wantIn(t, "stdout", "files.delete approved after 1m30s")
	denied := documents[job.Approval](t, approve(request.CallRef.String(), "--deny", "--reason", "why", "--by", "ann", "--json").want(t, codeOK).stdout)
	if len(denied) != 1 || denied[0].State != job.ApprovalDenied || denied[0].By != "ann" || denied[0].Reason != "why" {
		t.Errorf("got %+v, want it denied by ann", denied)
	}
	by := documents[job.Approval](t, approve("00000000abcd/1/2", "--json").want(t, codeOK).stdout)
	if len(by) != 1 || by[0].By != whoami() || !strings.Contains(by[0].By, "@") {
		t.Errorf("got %+v, want it by %s", by, whoami())
	}
	approve("00000000abcd/1/2", "--by", "late").want(t, codeUsage).wantIn(t, "stderr", "the attempt has ended")
	for _, args := range [][]string{
		{"x"}, {"00000000abcd/1"}, {"00000000abcd/0/1"}, {"00000000abcd/1/x"}, {"00000000ABCD/1/1"}, {"abcd/1/1"},
		{"00000000abcd/1/2", "--reason", strings.Repeat("x", job.MaxReason+1)}, {"00000000abcd/1/2", "--by", strings.Repeat("x", job.MaxApprover+1)},
	} {
		approve(args...).want(t, codeUsage)
	}
	if got := f.submitIn(t.Context(), approver, "", "approvals"); got.code != codeOK {
		t.Errorf("approver's list: got %+v", got)
	}
}
