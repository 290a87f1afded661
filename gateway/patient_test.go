package gateway_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"airlock/gateway"
	"airlock/job"
)

// TestAClientThatTakesNoAnswer does not hold its place for ever.
func TestAClientThatTakesNoAnswer(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{gateway: gateway.Config{Concurrency: 1, AnswerWait: 2 * time.Second}})
	id := into[gateway.Receipt](t, w.ask(post("/v1/jobs", `{"code": "huge"}`))).ID
	eventually(t, "it ends", func() bool {
		record, err := w.store.Job(t.Context(), "default", id)
		return err == nil && record.State.Ended()
	})
	// One that came while a question of ours had the place was sent away.
	eventually(t, "it has the only place", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		must(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		fmt.Fprintf(conn, "GET /v1/jobs/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", id)
		for range 20 {
			if w.ask(asking{path: "/v1/lanes"}).status == http.StatusTooManyRequests {
				return true
			}
		}
		return false
	})
	eventually(t, "the place is free again", func() bool { return w.ask(asking{path: "/v1/lanes"}).status == http.StatusOK })
}

// TestAConnectionOutlastsAnAnswer: the time for one answer is not that of the
// next on the same connection, which may come much later.
func TestAConnectionOutlastsAnAnswer(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{gateway: gateway.Config{AnswerWait: 3 * time.Second}})
	if r := w.ask(asking{path: "/healthz"}); r.status != http.StatusOK {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	r := w.ask(post("/v1/jobs?wait=4s", `{"code": "sleep", "batch": "b"}`))
	if r.status != http.StatusAccepted {
		t.Errorf("got %d %s, want an answer that took longer to come than it may take to be taken", r.status, r.body)
	}
	if r := w.ask(asking{method: http.MethodDelete, path: "/v1/batches/b"}); r.status != http.StatusAccepted {
		t.Errorf("got %d %s, want the batch cancelled", r.status, r.body)
	}
}

// TestAPageOfLargeResultsEndsEarly, so that nobody can have the gateway hold
// thousands of them.
func TestAPageOfLargeResultsEndsEarly(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	const many = 8
	taken := w.ask(asking{method: http.MethodPost, path: "/v1/batches?name=b", media: "application/x-ndjson", body: strings.Repeat("{\"code\": \"large\"}\n", many)})
	if got := into[gateway.BatchReceipt](t, taken); got.Accepted != many {
		t.Fatalf("got %+v, want %d taken", got, many)
	}
	eventually(t, "all end", func() bool {
		sum, err := w.store.Batch(t.Context(), "default", "b")
		return err == nil && sum.Statuses[job.StatusOK] == many
	})
	seen, pages := 0, 0
	for next := "/v1/batches/b/results?limit=1000"; next != ""; pages++ {
		r := w.ask(asking{path: next})
		if len(r.body) > 16<<20 {
			t.Errorf("got a page of %d bytes, want at most 8 MiB and one read of results", len(r.body))
		}
		seen += strings.Count(string(r.body), "\n")
		next = strings.TrimSuffix(strings.TrimPrefix(r.header.Get("Link"), "<"), `>; rel="next"`)
	}
	if seen != many || pages < 2 {
		t.Errorf("got %d results on %d pages, want %d on several", seen, pages, many)
	}
}

// TestAnAnswerToAnArrayIsBounded: what does not fit is asked for by its id.
func TestAnAnswerToAnArrayIsBounded(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	const many = 6
	r := w.ask(post("/v1/jobs?wait=5m", "["+strings.Repeat(`{"code": "huge"},`, many-1)+`{"code": "huge"}]`))
	whole := 0
	for _, one := range into[gateway.Receipts](t, r).Jobs {
		if one.Result != nil {
			whole++
		} else if view := w.ask(asking{path: "/v1/jobs/" + one.ID.String()}); into[gateway.View](t, view).Result == nil {
			t.Errorf("job %s: got no result by its id", one.ID)
		}
	}
	if r.status != http.StatusAccepted || whole != 3 {
		t.Errorf("got %d with %d results of 16 MiB, want 202 with 3, which with the fourth would be more than 64 MiB", r.status, whole)
	}
}
