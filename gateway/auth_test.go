package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

func TestATokenSeesItsTenantOnly(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	a, b := w.token("a"), w.token("b")
	mine := post("/v1/jobs?wait=1m", `{"code": "die", "batch": "mine"}`)
	mine.token = a
	id := into[gateway.Receipt](t, w.ask(mine)).ID.String()
	for _, c := range []struct {
		method, path string
		ok           int
	}{
		{http.MethodGet, "/v1/jobs/" + id, 200},
		{http.MethodGet, "/v1/jobs/" + id + "/calls", 200},
		{http.MethodDelete, "/v1/jobs/" + id, 200},
		{http.MethodGet, "/v1/batches/mine", 200},
		{http.MethodGet, "/v1/batches/mine/results", 200},
		{http.MethodDelete, "/v1/batches/mine", 202},
		{http.MethodPost, "/v1/jobs/" + id + "/requeue", 202},
	} {
		w.ask(asking{method: c.method, path: c.path, token: b}).refused(t, "b: "+c.method+" "+c.path, gateway.CodeNotFound, 404)
		if r := w.ask(asking{method: c.method, path: c.path, token: a}); r.status != c.ok {
			t.Errorf("a: %s %s: got %d %s, want %d", c.method, c.path, r.status, r.body, c.ok)
		}
	}
	for _, path := range []string{"/v1/jobs", "/v1/dead"} {
		if r := w.ask(asking{path: path, token: b}); len(into[gateway.Records](t, r).Jobs) != 0 {
			t.Errorf("b: %s: got %s, want nothing", path, r.body)
		}
	}
	as := post("/v1/jobs", `{"code": "1", "tenant": "a"}`)
	as.token = b
	w.ask(as).refused(t, "b for a", gateway.CodeInvalidJob, 422)
	// The id of another's job is no way to it, nor to its place.
	same := post("/v1/jobs?wait=1m", `{"code": "1", "id": "`+id+`"}`)
	same.token = b
	if r := w.ask(same); strings.Contains(string(r.body), "die") || strings.Contains(string(r.body), `"a"`) {
		t.Errorf("got %s, want nothing of tenant a's", r.body)
	}
}

// A job that has not ended has no result whose tenant is checked besides.
func TestATokenSeesRunningJobsOfItsTenantOnly(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	a, b := w.token("a"), w.token("b")
	submission := post("/v1/jobs", `{"code": "sleep", "batch": "mine"}`)
	submission.token = a
	id := into[gateway.Receipt](t, w.ask(submission)).ID.String()
	path := "/v1/jobs/" + id
	eventually(t, "the job runs", func() bool {
		r := w.ask(asking{path: path, token: a})
		return r.status == http.StatusOK && into[gateway.View](t, r).Job.State == job.StateRunning
	})
	for _, below := range []string{"", "?wait=1s", "/calls", "/events"} {
		w.ask(asking{path: path + below, token: b}).refused(t, "b: "+below, gateway.CodeNotFound, http.StatusNotFound)
	}
	w.ask(asking{method: http.MethodDelete, path: path, token: b}).refused(t, "b cancels", gateway.CodeNotFound, http.StatusNotFound)
	w.ask(asking{method: http.MethodDelete, path: path, token: a})
}

func TestScopes(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	id := job.NewID().String()
	for _, c := range []struct {
		need         store.Scope
		method, path string
		body         string
	}{
		{store.ScopeSubmit, http.MethodPost, "/v1/jobs", `{"code": "1"}`},
		{store.ScopeSubmit, http.MethodPost, "/execute", `{"code": "1"}`},
		{store.ScopeSubmit, http.MethodPost, "/v1/batches", `{"code": "1"}`},
		{store.ScopeRead, http.MethodGet, "/v1/jobs", ""},
		{store.ScopeRead, http.MethodGet, "/v1/workers", ""},
		{store.ScopeCancel, http.MethodDelete, "/v1/jobs/" + id, ""},
		{store.ScopeAdmin, http.MethodPost, "/v1/jobs/" + id + "/requeue", ""},
	} {
		var others []store.Scope
		for _, scope := range store.Scopes() {
			if scope != c.need {
				others = append(others, scope)
			}
		}
		a := asking{method: c.method, path: c.path, body: c.body, token: w.token("t", others...)}
		w.ask(a).refused(t, c.method+" "+c.path+" without "+string(c.need), gateway.CodeForbidden, 403)
		a.token = w.token("t", c.need)
		if r := w.ask(a); r.status == 401 || r.status == 403 {
			t.Errorf("%s %s with %s: got %d %s, want to be let in", c.method, c.path, c.need, r.status, r.body)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	good := w.token("t")
	w.ask(asking{path: "/v1/jobs"}).refused(t, "no token where there are some", gateway.CodeUnauthorized, 401)
	for what, token := range map[string]string{
		"another": good[:len(good)-1] + "_", "a part": good[:20], "nothing": " ", "long": strings.Repeat("x", 5000), "its hash": "airlock_%00",
	} {
		r := w.ask(asking{path: "/v1/jobs", token: token})
		r.refused(t, what, gateway.CodeUnauthorized, 401)
		if r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: got no WWW-Authenticate, want one", what)
		}
	}
	text, brief := gateway.NewToken("t", store.Scopes(), "", time.Now().Add(-time.Second))
	must(t, w.store.AddToken(t.Context(), "test", brief))
	w.ask(asking{path: "/v1/jobs", token: text}).refused(t, "one that has expired", gateway.CodeUnauthorized, 401)

	text, revoked := gateway.NewToken("t", store.Scopes(), "", time.Time{})
	must(t, w.store.AddToken(t.Context(), "test", revoked))
	if r := w.ask(asking{path: "/v1/jobs", token: text}); r.status != 200 {
		t.Errorf("got %d %s, want to be let in", r.status, r.body)
	}
	must(t, w.store.RevokeToken(t.Context(), "test", revoked.ID))
	must(t, w.store.RevokeToken(t.Context(), "test", revoked.ID))
	eventually(t, "the revoked token is refused", func() bool { return w.ask(asking{path: "/v1/jobs", token: text}).status == 401 })
}

func TestWithoutTokensOnlyThisMachineIsServed(t *testing.T) {
	t.Parallel()
	local := start(t, setUp{})
	if r := local.ask(asking{path: "/v1/jobs"}); r.status != 200 {
		t.Errorf("got %d %s, want everybody let in", r.status, r.body)
	}
	// A page whose name resolves to 127.0.0.1 sends that name.
	rebound := asking{path: "/v1/jobs", header: map[string]string{"Host": "evil.example:8080"}}
	local.ask(rebound).refused(t, "by another name", gateway.CodeForbidden, 403)
	// A form of a foreign page can send text, but no JSON.
	form := asking{method: http.MethodPost, path: "/execute", media: "text/plain", body: `{"code": "1"}`}
	local.ask(form).refused(t, "as a form", gateway.CodeMediaType, 415)

	public := start(t, setUp{public: true})
	public.ask(asking{path: "/v1/jobs"}).refused(t, "from anywhere", gateway.CodeUnauthorized, 401)
}

func TestATenantIsBounded(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{gateway: gateway.Config{Rate: 0.001, Concurrency: 1}})
	a, b := w.token("a"), w.token("b")
	if r := w.ask(asking{path: "/v1/jobs", token: a}); r.status != 200 {
		t.Fatalf("got %d %s, want the first request let in", r.status, r.body)
	}
	r := w.ask(asking{path: "/v1/jobs", token: a})
	r.refused(t, "the second within the hour", gateway.CodeRateLimited, 429)
	if r.header.Get("Retry-After") == "" {
		t.Error("got no Retry-After, want one")
	}
	if r := w.ask(asking{path: "/v1/jobs", token: b}); r.status != 200 {
		t.Errorf("got %d %s, want the other tenant let in", r.status, r.body)
	}

	busy := start(t, setUp{gateway: gateway.Config{Concurrency: 1}})
	waited := make(chan reply, 1)
	go func() { waited <- busy.ask(post("/v1/jobs?wait=5m", `{"code": "sleep", "batch": "b"}`)) }()
	eventually(t, "the job runs", func() bool {
		sum, err := busy.store.Batch(t.Context(), "default", "b")
		return err == nil && sum.States[job.StateRunning] == 1
	})
	busy.ask(asking{path: "/v1/jobs"}).refused(t, "a second request at a time", gateway.CodeRateLimited, 429)
	must(t, busy.queue.Cancel(t.Context(), "default", queue.CancelTarget{Batch: "b"}))
	if r := <-waited; r.status != 200 {
		t.Errorf("got %d %s, want the result", r.status, r.body)
	}
	if r := busy.ask(asking{path: "/v1/jobs"}); r.status != 200 {
		t.Errorf("got %d %s, want to be let in when the other has left", r.status, r.body)
	}
}

func TestActsAreRecorded(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	text, token := gateway.NewToken("t", store.Scopes(), "for the test", time.Time{})
	must(t, w.store.AddToken(t.Context(), "root@here", token))
	die := post("/v1/jobs?wait=1m", `{"code": "die"}`)
	die.token = text
	id := into[gateway.Receipt](t, w.ask(die)).ID
	w.ask(asking{method: http.MethodPost, path: "/v1/jobs/" + id.String() + "/requeue", token: text})
	must(t, w.store.RevokeToken(t.Context(), "root@here", token.ID))
	acts, err := w.store.Acts(t.Context(), 10)
	must(t, err)
	var got []string
	for _, a := range acts {
		got = append(got, a.Actor+" "+a.Act)
	}
	want := "root@here token.revoke, token " + token.ID.String() + " job.requeue, root@here token.create"
	if strings.Join(got, ", ") != want {
		t.Errorf("got acts %q, want %q", got, want)
	}
	if err := w.store.RevokeToken(t.Context(), "root@here", job.NewID()); err == nil {
		t.Error("got no error for a token that never was")
	}
	if again, err := w.store.Acts(t.Context(), 10); err != nil || len(again) != 3 {
		t.Errorf("got %d acts, %v, want none of what was not done", len(again), err)
	}
}
