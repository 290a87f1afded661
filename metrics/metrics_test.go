package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"airlock/job"
	"airlock/metrics"
)

// scrape returns the lines about one metric.
func scrape(t *testing.T, h http.Handler, name string) (found []string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, name) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestToolsAreBounded: a provider may announce thousands.
func TestToolsAreBounded(t *testing.T) {
	t.Parallel()
	w := metrics.NewWorker("test", func() metrics.WorkerState { return metrics.WorkerState{} })
	for i := range metrics.MaxTools + 50 {
		w.Call(fmt.Sprintf("ns.tool%d", i), job.CallOK, time.Millisecond)
	}
	w.Call("ns.tool0", job.CallOK, time.Millisecond)
	got := scrape(t, w.Handler(), "airlock_tool_calls_total{")
	for _, want := range []string{
		`airlock_tool_calls_total{outcome="ok",tool="other"} 50`, `airlock_tool_calls_total{outcome="ok",tool="ns.tool0"} 2`,
	} {
		if len(got) != metrics.MaxTools+1 || !slices.Contains(got, want) {
			t.Errorf("got %d series, want %d with %s", len(got), metrics.MaxTools+1, want)
		}
	}
}

func TestAuditFailuresAreNoLag(t *testing.T) {
	t.Parallel()
	w := metrics.NewWorker("test", func() metrics.WorkerState { return metrics.WorkerState{} })
	w.Audited(true, time.Second, errors.New("away"))
	if got := scrape(t, w.Handler(), "airlock_audit_"); !slices.Contains(got, `airlock_audit_failures_total{row="start"} 1`) || len(got) != 2 {
		t.Errorf("got %q, want one failure and no time", got)
	}
}

// TestScrapesDoNotAskEachTime: the queue is asked once for many scrapes.
func TestScrapesDoNotAskEachTime(t *testing.T) {
	t.Parallel()
	asked := 0
	g := metrics.NewGateway("test", func(context.Context) metrics.Fleet {
		asked++
		f := metrics.Fleet{Known: true, Workers: 2, Problems: map[string]error{"nats": nil, "workers": errors.New("none")}}
		for i := range 400 {
			f.Lanes = append(f.Lanes, metrics.LaneDepth{Lane: fmt.Sprintf("lane%d", i), Priority: job.PriorityNormal, Waiting: 1})
		}
		return f
	})
	var got []string
	for range 20 {
		got = scrape(t, g.Handler(), "airlock_queue_jobs{")
	}
	if want := `airlock_queue_jobs{lane="other",priority="normal",state="waiting"} 100`; !slices.Contains(got, want) || len(got) != 2*301 {
		t.Errorf("got %d series, want 602 with %s", len(got), want)
	}
	for _, want := range []string{`airlock_dependency_up{dependency="nats"} 1`, `airlock_dependency_up{dependency="workers"} 0`} {
		if up := scrape(t, g.Handler(), "airlock_dependency_up"); !slices.Contains(up, want) {
			t.Errorf("got %q, want %s", up, want)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
}

func TestAListener(t *testing.T) {
	t.Parallel()
	l, err := metrics.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := metrics.Listen(strings.TrimSuffix(strings.TrimPrefix(l.URL, "http://"), "/metrics")); err == nil || !strings.Contains(err.Error(), "--listen-metrics") {
		t.Errorf("an address that is taken: got %v and error %v, want one that names the flag", second, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	w := metrics.NewWorker("test", func() metrics.WorkerState { return metrics.WorkerState{Slots: 3} })
	go func() { over <- l.Serve(ctx, w.Handler()) }()
	for path, want := range map[string]int{"": http.StatusOK, "/x": http.StatusNotFound} {
		resp, err := http.Get(l.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Errorf("end: %v", err)
	}
	var none *metrics.Listener
	if err := errors.Join(none.Serve(ctx, nil), none.Close()); err != nil {
		t.Errorf("no listener: %v", err)
	}
}
