package broker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"
)

// histories are the records of several jobs.
type histories map[job.ID]*history

func (h histories) Recorded(ctx context.Context, q job.CallQuery, each func(job.Call) error) error {
	if h[q.Job] == nil {
		return nil
	}
	return h[q.Job].Recorded(ctx, q, each)
}

// calls makes records of lines such as `a.b {"x":1} -> 2` or `a.b {} !timeout`.
func calls(lines ...string) *history {
	h := &history{id: job.NewID()}
	for i, line := range lines {
		tool, rest, _ := strings.Cut(line, " ")
		c := job.Call{Job: h.id, Attempt: 1, Seq: i + 1, State: job.CallOK, EndLink: i + 1}
		c.Namespace, c.Name, _ = strings.Cut(tool, ".")
		if arguments, code, failed := strings.Cut(rest, " !"); failed {
			c.Arguments, c.Code, c.State = jsontext.Value(arguments), code, job.CallFailed
		} else {
			arguments, answer, _ := strings.Cut(rest, " -> ")
			c.Arguments, c.Answer = jsontext.Value(arguments), jsontext.Value(answer)
		}
		h.calls = append(h.calls, c)
	}
	return h
}

func TestTheFirstCallThatWentAnotherWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, after *history
		want          string
	}{
		{"nothing", calls(), calls(), ""},
		{"the same", calls(`a.b {"x":1,"y":2} -> 1`, `a.b {} !timeout`), calls(`a.b {"y":2,"x":1} -> 1`, `a.b {} !timeout`), ""},
		{"in another order", calls(`a.b {"x":1} -> 1`, `a.b {"x":2} -> 2`), calls(`a.b {"x":2} -> 2`, `a.b {"x":1} -> 1`), ""},
		{"other arguments", calls(`a.b {"x":1} -> 1`, `a.b {"x":2} -> 2`), calls(`a.b {"x":1} -> 1`, `a.b {"x":3} !diverged`), `arguments a.b 2 2 {"x":2} {"x":3}`},
		{"an int for a float", calls(`a.b {"x":1} -> 1`), calls(`a.b {"x":1.0} !diverged`), `arguments a.b 1 1 {"x":1} {"x":1.0}`},
		{"big integers", calls(`a.b {"x":9007199254740993} -> 1`), calls(`a.b {"x":9007199254740992} !diverged`), `arguments a.b 1 1 {"x":9007199254740993} {"x":9007199254740992}`},
		{"one too many", calls(`a.b {} -> 1`), calls(`a.b {} -> 1`, `a.b {} !diverged`), `extra a.b 0 2  {}`},
		{"one too few", calls(`a.b {} -> 1`, `a.b {} -> 2`), calls(`a.b {} -> 1`), `missing a.b 2 0 {} `},
		{"another tool", calls(`a.b {} -> 1`), calls(`a.c {} !diverged`), `extra a.c 0 1  {}`},
		{"the first of several", calls(`a.b {} -> 1`, `a.c {} -> 1`, `a.d {} -> 1`), calls(`a.b {} -> 1`, `a.c {"n":1} !diverged`), `arguments a.c 2 2 {} {"n":1}`},
		{"not kept", calls(`a.b {} -> "[redacted]"`), calls(`a.b {} !not_recorded`), `answer a.b 1 1 "[redacted]" not_recorded: `},
	} {
		past := histories{c.before.id: c.before, c.after.id: c.after}
		d, n, err := broker.Diverged(t.Context(), past, job.DefaultTenant, c.before.id, c.after.id)
		if err != nil || n != len(c.after.calls) {
			t.Errorf("%s: got %d calls, error %v; want %d", c.name, n, err, len(c.after.calls))
		}
		got := ""
		if d != nil {
			got = fmt.Sprintf("%s %s %d %d %s %s", d.Kind, d.Tool, d.Seq, d.ReplaySeq, d.Before, d.After)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDivergedResult(t *testing.T) {
	t.Parallel()
	result := func(edit func(*job.Result)) *job.Result {
		r := &job.Result{Status: job.StatusOK, Value: jsontext.Value(`{"a":1,"b":2}`), Stdout: job.Bytes("hi\n"), StdoutBytes: 3}
		edit(r)
		return r
	}
	failed := func(message string) func(*job.Result) {
		return func(r *job.Result) { r.Error = &job.Error{Type: "E", Message: message, Traceback: message} }
	}
	for name, c := range map[string]struct {
		before, after func(*job.Result)
		want          *job.Divergence
	}{
		"equal":            {func(*job.Result) {}, func(r *job.Result) { r.Value = jsontext.Value(`{ "b":2, "a":1 }`) }, nil},
		"status":           {func(*job.Result) {}, func(r *job.Result) { r.Status, r.Value = job.StatusTimeout, nil }, &job.Divergence{Kind: "status", Before: job.Bytes("ok"), After: job.Bytes("timeout")}},
		"value":            {func(*job.Result) {}, func(r *job.Result) { r.Value = nil }, &job.Divergence{Kind: "value", Before: job.Bytes(`{"a":1,"b":2}`)}},
		"error":            {failed("x"), failed("y"), &job.Divergence{Kind: "error", Before: job.Bytes("E: x"), After: job.Bytes("E: y")}},
		"another address":  {failed("x"), func(r *job.Result) { failed("x")(r); r.Error.Traceback = "elsewhere" }, nil},
		"stdout":           {func(*job.Result) {}, func(r *job.Result) { r.Stdout = job.Bytes("ho\n") }, &job.Divergence{Kind: "stdout", Before: job.Bytes("hi\n"), After: job.Bytes("ho\n")}},
		"stdout was cut":   {func(*job.Result) {}, func(r *job.Result) { r.StdoutBytes = 9 }, &job.Divergence{Kind: "stdout", Before: job.Bytes("hi\n"), After: job.Bytes("hi\n")}},
		"stderr is nobody": {func(*job.Result) {}, func(r *job.Result) { r.Stderr = job.Bytes("warning") }, nil},
	} {
		got := broker.DivergedResult(result(c.before), result(c.after))
		if diff := gocmp.Diff(c.want, got, gocmp.Comparer(func(a, b job.Bytes) bool { return string(a) == string(b) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
