package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"airlock/backends/all"
	"airlock/backends/docker"
	"airlock/worker/doctor"
)

func examine(t *testing.T, args ...string) (doctor.Report, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), all.Self{}, append([]string{"doctor", "--json"}, args...), &out, &errs)
	var r doctor.Report
	if err := json.Unmarshal(out.Bytes(), &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s; %s", err, out.String(), errs.String())
	}
	return r, code
}

// TestDoctorOnThisHost: whatever it finds, it ends, and its code says whether
// anything was critical.
func TestDoctorOnThisHost(t *testing.T) {
	t.Parallel()
	r, code := examine(t)
	want := exitOK
	if r.Critical() {
		want = exitFailed
	}
	if code != want || len(r.Findings)+len(r.Passed) < len(doctor.Checks()) {
		t.Errorf("code %d with %+v; want %d and all checks", code, r, want)
	}
	for _, f := range r.Findings {
		if f.Check == "backends" && strings.Contains(f.Seen, "local") {
			t.Errorf("got %+v, want only what isolates", f)
		}
	}
}

func TestDoctorFailsOnWhatIsCritical(t *testing.T) {
	t.Parallel()
	r, code := examine(t, "--nats", "nats://u:changeme@127.0.0.1:1", "--postgres", "postgres://u:zeiY4oh@127.0.0.1:1/x")
	if code != exitFailed || !r.Critical() {
		t.Errorf("code %d, critical %v; want %d for a password that is guessed", code, r.Critical(), exitFailed)
	}
	seen := map[string]string{}
	for _, f := range r.Findings {
		seen[f.Check] += f.Seen
	}
	if !strings.Contains(seen["nats"], "guessed") || !strings.Contains(seen["postgres"], "not checked") || strings.Contains(seen["postgres"], "zeiY4oh") {
		t.Errorf("got %q of nats and %q of postgres", seen["nats"], seen["postgres"])
	}
}

func TestDoctorAsksTheEngine(t *testing.T) {
	t.Parallel()
	needEngine(t)
	about, err := docker.Ask(t.Context(), docker.Config{})
	if err != nil || about.Version == "" || about.Runc == "" || about.Containerd == "" || about.Address == "" {
		t.Errorf("got %+v, %v; want versions of all parts", about, err)
	}
	r, _ := examine(t)
	var engine bool
	for _, f := range r.Findings {
		engine = engine || strings.HasPrefix(f.Check, "engine")
	}
	if !engine {
		t.Errorf("got %+v, want what the engine's socket means among it", r.Findings)
	}
}

func TestDoctorsReportForPeople(t *testing.T) {
	t.Parallel()
	got := renderReport(doctor.Report{
		Findings: []doctor.Finding{{Check: "nats", Severity: doctor.Critical, Seen: "open \x1b[31m", Remedy: "close it"}}, Passed: []string{"a", "b"},
	})
	for _, want := range []string{"critical", "nats", `open \x1b[31m`, "close it", "1 critical", "0 warning", "2 checks found nothing"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}
