package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
)

func TestToolsAreAskedOfAWorker(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{public: true})
	token := w.token("a")
	w.ask(asking{path: "/v1/tools", token: token}).refused(t, "without a worker that knows them", gateway.CodeUnavailable, http.StatusServiceUnavailable)
	ctx, stop := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		answered <- w.queue.Answer(ctx, map[string]queue.Answer{"tools": func(_ context.Context, tenant string, request []byte) (any, error) {
			return map[string]any{"tools": []map[string]any{{
				"namespace": "math", "name": tenant, "description": string(request), "read_only": true, "providers": 2, "calls": 3, "p50": "1.5s", "new": 1,
			}}}, nil
		}})
	}()
	t.Cleanup(func() { stop(); must(t, <-answered) })
	var r reply
	eventually(t, "answered", func() bool {
		r = w.ask(asking{path: "/v1/tools?namespace=math&schemas=true", token: token})
		return r.status == http.StatusOK
	})
	want := []job.ListedTool{{Namespace: "math", Name: "a", Description: `{"namespace":"math","schemas":true}`, ReadOnly: true, Providers: 2, Calls: 3, P50: job.Duration(15e8)}}
	if diff := cmp.Diff(want, into[job.ToolList](t, r).Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	w.ask(asking{path: "/v1/tools?namespace=a.b", token: token}).refused(t, "namespace", gateway.CodeBadRequest, http.StatusBadRequest)
	w.ask(asking{path: "/v1/tools?schemas=x", token: token}).refused(t, "schemas", gateway.CodeBadRequest, http.StatusBadRequest)
}

// TestAFileIsTheGuests: it is served to be saved, to its tenant only.
func TestAFileIsTheGuests(t *testing.T) {
	t.Parallel()
	page := []byte("<script>alert(1)</script>\x00\xff")
	sum := sha256.Sum256(page)
	paths := []string{"out/page.html", "ü \"x\".svg"}
	w := start(t, setUp{public: true, play: func(w *world, ctx context.Context, d job.Delivery) {
		claim, ok := w.claim(ctx, d)
		if !ok {
			return
		}
		r := outcome(d.Job)
		r.Attempt = claim.Attempt
		for _, path := range paths {
			r.Artifacts = append(r.Artifacts, job.Artifact{Path: path, Size: job.Size(len(page)), SHA256: hex.EncodeToString(sum[:]), Content: page})
		}
		w.finish(ctx, d, r)
	}})
	mine, theirs := w.token("a"), w.token("b")
	id := w.submitted(`{"code": "return 1", "collect": ["**"]}`, mine)
	w.open("/v1/jobs/"+id.String()+"/events", "", mine).rest()
	at := "/v1/jobs/" + id.String() + "/artifacts/"
	for path, name := range map[string]string{"out/page.html": `attachment; filename=page.html`, "%C3%BC%20%22x%22.svg": `attachment; filename*=utf-8''%C3%BC%20%22x%22.svg`} {
		r := w.ask(asking{path: at + path, token: mine})
		if r.status != http.StatusOK || string(r.body) != string(page) {
			t.Errorf("%s: got %d %q, want the content", path, r.status, r.body)
		}
		for header, want := range map[string]string{"Content-Type": "application/octet-stream", "Content-Disposition": name, "X-Content-Type-Options": "nosniff"} {
			if got := r.header.Get(header); got != want {
				t.Errorf("%s: got %s %q, want %q", path, header, got, want)
			}
		}
		if !strings.Contains(r.header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: a browser may run what is in it", path)
		}
		w.ask(asking{path: at + path, token: theirs}).refused(t, path, gateway.CodeNotFound, http.StatusNotFound)
	}
	for _, path := range []string{"none", "page.html", "out", "%00", "..%2Fout%2Fpage.html", "%ff"} {
		w.ask(asking{path: at + path, token: mine}).refused(t, path, gateway.CodeNotFound, http.StatusNotFound)
	}
}
