package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// require skips the test where the program is missing, or fails it where
// AIRLOCK_REQUIRE names the service.
func require(t *testing.T, service, program string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if _, err := exec.LookPath(program); err == nil || len(found) > 0 {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("AIRLOCK_REQUIRE"), ","), service) {
		t.Fatalf("no %s on this machine, and AIRLOCK_REQUIRE names %s", program, service)
	}
	t.Skipf("no %s on this machine", program)
}

// TestRun takes a row of each kind with the real commands.
func TestRun(t *testing.T) {
	t.Parallel()
	require(t, "postgres", "postgres")
	require(t, "bubblewrap", "bwrap")
	dir := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir, "airlock/cmd/worker", "airlock/cmd/submit", "airlock/cmd/gateway")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	rows := []string{"control/idle", "floor/fork/1", "floor/bwrap/2", "bubblewrap/print/idle", "bubblewrap/call", "bubblewrap/first/spaced", "http/own", "http/execute/idle"}
	loads := []string{"queued/10", "batch/1000", "http/20000"}
	trials := []string{"recovery/claims"}
	path := filepath.Join(dir, "figures.json")
	o := options{bin: dir, json: path, scale: 0.01, quick: true, only: "^(" + strings.Join(slices.Concat(rows, loads, trials), "|") + ")$"}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	byID := r.byID()
	for _, id := range rows {
		if got := byID[id]; got.Jobs == 0 || got.P50 <= 0 || got.P99 < got.P50 || len(got.Samples) == 0 {
			t.Errorf("%s: got %+v, want a figure", id, got)
		}
	}
	for _, id := range []string{"http/submit/direct", "http/submit/gateway"} { // what http/own is made of
		rows = append(rows, id)
		if byID[id].P50 <= 0 {
			t.Errorf("%s: got %+v, want a figure", id, byID[id])
		}
	}
	if len(r.Rows) != len(rows) {
		t.Errorf("got %d rows, want the %d that -only names", len(r.Rows), len(rows))
	}
	if len(r.Trials) != 1 || r.Trials[0].ID != trials[0] || r.Trials[0].Value <= 0 || r.Trials[0].Value > 1 {
		t.Errorf("got trials %+v, want %v, of which each worker had some jobs", r.Trials, trials)
	}
	for i, id := range loads {
		if got := r.Loads[i]; got.ID != id || got.Lost != 0 || got.Rate <= 0 {
			t.Errorf("%s: got %+v, want a load of which nothing was lost", id, got)
		}
	}
	if got := r.Loads[len(r.Loads)-1]; got.Gateway <= 0 {
		t.Errorf("got %+v, want the gateway's memory", got)
	}
	if got := byID["bubblewrap/print/idle"]; got.CPU == nil || got.CPU.Guests <= 0 || got.StartP50 == nil {
		t.Errorf("got %+v, want processor time of guests and when they were ready", got)
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	f := newFigure(series{id: "x"})
	for i := range 30 { // ten in the first second, twenty in the next two
		f.addAt(time.Duration(i)*100*time.Millisecond, time.Duration(i+1)*time.Millisecond, 0)
	}
	f.addAt(10*time.Second, time.Second, 0)
	if first, last := f.rateIn(0, time.Second), f.rateIn(9500*time.Millisecond, 10500*time.Millisecond); first != 10 || last != 1 {
		t.Errorf("got %.1f and %.1f jobs/s, want 10 and 1", first, last)
	}
	r := f.row()
	if len(r.Samples) != pieces || r.Samples[0].Jobs != 3 || r.Samples[0].Mean != 2 || r.Samples[1].Rate != 10 {
		t.Errorf("got samples %+v, want ten, the first of 1, 2 and 3 ms", r.Samples)
	}
	if r.P50 != 16 || r.P99 != 1000 || r.Rate != 3.1 {
		t.Errorf("got p50 %v, p99 %v, %v jobs/s, want 16, 1000 and 3.1", r.P50, r.P99, r.Rate)
	}
}
