package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
	"airlock/store"
	"airlock/store/storetest"
)

func post(path, body string) asking { return asking{method: http.MethodPost, path: path, body: body} }

func TestAJobIsSubmittedAndSeen(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	now := w.ask(post("/v1/jobs?wait=1m", `{"code": "1"}`))
	ended := into[gateway.Receipt](t, now)
	if now.status != 200 || ended.Result == nil || ended.Result.Status != job.StatusOK || string(ended.Result.Value) != `"done"` {
		t.Fatalf("got %d %s, want the result", now.status, now.body)
	}
	if got := now.header.Get("Location"); got != "/v1/jobs/"+ended.ID.String() {
		t.Errorf("got Location %q, want the job's", got)
	}
	later := w.ask(post("/v1/jobs", `{"code": "2"}`))
	taken := into[gateway.Receipt](t, later)
	if later.status != 202 || taken.Result != nil || taken.ID.IsZero() {
		t.Fatalf("got %d %s, want 202 and the job's id", later.status, later.body)
	}
	path := "/v1/jobs/" + taken.ID.String()
	eventually(t, "the result shows", func() bool {
		view := w.ask(asking{path: path})
		if view.status != 200 {
			t.Fatalf("got %d %s, want the job at once", view.status, view.body)
		}
		return into[gateway.View](t, view).Result != nil
	})
	if calls := w.ask(asking{path: path + "/calls"}); calls.status != 200 {
		t.Errorf("got %d %s, want the calls", calls.status, calls.body)
	}
	listed := into[gateway.Records](t, w.ask(asking{path: "/v1/jobs?status=ok&limit=1"}))
	if len(listed.Jobs) != 1 || listed.Jobs[0].ID != taken.ID {
		t.Errorf("got %+v, want the newest job", listed.Jobs)
	}
	older := into[gateway.Records](t, w.ask(asking{path: "/v1/jobs?before=" + taken.ID.String()}))
	if len(older.Jobs) != 1 || older.Jobs[0].ID != ended.ID {
		t.Errorf("got %+v, want the job before", older.Jobs)
	}
}

func TestAnEndIsWaitedFor(t *testing.T) {
	t.Parallel()
	gate, open := newGate()
	defer open()
	w := start(t, setUp{play: scriptedBy(faithful, func(*scripted) bool { <-gate; return true })})
	id := w.submitted(`{"code": "return 1"}`, "")
	path := "/v1/jobs/" + id.String()
	brief := w.ask(asking{path: path + "?wait=20ms"})
	if view := into[gateway.View](t, brief); brief.status != http.StatusOK || view.Result != nil || view.Job.State.Ended() {
		t.Errorf("got %d %s, want the job as it stands", brief.status, brief.body)
	}
	long := make(chan reply, 1)
	go func() { long <- w.ask(asking{path: path + "?wait=5m"}) }()
	eventually(t, "a request waits", func() bool { return gateway.Waiting(w.gw) > 0 })
	open()
	r := <-long
	if view := into[gateway.View](t, r); r.status != http.StatusOK || view.Result == nil || view.Job.State != job.StateFinished {
		t.Errorf("got %d %s, want the result", r.status, r.body)
	}
	w.ask(asking{path: path + "?wait=soon"}).refused(t, "an odd wait", gateway.CodeBadRequest, http.StatusBadRequest)
	if n := gateway.Waiting(w.gw); n != 0 {
		t.Errorf("%d requests wait still", n)
	}
}

func TestAnArrayIsCheckedAsAWhole(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	p := w.ask(post("/v1/jobs", `[{"code": "1"}, {"code": "2", "limits": {"wall": "1ns"}}, {"code": 3}]`)).
		refused(t, "an array with two wrong jobs", gateway.CodeInvalidJob, 422)
	if len(p.Errors) != 2 || p.Errors[0].Field != "[1].limits.wall" || p.Errors[1].Field != "[2].code" {
		t.Errorf("got %+v, want both wrong fields", p.Errors)
	}
	all := into[gateway.Receipts](t, w.ask(post("/v1/jobs?wait=1m", `[{"code": "1"}, {"code": "raise"}]`)))
	if len(all.Jobs) != 2 || all.Jobs[0].Result.Status != job.StatusOK || all.Jobs[1].Result.Status != job.StatusGuestError {
		t.Errorf("got %+v, want both results in order", all.Jobs)
	}
	if listed := into[gateway.Records](t, w.ask(asking{path: "/v1/jobs"})); len(listed.Jobs) != 2 {
		t.Errorf("got %d jobs, want only those of the array that was right", len(listed.Jobs))
	}
}

func TestAKeyIsOneJob(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	keyed := func(body string) reply {
		a := post("/v1/jobs?wait=1m", body)
		a.header = map[string]string{"Idempotency-Key": "k"}
		return w.ask(a)
	}
	first := into[gateway.Receipt](t, keyed(`{"code": "1"}`))
	again := into[gateway.Receipt](t, keyed(`{"code": "1"}`))
	if !again.Known || again.ID != first.ID || again.Result == nil {
		t.Errorf("got %+v, want the first job with its result", again)
	}
	p := keyed(`{"code": "2", "labels": {"a": "b"}}`).refused(t, "another content", gateway.CodeConflict, 409)
	var fields []string
	for _, e := range p.Errors {
		fields = append(fields, e.Field)
	}
	if got := strings.Join(fields, " "); got != "labels code" {
		t.Errorf("got differing fields %q, want labels and code", got)
	}
	both := post("/v1/jobs", `{"code": "1", "key": "a"}`)
	both.header = map[string]string{"Idempotency-Key": "b"}
	w.ask(both).refused(t, "two keys", gateway.CodeBadRequest, 400)
	many := post("/v1/jobs", `[{"code": "1"}]`)
	many.header = map[string]string{"Idempotency-Key": "b"}
	w.ask(many).refused(t, "one key for an array", gateway.CodeBadRequest, 400)
}

func TestCancelling(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	id := into[gateway.Receipt](t, w.ask(post("/v1/jobs", `{"code": "sleep"}`))).ID
	path := "/v1/jobs/" + id.String()
	eventually(t, "the job runs", func() bool {
		return into[gateway.View](t, w.ask(asking{path: path})).Job.State == job.StateRunning
	})
	r := w.ask(asking{method: http.MethodDelete, path: path})
	if met := into[job.Cancelled](t, r); met.Running+met.Ended != 1 || met.Already != 0 {
		t.Errorf("got %d %s, want one running job told, which may have ended by now", r.status, r.body)
	}
	eventually(t, "the job ends", func() bool {
		view := into[gateway.View](t, w.ask(asking{path: path}))
		return view.Result != nil && view.Result.Status == job.StatusCancelled
	})
	if r := w.ask(asking{method: http.MethodDelete, path: path}); r.status != 200 || into[job.Cancelled](t, r).Already != 1 {
		t.Errorf("got %d %s, want that it had ended", r.status, r.body)
	}
}

func TestAClientThatLeaves(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	leave := func(query string) job.ID {
		id := job.NewID()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/jobs?wait=1m"+query,
			strings.NewReader(fmt.Sprintf(`{"id": %q, "code": "sleep"}`, id)))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		done := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		eventually(t, "the job runs", func() bool {
			record, err := w.store.Job(t.Context(), "default", id)
			return err == nil && record.State == job.StateRunning
		})
		cancel()
		if err := <-done; err == nil {
			t.Error("got an answer, want none")
		}
		return id
	}
	stays, goes := leave(""), leave("&cancel_on_disconnect")
	eventually(t, "the job of the client that wanted it is cancelled", func() bool {
		record, err := w.store.Job(t.Context(), "default", goes)
		return err == nil && record.Status == job.StatusCancelled
	})
	if record, err := w.store.Job(t.Context(), "default", stays); err != nil || record.State != job.StateRunning {
		t.Errorf("got %+v, %v, want the other still running", record, err)
	}
	must(t, w.queue.Cancel(t.Context(), "default", queue.CancelTarget{Job: stays}))
}

// TestAClientThatLeavesBeforeItsReceipt: a worker may have begun before the
// gateway hears that the queue took the job.
func TestAClientThatLeavesBeforeItsReceipt(t *testing.T) {
	t.Parallel()
	began := make(chan job.ID, 1000)
	w := start(t, setUp{play: func(w *world, ctx context.Context, d job.Delivery) {
		began <- d.Job.ID
		w.play(ctx, d)
	}})
	for range 20 {
		id := job.NewID()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/jobs?wait=1m&cancel_on_disconnect", strings.NewReader(fmt.Sprintf(`{"id": %q, "code": "sleep"}`, id)))
			req.Header.Set("Content-Type", "application/json")
			req.Host = "localhost"
			w.gw.ServeHTTP(httptest.NewRecorder(), req)
		}()
		for <-began != id { // one of before came again
		}
		cancel()
		<-left
		eventually(t, "its job is cancelled", func() bool {
			record, err := w.store.Job(t.Context(), "default", id)
			return err == nil && record.Status == job.StatusCancelled
		})
	}
}

func TestQuotaAndRoom(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{queue: queue.Config{MaxPerTenant: 1, MaxJobs: 2}, noWorker: true})
	if r := w.ask(post("/v1/jobs?park", `{"code": "1"}`)); r.status != 202 {
		t.Fatalf("got %d %s, want 202", r.status, r.body)
	}
	r := w.ask(post("/v1/jobs?park", `{"code": "2"}`))
	r.refused(t, "a second job of the tenant", gateway.CodeOverQuota, 429)
	if r.header.Get("Retry-After") == "" {
		t.Error("got no Retry-After, want one")
	}
	w.ask(post("/v1/jobs?park", `{"code": "3", "priority": "low"}`))
	r = w.ask(post("/v1/jobs?park", `{"code": "4", "priority": "high"}`))
	r.refused(t, "a third job", gateway.CodeQueueFull, 503)
	p := w.ask(post("/v1/jobs", `{"code": "5"}`)).refused(t, "a job nobody can run", gateway.CodeUnplaceable, 422)
	if !strings.Contains(p.Detail, "park") {
		t.Errorf("got %q, want what to do", p.Detail)
	}
}

func TestADeadJobIsRequeued(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	id := into[gateway.Receipt](t, w.ask(post("/v1/jobs?wait=1m", `{"code": "die"}`))).ID
	if dead := into[gateway.Records](t, w.ask(asking{path: "/v1/dead"})); len(dead.Jobs) != 1 || dead.Jobs[0].ID != id {
		t.Fatalf("got %+v, want the dead job", dead.Jobs)
	}
	if r := w.ask(post("/v1/jobs/"+id.String()+"/requeue", "")); r.status != 202 || into[gateway.Requeued](t, r).Generation != 2 {
		t.Errorf("got %d %s, want generation 2", r.status, r.body)
	}
	eventually(t, "it dies again", func() bool {
		record, err := w.store.Job(t.Context(), "default", id)
		return err == nil && record.State == job.StateDead && record.Attempt == 2
	})
	ok := into[gateway.Receipt](t, w.ask(post("/v1/jobs?wait=1m", `{"code": "1"}`))).ID
	w.ask(post("/v1/jobs/"+ok.String()+"/requeue", "")).refused(t, "one that is not dead", gateway.CodeConflict, 409)
}

func TestServicesGoAndComeBack(t *testing.T) {
	t.Parallel()
	pg := storetest.Server(t)
	must(t, store.Migrate(t.Context(), pg.URL(), storetest.Log(t)))
	w := start(t, setUp{postgres: pg.URL()})
	w.nats.ExpectRefusals()
	w.nats.Stop()
	eventually(t, "the loss shows", func() bool { return w.ask(asking{path: "/readyz"}).status == 503 })
	if r := w.ask(asking{path: "/healthz"}); r.status != 200 {
		t.Errorf("got %d %s, want a process that lives", r.status, r.body)
	}
	w.nats.Resume()
	eventually(t, "it is ready again", func() bool { return w.ask(asking{path: "/readyz"}).status == 200 })

	must(t, pg.Close())
	w.ask(asking{path: "/v1/jobs"}).refused(t, "without a database", gateway.CodeUnavailable, 503)
	if r := w.ask(asking{path: "/readyz"}); r.status != 503 || !strings.Contains(string(r.body), "postgres") {
		t.Errorf("got %d %s, want what is missing", r.status, r.body)
	}
}

func TestPostgresGoesAndComesBack(t *testing.T) {
	t.Parallel()
	pg := storetest.Server(t)
	must(t, store.Migrate(t.Context(), pg.URL(), storetest.Log(t)))
	w := start(t, setUp{postgres: pg.URL()})
	waited := make(chan reply, 1)
	go func() { waited <- w.ask(post("/v1/jobs?wait=5m", `{"code": "sleep", "batch": "across"}`)) }()
	eventually(t, "the job runs", func() bool {
		sum, err := w.store.Batch(t.Context(), "default", "across")
		return err == nil && sum.States[job.StateRunning] == 1
	})
	must(t, pg.Stop())
	w.ask(asking{path: "/v1/jobs"}).refused(t, "without a database", gateway.CodeUnavailable, 503)
	if r := w.ask(asking{path: "/readyz"}); r.status != 503 || !strings.Contains(string(r.body), "postgres") {
		t.Errorf("got %d %s, want what is missing", r.status, r.body)
	}
	must(t, pg.Start(t.Context()))
	eventually(t, "it is ready once more", func() bool { return w.ask(asking{path: "/readyz"}).status == 200 })
	must(t, w.queue.Cancel(t.Context(), "default", queue.CancelTarget{Batch: "across"}))
	if r := <-waited; r.status != 200 || into[gateway.Receipt](t, r).Result.Status != job.StatusCancelled {
		t.Errorf("got %d %s, want the result of a job that was waited for across the loss", r.status, r.body)
	}
	if r := w.ask(post("/v1/jobs?wait=1m", `{"code": "1"}`)); r.status != 200 {
		t.Errorf("got %d %s, want a new job's result", r.status, r.body)
	}
}

func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	r := w.ask(post("/v1/jobs?wait=50ms", `{"code": "sleep"}`))
	if r.status != 202 || into[gateway.Receipt](t, r).Result != nil {
		t.Errorf("got %d %s, want 202 when the wait was too short", r.status, r.body)
	}
	answered := make(chan reply, 1)
	go func() { answered <- w.ask(post("/v1/jobs?wait=5m", `{"code": "sleep", "batch": "b"}`)) }()
	eventually(t, "the job runs", func() bool {
		jobs, err := w.store.History(t.Context(), "default", job.Filter{Batch: "b"})
		return err == nil && len(jobs) == 1 && jobs[0].State == job.StateRunning
	})
	w.gw.Leave()
	select {
	case r := <-answered:
		if r.status != 202 {
			t.Errorf("got %d %s, want 202 from a gateway that leaves", r.status, r.body)
		}
	case <-time.After(patience):
		t.Error("got no answer from a gateway that leaves")
	}
	for _, batch := range []string{"b"} {
		must(t, w.queue.Cancel(t.Context(), "default", queue.CancelTarget{Batch: batch}))
	}
	must(t, w.queue.Cancel(t.Context(), "default", queue.CancelTarget{Job: into[gateway.Receipt](t, r).ID}))
}
