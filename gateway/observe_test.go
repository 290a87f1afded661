package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"airlock/gateway"
	"airlock/store"
)

func TestMetricsNeedAReader(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{public: true})
	w.ask(asking{path: "/metrics"}).refused(t, "without a token", gateway.CodeUnauthorized, 401)
	w.ask(asking{path: "/metrics", token: w.token("a", store.ScopeSubmit)}).refused(t, "a submitter", gateway.CodeForbidden, 403)
	r := w.ask(asking{path: "/metrics", token: w.token("monitoring", store.ScopeRead)})
	for _, want := range []string{
		`airlock_http_requests_total{code="401",method="GET",route="/metrics"} 1`,
		`airlock_http_requests_total{code="403",method="GET",route="/metrics"} 1`,
		`airlock_fleet_workers{state="live"} 1`, "airlock_fleet_slots 8", `airlock_dependency_up{dependency="postgres"} 1`,
	} {
		if r.status != http.StatusOK || !strings.Contains(string(r.body), want+"\n") {
			t.Errorf("got %d without %s:\n%s", r.status, want, r.body)
		}
	}
	for _, secret := range []string{"monitoring", "tenant"} {
		if strings.Contains(string(r.body), secret) {
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
	body := string(w.ask(asking{path: "/metrics"}).body)
	for _, want := range []string{`airlock_fleet_workers{state="live"} 0`, `airlock_dependency_up{dependency="workers"} 0`, `airlock_dependency_up{dependency="nats"} 1`} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("the metrics lack %s:\n%s", want, body)
		}
	}
	if strings.Contains(body, "airlock_queue_jobs{") {
		t.Errorf("the queue is counted, though nobody could:\n%s", body)
	}
}

func TestMetricsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	w.nats.Stop()
	body := string(w.ask(asking{path: "/metrics"}).body)
	if !strings.Contains(body, `airlock_dependency_up{dependency="nats"} 0`) || !strings.Contains(body, `airlock_dependency_up{dependency="postgres"} 1`) {
		t.Errorf("got %s, want NATS away and Postgres there", body)
	}
	w.nats.Resume()
}
