package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"airlock/metrics"
	"airlock/queue/natstest"
)

// work has something of everything happen: a job that calls a tool, one that
// asks for what is no tool, one that fails, and requests that are refused.
func (w *watched) work() {
	w.t.Helper()
	plain := `"requires": {"isolation": "none"}, "tools": [{"namespace": "` + natstest.Namespace + `", "name": "*"}], "code": `
	for _, tc := range []struct{ code, want string }{
		{`"{\"fake\": {\"calls\": [{\"namespace\": \"math\", \"name\": \"add\", \"arguments\": {}}], \"sleep\": \"20ms\"}}"`, `"status":"ok"`},
		{`"{\"fake\": {\"calls\": [{\"namespace\": \"math\", \"name\": \"evil\\nairlock_pwned 1\", \"arguments\": {}}, {\"namespace\": \"evil_ns\", \"name\": \"evil\", \"arguments\": {}}]}}"`, `"status":"ok"`},
		{`"{\"fake\": {\"fail\": \"no guest\"}}", "max_attempts": 2`, `"status":"infra_error"`},
		{`"{\"fake\": {\"cause\": \"out of memory\"}}"`, `"status":"memory_limit"`},
	} {
		got := w.post("/v1/jobs?wait=1m", "{"+plain+tc.code+"}", http.StatusOK)
		if !strings.Contains(got, tc.want) {
			w.t.Fatalf("%s: got %s, want %s", tc.code, got, tc.want)
		}
	}
	// Nobody here runs it, so that it waits.
	w.post("/v1/jobs?park=true", `{"code": "1", "requires": {"backends": ["docker"]}}`, http.StatusAccepted)
	w.get(w.gateway + "/v1/evil_path")
	w.get(w.gateway + "/v1/jobs/evil_id")
	req, err := http.NewRequestWithContext(w.ctx, "EVIL", w.gateway+"/v1/jobs", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.do(req)
}

// TestEachMetricIsThereAndMoves scrapes a worker and a gateway after a few
// jobs. The counts that must not move here move in worker's own tests.
func TestEachMetricIsThereAndMoves(t *testing.T) {
	t.Parallel()
	w := startWatched(t, "")
	until(w.ctx, t, "a leader", func() bool {
		_, m := w.scrape(w.metrics)
		return sum(m["airlock_reconciler_leading"]) == 1
	})
	w.work()
	until(w.ctx, t, "a look at the queue with the job that waits", func() bool {
		_, m := w.scrape(w.gateway + "/metrics")
		return sum(m["airlock_queue_jobs"]) > 0 && sum(m["airlock_queue_oldest_age_seconds"]) > 0
	})

	still := []string{
		"airlock_leases_lost_total", "airlock_fences_refused_total", "airlock_audit_failures_total", "airlock_draining",
		"airlock_parked_guests", "airlock_slots_busy", "airlock_fleet_slots_busy",
	}
	for _, program := range []struct{ name, url string }{{metrics.OfWorker, w.metrics}, {metrics.OfGateway, w.gateway + "/metrics"}} {
		text, families := w.scrape(program.url)
		keep(t, program.name, text)
		for _, m := range metrics.Table(program.name) {
			switch f := families[m.Name]; {
			case f == nil:
				t.Errorf("%s: no %s", program.name, m.Name)
			case f != nil && (!sameLabels(f, m.Labels) || !strings.EqualFold(f.GetType().String(), string(m.Kind)) || f.GetHelp() != m.Help):
				t.Errorf("%s: got %v, want it as the table has it: %+v", program.name, f, m)
			case f != nil && sum(f) <= 0 && !slices.Contains(still, m.Name):
				t.Errorf("%s: %s did not move: %v", program.name, m.Name, f)
			}
		}
		for name := range families {
			if strings.HasPrefix(name, "airlock_") && !slices.ContainsFunc(metrics.Table(program.name), func(m metrics.Metric) bool { return m.Name == name }) {
				t.Errorf("%s: %s is not in the table", program.name, name)
			}
		}
		if strings.Contains(text, "evil") || strings.Contains(text, "EVIL") || strings.Contains(text, "pwned") {
			t.Errorf("%s: foreign bytes became a label:\n%s", program.name, lines(text, "vil"))
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: promlint: %v %v", program.name, problems, err)
		}
	}
	text, ofWorker := w.scrape(w.metrics)
	for _, want := range []string{
		`airlock_tool_calls_total{outcome="ok",tool="` + natstest.Namespace + `.add"} 1`,
		`airlock_tool_calls_total{outcome="refused",tool="unknown"} 2`,
		`airlock_attempts_total{backend="fake",status="memory_limit"} 1`,
		`airlock_attempts_total{backend="fake",status="ok"} 2`,
		`airlock_attempts_total{backend="fake",status="infra_error"} 2`,
		`airlock_reconciler_decisions_total{decision="published_retry"} 1`,
		`airlock_claims_total{outcome="claimed"} 5`,
		`airlock_audit_commit_duration_seconds_count{row="start"} 1`,
		`airlock_audit_commit_duration_seconds_count{row="end"} 3`,
		`airlock_attempt_phase_duration_seconds_count{backend="fake",phase="commit"} 5`,
		`airlock_attempt_phase_duration_seconds_count{backend="fake",phase="queue_wait"} 5`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the worker lacks %s:\n%s", want, lines(text, want[:strings.Index(want, "{")]))
		}
	}
	text, ofGateway := w.scrape(w.gateway + "/metrics")
	checkDashboard(t, together(ofWorker, ofGateway))
	for _, want := range []string{
		`airlock_http_requests_total{code="200",method="POST",route="/v1/jobs"} 4`,
		`airlock_http_requests_total{code="404",method="GET",route="/v1/jobs/{id}"} 1`,
		`airlock_http_requests_total{code="404",method="GET",route="other"} 1`,
		`airlock_http_requests_total{code="405",method="other",route="other"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the gateway lacks %s:\n%s", want, lines(text, "airlock_http_requests_total"))
		}
	}
}

// keep leaves a scrape for the check of the dashboards, where one is asked for.
func keep(t *testing.T, name, text string) {
	if dir := os.Getenv("AIRLOCK_KEEP_SCRAPES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".prom"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sum is what all series of a metric come to, of histograms their counts.
func sum(f *dto.MetricFamily) (total float64) {
	for _, m := range f.GetMetric() {
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return total
}

func sameLabels(f *dto.MetricFamily, want []string) bool {
	var got []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		got = append(got, l.GetName())
	}
	slices.Sort(got)
	return slices.Equal(got, slices.Sorted(slices.Values(want)))
}

// lines are those of a text that hold a word.
func lines(text, word string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}
