package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"airlock/job"
)

// till answers ledger.spend, and counts. It never answers the call whose n is
// stall, until it is let go.
type till struct {
	mu    sync.Mutex
	calls map[string]int // by arguments; guarded by mu
	keys  map[string]int // by Idempotency-Key; guarded by mu
}

func (s *services) till(t *testing.T) *till {
	t.Helper()
	nc, err := nats.Connect(s.nats.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	l := &till{calls: map[string]int{}, keys: map[string]int{}}
	service, err := micro.AddService(nc, micro.Config{Name: "ledger", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(r micro.Request) {
		l.mu.Lock()
		l.calls[string(r.Data())]++
		n := 0
		for _, calls := range l.calls {
			n += calls
		}
		l.keys[r.Headers().Get("Idempotency-Key")]++
		l.mu.Unlock()
		_ = r.Respond(fmt.Appendf(nil, `{"calls":%d}`, n)) // its requester may be gone
	}
	err = service.AddEndpoint("spend", micro.HandlerFunc(answer), micro.WithEndpointSubject("tools.ledger.spend"),
		micro.WithEndpointMetadata(map[string]string{"description": "Has an effect.", "input_schema": `{"type":"object"}`}))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *till) count() (calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.calls {
		calls += n
	}
	return calls
}

// sql runs a statement as the superuser, with the triggers that keep the audit
// out of the way.
func (s *services) sql(t *testing.T, statement string, args ...any) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), s.postgres.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if _, err := db.Exec(t.Context(), "SET session_replication_role = replica"); err != nil {
		t.Fatal(err)
	}
	tag, err := db.Exec(t.Context(), statement, args...)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %d rows, %v", statement, tag.RowsAffected(), err)
	}
}

func (s *services) audit(t *testing.T, code int, args ...string) (a job.Audit) {
	t.Helper()
	got := submit(t, s.env(), "", append([]string{"audit", "verify", "--json"}, args...)...)
	if got.code != code {
		t.Fatalf("audit verify %v: exit code %d, want %d\n%s\n%s", args, got.code, code, got.stdout, got.stderr)
	}
	if err := json.Unmarshal([]byte(got.stdout), &a); err != nil {
		t.Fatalf("%s: %v", got.stdout, err)
	}
	return a
}

// spends calls four times, twice alike and in parallel, and then waits.
const spends = `
import asyncio, time
first = await asyncio.gather(spend(n=1), spend(n=1), spend(n=2))
last = await spend(n=3)
time.sleep(%d)
print("spent")
return [sorted(c["calls"] for c in first), last["calls"]]
`

// The worker is killed while the guest goes on after its calls; the next
// attempt makes them all, and the provider hears of none.
func TestALaterAttemptIsGivenTheAnswersOfTheFirst(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	till := s.till(t)
	first := s.worker(t)
	id := s.submitted(t, fmt.Sprintf(spends, 6), "--tools", "ledger.spend", "--batch", "kept")
	until(t, time.Minute, "four calls", func() bool {
		got := submit(t, s.env(), "", "calls", id.String(), "--json")
		return strings.Count(got.stdout, `"state":"ok"`) == 4
	})
	first.kill()
	s.worker(t)
	s.await(t, id, job.Lease+90*time.Second, job.StateFinished)
	got := submit(t, s.env(), "", "result", id.String(), "--json")
	var r job.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatal(err)
	}
	if r.Status != job.StatusOK || string(r.Value) != "[[1,2,3],4]" || r.Attempt != 2 || r.ToolCalls != 4 {
		t.Errorf("got %s, %s on attempt %d with %d calls, want ok and [[1,2,3],4] on the second with 4: %+v", r.Status, r.Value, r.Attempt, r.ToolCalls, r.Error)
	}
	if n := till.count(); n != 4 {
		t.Errorf("the provider was called %d times, want 4", n)
	}
	calls := submit(t, s.env(), "", "calls", id.String(), "--json").stdout
	if n := strings.Count(calls, `"state":"replayed"`); n != 4 {
		t.Errorf("got %d replayed rows, want 4:\n%s", n, calls)
	}
	a := s.audit(t, 0, "kept")
	if a.Jobs != 1 || a.Attempts != 2 || a.Unsealed != 1 || a.Calls != 8 {
		t.Errorf("got audit %+v, want 1 job, 2 attempts of which one is unsealed, 8 calls", a)
	}
	s.sql(t, "DELETE FROM tool_calls WHERE job = $1 AND attempt = 1 AND seq = 2", id.String())
	// Which link went before it, and cannot be checked now, is chance: two calls
	// ran beside each other.
	missed := func(f job.Fault) bool { return f.Kind == job.FaultRemoved && f.Seq == 2 && f.Attempt == 1 }
	if a := s.audit(t, 1, id.String()); !slices.ContainsFunc(a.Faults, missed) {
		t.Errorf("got faults %+v, want call 2 of the lost attempt missed", a.Faults)
	}
}

func TestAReplayIsEqualOrSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	till := s.till(t)
	s.worker(t)
	same := s.submitted(t, fmt.Sprintf(spends, 0), "--tools", "ledger.spend", "--label", "kind=demo")
	timed := s.submitted(t, "import time\nawait spend(n=7)\nawait spend(at=time.time_ns())\nreturn 1", "--tools", "ledger.spend")
	valued := s.submitted(t, "import time\nreturn time.time_ns()")
	for _, id := range []job.ID{same, timed, valued} {
		s.await(t, id, time.Minute, job.StateFinished)
	}
	before := till.count()
	for _, c := range []struct {
		id   job.ID
		code int
		want job.Replay
		more string
	}{
		{id: same, code: 0, want: job.Replay{Job: same, Equal: true, Calls: 4}},
		{id: timed, code: 1, want: job.Replay{Job: timed, Calls: 2, Divergence: &job.Divergence{Kind: "arguments", Seq: 2, ReplaySeq: 2, Tool: "ledger.spend"}}, more: `{"at":`},
		{id: valued, code: 1, want: job.Replay{Job: valued, Divergence: &job.Divergence{Kind: "value"}}, more: "1"},
	} {
		said := submit(t, s.env(), "", "replay", c.id.String(), "--json")
		var got job.Replay
		if err := json.Unmarshal([]byte(said.stdout), &got); err != nil || said.code != c.code {
			t.Fatalf("replay %s: exit code %d, %v, %s, %s; want %d", c.id, said.code, err, said.stdout, said.stderr, c.code)
		}
		replay := got.Replay
		if d := got.Divergence; d != nil {
			if !strings.HasPrefix(string(d.Before), c.more) || !strings.HasPrefix(string(d.After), c.more) || string(d.Before) == string(d.After) {
				t.Errorf("got before %s and after %s, want two that begin with %s", d.Before, d.After, c.more)
			}
			d.Before, d.After = nil, nil
		}
		got.Replay = job.ID{}
		gotText, _ := json.Marshal(got)
		wantText, _ := json.Marshal(c.want)
		if string(gotText) != string(wantText) {
			t.Errorf("got %s, want %s", gotText, wantText)
		}
		history := submit(t, s.env(), "", "status", replay.String(), "--json")
		if !strings.Contains(history.stdout, `"replay_of":"`+c.id.String()+`"`) {
			t.Errorf("got record %s, want the label replay_of", history.stdout)
		}
		s.audit(t, 0, replay.String())
	}
	if n := till.count(); n != before {
		t.Errorf("the provider was called %d times by replays, want never", n-before)
	}
	if got := submit(t, s.env(), "", "replay", same.String()); got.code != 0 || !strings.HasPrefix(got.stdout, "equal: 4 calls; the replay is job ") {
		t.Errorf("got %d, %q, %s; want equal", got.code, got.stdout, got.stderr)
	}
	if got := submit(t, s.env(), "", "replay", timed.String()); got.code != 1 || !strings.Contains(got.stdout, "  before: {\"at\":") {
		t.Errorf("got %d, %q, %s; want diverged with the arguments before", got.code, got.stdout, got.stderr)
	}
	// Of another tenant there is nothing to see.
	for _, args := range [][]string{{"replay", same.String()}, {"audit", "verify", same.String()}} {
		if got := submit(t, s.env(), "", append([]string{"--tenant", "other"}, args...)...); got.code != 2 || got.stdout != "" {
			t.Errorf("%v of another tenant: got %d, %q, %q; want 2 and nothing", args, got.code, got.stdout, got.stderr)
		}
	}
}

func TestAuditVerifyNamesTheRow(t *testing.T) {
	t.Parallel()
	s := startServices(t)
	s.till(t)
	s.worker(t)
	code := "for n in (1, 2, 3):\n    await spend(n=n)\nreturn 1"
	for _, c := range []struct{ name, sql, want string }{
		{"arguments", `UPDATE tool_calls SET arguments = '{"n":9}' WHERE job = $1 AND seq = 2`, "changed 2"},
		{"answer", `UPDATE tool_calls SET answer = '{"calls":0}' WHERE job = $1 AND seq = 1`, "changed 1"},
		{"state", `UPDATE tool_calls SET state = 'failed' WHERE job = $1 AND seq = 3`, "changed 3"},
		{"retryable", `UPDATE tool_calls SET retryable = true WHERE job = $1 AND seq = 3`, "changed 3"},
		{"first row", `DELETE FROM tool_calls WHERE job = $1 AND seq = 1`, "removed 1"},
		{"middle row", `DELETE FROM tool_calls WHERE job = $1 AND seq = 2`, "removed 2"},
		{"last row", `DELETE FROM tool_calls WHERE job = $1 AND seq = 3`, "removed 0"},
		{"row added", `INSERT INTO tool_calls (job, attempt, seq, namespace, name, state, started_at, ended_at)
			VALUES ($1, 1, 4, 'ledger', 'spend', 'ok', now(), now())`, "added 4"},
		{"rows swapped", `UPDATE tool_calls SET seq = CASE seq WHEN 1 THEN 20 ELSE 1 END WHERE job = $1 AND seq IN (1, 2)`, "moved 1"},
		{"head", `UPDATE attempts SET audit_head = repeat('0', 64) WHERE job = $1`, "head 0"},
		{"no head", `UPDATE attempts SET audit_head = NULL WHERE job = $1`, "head 0"},
	} {
		id := s.submitted(t, code, "--tools", "ledger.spend", "--batch", "tampered")
		s.await(t, id, time.Minute, job.StateFinished)
		s.audit(t, 0, id.String())
		s.sql(t, c.sql, id.String())
		a := s.audit(t, 1, id.String())
		if len(a.Faults) == 0 {
			t.Errorf("%s: got no fault, want %s", c.name, c.want)
			continue
		}
		if got := fmt.Sprint(a.Faults[0].Kind, " ", a.Faults[0].Seq); got != c.want || a.Faults[0].Job != id || a.Faults[0].Attempt != 1 {
			t.Errorf("%s: got %+v, want %s first", c.name, a.Faults, c.want)
		}
	}
	if a := s.audit(t, 1, "tampered"); a.Jobs != 11 || a.Faulty < 11 {
		t.Errorf("batch: got %d jobs with %d faults, want 11 with as many or more", a.Jobs, a.Faulty)
	}
	if a := s.audit(t, 1, "--since", "1h"); a.Jobs != 11 {
		t.Errorf("since: got %d jobs, want 11", a.Jobs)
	}
	if got := submit(t, s.env(), "", "audit", "verify", "tampered"); got.code != 1 || !strings.Contains(got.stdout, "changed: call 2 does not fit links 3 (start) and 4 (end)") {
		t.Errorf("got %d and\n%s\nwant 1 and the row named", got.code, got.stdout)
	}
	for _, args := range [][]string{{}, {"tampered", "--since", "1h"}, {"no such"}, {"none"}} {
		if got := submit(t, s.env(), "", append([]string{"audit", "verify"}, args...)...); got.code != 2 {
			t.Errorf("audit verify %v: exit code %d, want 2: %s", args, got.code, got.stderr)
		}
	}
}
