package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"airlock/job"
)

// taken is a series whose jobs took so many milliseconds, one after the other.
func taken(id string, times ...int) row {
	f := newFigure(series{id: id, name: "row " + id})
	var at time.Duration
	for _, t := range times {
		took := time.Duration(t) * time.Millisecond
		at += took
		f.addAt(at, took, took/2)
	}
	f.spent = &spent{worker: time.Duration(len(times)) * time.Millisecond, machine: time.Duration(len(times)) * 3 * time.Millisecond}
	return f.row()
}

// page is a report with each of its tables.
func page() *report {
	long := taken("sustained/forkserver/print", 5, 5)
	long.First, long.Last = 100, 90
	r := &report{
		Machine: machine{Cores: 2, CPU: "test", System: "linux/amd64", Busy: 1, Load: "0.10"}, Scale: 1,
		Rows: []row{
			taken("control/idle", 1, 2, 3), taken("floor/bwrap/2", 10, 10), taken("forkserver/print/idle", 2, 2, 20), taken("forkserver/print/spaced", 9, 9),
			taken("forkserver/print/2slots", 2, 2, 2), taken("scaling/forkserver/print/4", 4), long, taken("output/1", 7), taken("calls/0", 8),
		},
		Weights: []weight{{ID: "memory/worker", Name: "worker", MiB: 40, Kind: "RSS"}, {ID: "memory/forkserver/parked", Name: "parked", MiB: 3.5, Kind: "own"}, {ID: "memory/forkserver/slot", Name: "slot", MiB: 1.5, Kind: "own"}, {ID: "memory/wasm/parked", Name: "spare", MiB: 46, Kind: "RSS"}},
		Trials:  []trial{{ID: "recovery/claims", Name: "shared", Value: 0.25, Unit: "times"}, {ID: "recovery/worker", Name: "killed", Value: 47, Unit: "s"}},
		Loads: []load{
			{ID: "queued/10", Jobs: 10, Rate: 5, P50: 1}, {ID: "batch/10000", Jobs: 10_000, Submit: 20, Worker: 100, Rate: 9},
			{ID: "batch/100000", Jobs: 100_000, Submit: 22, Worker: 120, Rate: 9},
			{ID: "http/20000", Jobs: 20_000, Gateway: 40, Rate: 9}, {ID: "http/200000", Jobs: 200_000, Gateway: 90, Rate: 9},
		},
	}
	r.absent("docker", "there is none")
	r.judge()
	return r
}

func TestGoals(t *testing.T) {
	t.Parallel()
	r := page()
	for what, want := range map[string][2]string{
		"whole path, forkserver, idle, p50":                                    {"2 and 9 ms", "NO"},
		"whole path, forkserver, idle, p99":                                    {"20 and 9 ms", "NO"},
		"sustained, forkserver, 2 slots, print":                                {"500 jobs/s", "yes"},
		"sustained, forkserver, 2 slots, asyncio and a tool call":              {"not measured here", ""},
		"against bwrap python3 per job, two at once, print":                    {"5 times", "yes"},
		"against bwrap python3 per job, two at once, asyncio":                  {"not measured here", ""},
		"control plane alone, idle, p50":                                       {"2 ms", "yes"},
		"print for a minute: rate of the last 10 s over the first 10 s":        {"0.9 times", "NO"},
		"100,000-job batch: nothing lost, memory of submit and worker flat":    {"0 lost, submit 1.1 times, worker 1.2 times", "yes"},
		"2,000 POST /v1/jobs of 100: nothing lost, memory of the gateway flat": {"0 lost, 2.25 times", "NO"},
		"what the gateway adds to a submission, p50":                           {"not measured here", ""},
		"worker idle, without warm guests":                                     {"40 MiB with NATS", "yes"},
		"each parked guest, forkserver":                                        {"3.5 MiB, and its slot's process 1.5", "NO"},
		"each spare guest, wasm":                                               {"46 MiB", "NO"},
		"16 workers on one lane, fewest claims over the mean":                  {"0.25 times", "NO"},
		"SIGKILL of a worker: results of all its jobs":                         {"47 s", "yes"},
		"NATS leader lost: submission resumes":                                 {"not measured here", ""},
	} {
		at := slices.IndexFunc(r.Goals, func(v verdict) bool { return v.What == what })
		if at < 0 {
			t.Errorf("no goal %q", what)
			continue
		}
		if got := [2]string{r.Goals[at].Measured, r.Goals[at].Met}; got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	r.Loads[2].Lost = 1
	r.Scale = 0.2
	r.judge()
	for _, g := range r.Goals {
		if strings.HasPrefix(g.What, "100,000-job") && g.Met != "NO" {
			t.Errorf("got met %q for a batch of which one was lost, want NO", g.Met)
		}
		if strings.HasPrefix(g.What, "print for a minute") && g.Met != "" {
			t.Errorf("got met %q of a run of 12 s, want none", g.Met)
		}
	}
}

// TestGoalsAreMeasured holds the goals to the IDs that runs make.
func TestGoalsAreMeasured(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../bench/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := readReport("../../bench/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goals {
		if g.long && r.Quick {
			continue
		}
		for _, id := range append(g.ids, g.over) {
			// Where the reference's machine had not this backend, another's row
			// of the same kind shows that there is such a row.
			isMade := slices.ContainsFunc(known, func(x backend) bool {
				other := strings.NewReplacer("forkserver", x.name, "docker", x.name, "wasm", x.name).Replace(id)
				return strings.Contains(string(raw), `"`+other+`"`)
			})
			// Or the reference is older than the row.
			if !isMade && !inSource(t, id) && id != "" {
				t.Errorf("the goal %q is of row %q, which no run makes", g.what, id)
			}
		}
	}
}

// inSource reports whether some file but that of the goals names the row, or
// that of each backend.
func inSource(t *testing.T, id string) bool {
	t.Helper()
	_, ofEach, _ := strings.Cut(id, "/")
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		raw, err := os.ReadFile(name)
		text := string(raw)
		return err == nil && name != "goals.go" && (strings.Contains(text, `id: "`+id+`"`) || strings.Contains(text, `id: x.name + "/`+ofEach+`"`))
	})
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := page()
	text := r.text()
	for _, want := range []string{
		"row control/idle            │    3 │ 2.00   │ 3.00",
		"bwrap python3 by hand │ 5.00",                                                            // 500 a second against 100
		"row forkserver/print/idle      │ 1.00   │          │           │ 4.00   │        │ 3.00", // its own process, and the guests
		"no rows for docker: there is none",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "BUSY") {
		t.Errorf("it says that an idle machine was busy:\n%s", text)
	}
	path := filepath.Join(t.TempDir(), "bench", "figures.json")
	if err := r.writeJSON(path); err != nil {
		t.Fatal(err)
	}
	again, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, again.text()); diff != "" {
		t.Errorf("read again the report differs (-wrote +read):\n%s", diff)
	}
	samples, err := os.ReadFile(benchPath(path))
	if err != nil {
		t.Fatal(err)
	}
	if want := "BenchmarkFloor/bwrap/2 2 10000000 ns/op 10000000 p50-ns/op 10000000 p99-ns/op 100.00 jobs/s\n"; !strings.Contains(string(samples), want) {
		t.Errorf("got %q, want a line %q", samples, want)
	}
}

func TestBusyMachineIsSaid(t *testing.T) {
	t.Parallel()
	for _, m := range []machine{{Cores: 2, Load: "1.70"}, {Cores: 2, Load: "0.01", Busy: 20}} {
		r := page()
		r.Machine = m
		if !strings.Contains(r.text(), "BUSY") || !strings.Contains(r.markdown(), "BUSY") {
			t.Errorf("got no warning for %+v", m)
		}
	}
}

// TestPage holds the page to the figures that it was made of, and to the
// tables as they are now.
func TestPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../PERFORMANCE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _, err := cutPage(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	r, err := readReport("../../bench/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	r.judge()
	if diff := cmp.Diff(r.markdown(), got); diff != "" {
		t.Errorf("PERFORMANCE.md is not that of bench/reference.json; make bench-page makes both, "+
			"go run ./integration/bench -from bench/reference.json -write PERFORMANCE.md the page (-want +got):\n%s", diff)
	}
}

func TestWritePage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	before, after := "# Head\n\n"+beginMark+"\n", endMark+"\n\ntail\n"
	if err := os.WriteFile(path, []byte(before+"old\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
	r := page()
	if err := r.writePage(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before+r.markdown()+after, string(got)); diff != "" {
		t.Errorf("the page (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("# no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.writePage(path); err == nil {
		t.Error("got no error for a page without marks")
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	b := &bencher{report: &report{}}
	b.sort([]listed{{Backend: "docker", Available: true}, {Backend: "bubblewrap", Reason: "no bwrap"}, {Backend: "fake", Available: true}, {Backend: "new", Available: true}})
	if err := b.choose(); err != nil {
		t.Fatal(err)
	}
	want := []string{"control", "floors", "docker", "new", "scaling", "sustained", "tools", "memory", "compute", "growth", "queued", "batch", "http", "cancel", "noisy", "recovery"}
	if diff := cmp.Diff(want, b.chosen); diff != "" {
		t.Errorf("the parts (-want +got):\n%s", diff)
	}
	notes := fmt.Sprint(b.report.Notes)
	if !strings.Contains(notes, "forkserver: the worker has no such backend") || !strings.Contains(notes, "bubblewrap: no bwrap") {
		t.Errorf("got notes %s, want why two backends are missing", notes)
	}
	b.parts = "control,bubblewrap"
	if err := b.choose(); err == nil || !strings.Contains(err.Error(), "want some of control,floors,docker") {
		t.Errorf("got error %v for a part that is not there, want one that lists the parts", err)
	}
}

func TestNoEngineIsSaid(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	why, absent := isAbsent(haveDocker(context.Background()))
	if !absent || !strings.Contains(why, "dev/dockerd.sh") {
		t.Errorf("got %q, want what to do for docker", why)
	}
}

// TestJobs holds the measured jobs to what a submitter may submit.
func TestJobs(t *testing.T) {
	t.Parallel()
	for i, j := range []job.Job{plain, called, async, bigger, nothing, timed, waiting, asleep} {
		if err := j.Prepare(time.Now()); err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
}
