package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"airlock/job"
	"airlock/queue"
)

// one runs a job and returns its id.
func (f *fleet) one(code string, args ...string) string {
	f.t.Helper()
	got := f.submit(append([]string{"run", "--json", "--code", code}, args...)...)
	var r job.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		f.t.Fatalf("got %q: %v", got.stdout, err)
	}
	return r.Job.String()
}

// documents decodes JSON lines.
func documents[T any](t testing.TB, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("got line %q: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

func TestStatusAndResult(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	id := f.one("fail", "--batch", "b1", "--label", "a=\x1b[31m")
	got := f.submit("status", id).want(t, codeOK)
	for _, text := range []string{id, "guest_error", "b1", `a=\x1b[31m`, "bubblewrap", `ValueError: bad\x1b[2J`} {
		got.wantIn(t, "stdout", text)
	}
	if strings.ContainsRune(got.stdout, 0x1b) {
		t.Errorf("got an escape in %q", got.stdout)
	}
	records := documents[job.Record](t, f.submit("status", id, "--json").want(t, codeOK).stdout)
	if len(records) != 1 || records[0].ID.String() != id || records[0].Labels["a"] != "\x1b[31m" {
		t.Errorf("got %+v, want the record with its label as it is", records)
	}
	f.submit("result", id).want(t, codeFailed).wantIn(t, "stderr", "ValueError")
	f.submit("result", f.one("value 3")).want(t, codeOK).wantIn(t, "stdout", "3\n")
	for _, verb := range []string{"status", "result", "calls", "requeue"} {
		f.submit(verb, job.NewID().String()).want(t, codeUsage).wantIn(t, "stderr", "not_found")
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	id := f.one("value 1")
	f.submit("calls", id).want(t, codeOK).wantIn(t, "stdout", `{"a":1,"b":2}`).wantIn(t, "stdout", `math.evil\x1b[31m`).
		wantIn(t, "stdout", "not_granted: no grant")
	calls := documents[job.Call](t, f.submit("calls", id, "--json").want(t, codeOK).stdout)
	if len(calls) != 2 || calls[1].State != job.CallRefused {
		t.Errorf("got %+v, want two calls, the second refused", calls)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	for i := range 5 {
		f.one(fmt.Sprint("value ", i), "--batch", "b1")
	}
	failed := f.one("fail", "--batch", "b2")
	for _, tt := range []struct {
		args []string
		want int
	}{
		{nil, 6},
		{[]string{"--batch", "b1"}, 5},
		{[]string{"--status", "guest_error"}, 1},
		{[]string{"--limit", "4"}, 4},
		{[]string{"--since", "1h"}, 6},
		{[]string{"--since", "2999-01-01T00:00:00Z"}, 0},
	} {
		got := f.submit(append([]string{"history", "--json"}, tt.args...)...).want(t, codeOK)
		if records := documents[job.Record](t, got.stdout); len(records) != tt.want {
			t.Errorf("history %v: got %d records, want %d", tt.args, len(records), tt.want)
		}
	}
	f.submit("history").want(t, codeOK).wantIn(t, "stdout", failed).wantIn(t, "stdout", "guest_error")
	other := []string{"AIRLOCK_NATS=" + f.cfg.server.URLOf("submitter-other")}
	f.submitIn(t.Context(), other, "", "history", "--tenant", "other").want(t, codeOK).wantIn(t, "stderr", "no such jobs")
}

func TestHistoryPages(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.submit("batch", jobsFile(t, 2500), "--quiet").want(t, codeOK)
	seen := map[job.ID]bool{}
	for _, r := range documents[job.Record](t, f.submit("history", "--json", "--limit", "2200").want(t, codeOK).stdout) {
		seen[r.ID] = true
	}
	if len(seen) != 2200 {
		t.Errorf("got %d different records, want 2200", len(seen))
	}
}

func TestWorkersAndLanes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	got := f.submit("workers").want(t, codeOK)
	for _, text := range []string{"host-a", "bubblewrap", "strong", "0.8.0", "zone=x", "TEMPLATES", " data ", `no socket\x1b[31m`, "0/64"} {
		got.wantIn(t, "stdout", text)
	}
	workers := documents[queue.Presence](t, f.submit("workers", "--json").want(t, codeOK).stdout)
	if len(workers) != 1 || workers[0].Unavailable["docker"] != "no socket\x1b[31m" {
		t.Errorf("got %+v, want one worker", workers)
	}
	f.one("value 1")
	f.submit("run", "--code", "value 1", "--backend", "docker", "--park", "--no-wait", "--priority", "low").want(t, codeOK)
	f.submit("lanes").want(t, codeOK).wantIn(t, "stdout", "any").wantIn(t, "stdout", "docker")
	lanes := documents[queue.Lane](t, f.submit("lanes", "--json").want(t, codeOK).stdout)
	waiting := map[string]int{}
	for _, lane := range lanes {
		waiting[lane.Name] = lane.Depth[job.PriorityLow].Waiting
	}
	if len(lanes) != 2 || waiting["docker"] != 1 || waiting["any"] != 0 {
		t.Errorf("got %+v, want lanes any and docker, one job waiting in docker's", lanes)
	}
	none := newFleet(t, fleetConfig{workers: -1})
	none.submit("workers").want(t, codeOK).wantIn(t, "stderr", "no worker is there")
}

func TestDeadAndRequeue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.submit("dead").want(t, codeOK).wantIn(t, "stderr", "no dead jobs")
	dead, fine := f.one("infra"), f.one("value 1")
	f.submit("dead").want(t, codeOK).wantIn(t, "stdout", dead)
	if records := documents[job.Record](t, f.submit("dead", "--json").want(t, codeOK).stdout); len(records) != 1 {
		t.Errorf("got %d dead jobs, want 1", len(records))
	}
	f.submit("requeue", dead).want(t, codeOK).wantIn(t, "stdout", "generation 2")
	f.submit("requeue", dead, "--json").want(t, codeOK).wantIn(t, "stdout", `{"generation":2}`)
	f.submit("requeue", fine).want(t, codeUsage).wantIn(t, "stderr", "not dead")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	id := strings.TrimSpace(f.submit("run", "--code", "hang", "--no-wait").want(t, codeOK).stdout)
	eventually(t, "the job's start", func() bool { jobs, _ := f.ran(); return jobs == 1 })
	met := documents[job.Cancelled](t, f.submit("cancel", id, "--json").want(t, codeOK).stdout)
	if len(met) != 1 || met[0].Running+met[0].Already != 1 {
		t.Errorf("got %+v, want one job that was running or has just ended", met)
	}
	f.submit("wait", "none").want(t, codeUsage).wantIn(t, "stderr", "not_found")
	eventually(t, "the job's end", func() bool { return f.submit("result", id).code == codeFailed })
	f.submit("cancel", id, "--json").want(t, codeOK).wantIn(t, "stdout", `{"ended":0,"running":0,"already":1}`)
	f.submit("cancel", job.NewID().String()).want(t, codeUsage).wantIn(t, "stderr", "is not known")

	done := make(chan ended)
	file := write(t, "jobs.jsonl", strings.Repeat(`{"code": "hang"}`+"\n", 5))
	go func() { done <- f.submit("batch", file, "--batch", "b1", "--json", "-o", file+".out") }()
	eventually(t, "the batch's start", func() bool { jobs, _ := f.ran(); return jobs == 6 })
	f.submit("cancel", "b1").want(t, codeOK).wantIn(t, "stdout", "ended before: ")
	if sum := summaryOf(t, (<-done).want(t, codeFailed).stdout); sum.Statuses[job.StatusCancelled] != 5 {
		t.Errorf("got %+v, want five cancelled", sum)
	}
	// Nobody is there to end what waits, but the wish is kept.
	mute := newFleet(t, fleetConfig{muted: true})
	mute.submit("cancel", job.NewID().String()).want(t, codeOK).wantIn(t, "stderr", "recorded")
}

func TestWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{})
	f.close()
	for i := range 3 {
		f.submit("run", "--code", fmt.Sprint("value ", i), "--batch", "b1", "--no-wait").want(t, codeOK)
	}
	done := make(chan ended)
	go func() { done <- f.submit("wait", "b1", "--report-every", "20ms") }()
	eventually(t, "the jobs' start", func() bool { jobs, _ := f.ran(); return jobs == 3 })
	f.open()
	(<-done).want(t, codeOK).wantIn(t, "stdout", "ok    3")
	f.one("fail", "--batch", "b1")
	out := write(t, "out.jsonl", "")
	got := f.submit("wait", "b1", "--json", "-o", out).want(t, codeFailed)
	if sums := documents[job.Summary](t, got.stdout); len(sums) != 1 || sums[0].Total != 4 || sums[0].Statuses[job.StatusOK] != 3 {
		t.Errorf("got %+v, want four jobs, three of them ok", sums)
	}
	if n := len(documents[job.Result](t, read(t, out))); n != 4 {
		t.Errorf("got %d results, want 4", n)
	}
	if n := len(documents[job.Result](t, f.submit("wait", "b1", "-o", "-").want(t, codeFailed).stdout)); n != 4 {
		t.Errorf("got %d results on stdout, want 4", n)
	}
}

func TestQuestionsWithoutWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetConfig{muted: true})
	for _, args := range [][]string{{"status", job.NewID().String()}, {"history"}, {"dead"}} {
		f.submit(args...).want(t, codeAirlock).wantIn(t, "stderr", "no worker answers").wantIn(t, "stderr", "start a worker")
	}
}
