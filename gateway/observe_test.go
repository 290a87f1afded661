package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"airlock/gateway"
	"airlock/store"
)

// scraped is what a scrape says once all these lines are in it: one in which the
// queue or the database was too slow to answer says so, and is repeated.
func (w *world) scraped(token string, lines ...string) (text string) {
	w.t.Helper()
	missing := ""
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		r := w.ask(asking{path: "/metrics", token: token})
		text, missing = string(r.body), ""
		for _, line := range lines {
			if r.status != http.StatusOK || !strings.Contains(text, line+"\n") {
				missing = line
			}
		}
		if missing == "" {
			return text
		}
	}
	w.t.Fatalf("the metrics lack %s:\n%s", missing, text)
	return ""
}

func TestMetricsNeedAReader(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{public: true})
	w.ask(asking{path: "/metrics"}).refused(t, "without a token", gateway.CodeUnauthorized, 401)
	w.ask(asking{path: "/metrics", token: w.token("a", store.ScopeSubmit)}).refused(t, "a submitter", gateway.CodeForbidden, 403)
	monitor := w.token("monitoring", store.ScopeRead)
	text := w.scraped(monitor,
		`airlock_http_requests_total{code="401",method="GET",route="/metrics"} 1`,
		`airlock_http_requests_total{code="403",method="GET",route="/metrics"} 1`,
		`airlock_fleet_workers{state="live"} 1`, "airlock_fleet_slots 8", `airlock_dependency_up{dependency="postgres"} 1`)
	for _, secret := range []string{"monitoring", "tenant"} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics name %s", secret)
		}
	}
	// The handler for an address of its own asks nobody.
	own := httptest.NewRecorder()
	w.gw.Metrics().ServeHTTP(own, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if own.Code != http.StatusOK || !strings.Contains(own.Body.String(), "airlock_build_info") {
		t.Errorf("got %d %s, want the metrics", own.Code, own.Body)
	}
}

func TestMetricsWithoutAWorker(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{noWorker: true})
	must(t, w.queue.Close()) // which answers questions, as a worker does
	body := w.scraped("", `airlock_fleet_workers{state="live"} 0`, `airlock_dependency_up{dependency="workers"} 0`, `airlock_dependency_up{dependency="nats"} 1`)
	if strings.Contains(body, "airlock_queue_jobs{") {
		t.Errorf("the queue is counted, though nobody could:\n%s", body)
	}
}

func TestMetricsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	w.nats.Stop()
	w.scraped("", `airlock_dependency_up{dependency="nats"} 0`, `airlock_dependency_up{dependency="postgres"} 1`)
	w.nats.Resume()
}
