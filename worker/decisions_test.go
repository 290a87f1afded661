package worker_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"airlock/job"
	"airlock/worker"
)

// TestEachDecisionIsCountedAndLogged: what the reconciler decides is found both
// in its counters and in its log, and it decides nothing that this test does
// not know.
func TestEachDecisionIsCountedAndLogged(t *testing.T) {
	known := map[string]string{ // what is counted: what the log says of it
		"published_retry":         "job published again",
		"published_lease_expired": "job published again",
		"buried_suspected_poison": "job is dead",
		"buried_unplaceable":      "jobs ended: no worker can run them",
		"expired":                 "overdue jobs ended",
		"announced":               "unannounced result announced",
		"rebuilt":                 "the queue has lost jobs: they are published again",
		"consumers_recreated":     "stuck consumers are made anew",
		"rows_swept":              "rows swept",
		"months_dropped":          "month of history dropped",
		"jobs_retired":            "month of history dropped",
		"messages_removed":        "messages of jobs that have ended taken out of the queue",
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			due: []job.Republish{
				republish("retry", false), republish("lease_expired", false), republish("suspected_poison", true),
			},
			overdue: 3, untold: []*job.Result{{Job: job.NewID()}}, stuck: []string{"any=normal=a"}, garbage: 4,
			waiting: map[string]int{"any": 5, "docker": 3}, stock: map[string]int{"docker": 3}, served: map[string]bool{"any": true},
			history: []job.Retired{{Months: []job.RetiredMonth{{Name: "2026-01", Jobs: 10}}}},
		}
		w.waiting["wasm"], w.stock["wasm"] = 1, 3
		var log bytes.Buffer
		got := reconcileTold(t, w, zerolog.New(&log), func(*world) { time.Sleep(2 * time.Hour) })
		told := messages(t, log.String())
		for what, message := range known {
			if got[what] == 0 || !slices.Contains(told, message) {
				t.Errorf("%s: counted %d times, and the log says %q: %t", what, got[what], message, slices.Contains(told, message))
			}
		}
		for what := range got {
			if known[what] == "" {
				t.Errorf("%s is counted, and not known here", what)
			}
		}
		for _, kind := range worker.DecisionKinds() {
			if !slices.ContainsFunc(sorted(known), func(what string) bool { return strings.HasPrefix(what, kind) }) {
				t.Errorf("%s is never decided here", kind)
			}
		}
	})
}

func sorted(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func messages(t *testing.T, log string) (all []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var entry struct {
			Message string `json:"message"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		all = append(all, entry.Message)
	}
	return all
}
