package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"airlock/gateway"
	"airlock/job"
)

func TestBadInputIsToldAsSuch(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, c := range []struct {
		what string
		ask  asking
		code gateway.Code
		says string
	}{
		{"no JSON", post("/v1/jobs", `{"code": `), gateway.CodeInvalidJob, "ends too early"},
		{"nothing", asking{method: http.MethodPost, path: "/v1/jobs", media: "application/json"}, gateway.CodeInvalidJob, "ends too early"},
		{"two documents", post("/v1/jobs", `{"code": "1"} {}`), gateway.CodeInvalidJob, "more than one"},
		{"a duplicate key", post("/v1/jobs", `{"code": "1", "code": "2"}`), gateway.CodeInvalidJob, "duplicate"},
		{"an unknown field", post("/v1/jobs", `{"code": "1", "cod": "2"}`), gateway.CodeInvalidJob, "unknown field"},
		{"bad UTF-8", post("/v1/jobs", "{\"code\": \"\xff\"}"), gateway.CodeInvalidJob, "UTF-8"},
		{"deep JSON", post("/v1/jobs", `{"code": "1", "vars": `+deep+`}`), gateway.CodeInvalidJob, "nested deeper"},
		{"a deep array", post("/v1/jobs", deep), gateway.CodeBadRequest, "nested deeper"},
		{"a large job", post("/v1/jobs", `{"code": "`+strings.Repeat("x", 5<<20)+`"}`), gateway.CodeInvalidJob, "maximum"},
		{"a larger body", post("/v1/jobs", `{"code": "`+strings.Repeat("x", 65<<20)+`"}`), gateway.CodeTooLarge, "larger than"},
		{"an empty array", post("/v1/jobs", `[]`), gateway.CodeBadRequest, "1 to 1000"},
		{"a long array", post("/v1/jobs", "["+strings.Repeat(`{"code":"1"},`, 1000)+`{"code":"1"}]`), gateway.CodeBadRequest, "batches"},
		{"a number", post("/v1/jobs", `7`), gateway.CodeInvalidJob, ""},
		{"an odd wait", post("/v1/jobs?wait=soon", `{"code": "1"}`), gateway.CodeBadRequest, "wait"},
		{"a long wait", post("/v1/jobs?wait=1h", `{"code": "1"}`), gateway.CodeBadRequest, "wait"},
		{"an odd park", post("/v1/jobs?park=perhaps", `{"code": "1"}`), gateway.CodeBadRequest, "park"},
		{"compressed", asking{method: http.MethodPost, path: "/v1/jobs", body: "x", header: map[string]string{"Content-Encoding": "gzip"}}, gateway.CodeMediaType, "Content-Encoding"},
		{"a form", asking{method: http.MethodPost, path: "/v1/jobs", body: "code=1", media: "application/x-www-form-urlencoded"}, gateway.CodeMediaType, "application/json"},
		{"no type", asking{method: http.MethodPost, path: "/v1/batches", body: "{}", media: ";"}, gateway.CodeMediaType, "application/x-ndjson"},
		{"an odd batch", asking{method: http.MethodPost, path: "/v1/batches?name=../x", body: "{}", media: "application/x-ndjson"}, gateway.CodeBadRequest, "name"},
		{"an odd id", asking{path: "/v1/jobs/..%2f..%2fetc"}, gateway.CodeNotFound, "no job's id"},
		{"an odd status", asking{path: "/v1/jobs?status=fine"}, gateway.CodeBadRequest, "status"},
		{"an odd time", asking{path: "/v1/jobs?since=yesterday"}, gateway.CodeBadRequest, "since"},
		{"an odd cursor", asking{path: "/v1/jobs?before=1"}, gateway.CodeBadRequest, "before"},
		{"an odd limit", asking{path: "/v1/jobs?limit=1001"}, gateway.CodeBadRequest, "limit"},
		{"an odd cursor of results", asking{path: "/v1/batches/b/results?after=x"}, gateway.CodeBadRequest, "after"},
		{"a batch by an odd name", asking{path: "/v1/batches/a.b"}, gateway.CodeNotFound, "no batch's name"},
		{"a path without its id", asking{path: "/v1/jobs//calls"}, gateway.CodeNotFound, "empty"},
		{"a path that climbs", asking{path: "/v1/jobs/x/../calls"}, gateway.CodeNotFound, "a dot"},
		{"an unknown parameter", asking{path: "/v1/jobs?btach=nightly"}, gateway.CodeBadRequest, "btach"},
		{"a header's name as a parameter", post("/v1/jobs?Idempotency-Key=k", `{"code": "1"}`), gateway.CodeBadRequest, "Idempotency-Key"},
		{"a tool by its name", post("/v1/jobs", `{"code": "1", "tools": ["math.add"]}`), gateway.CodeInvalidJob, "want an object with namespace, name"},
		{"no such path", asking{path: "/v1/nothing"}, gateway.CodeNotFound, "/docs"},
		{"no such method", asking{method: http.MethodPut, path: "/v1/jobs"}, gateway.CodeMethod, "GET or POST"},
		{"execute: an unknown field", post("/execute", `{"code": "1", "timeout": 3}`), gateway.CodeBadRequest, "timeout"},
		{"execute: another type", post("/execute", `{"code": "1", "timeout_seconds": "3"}`), gateway.CodeBadRequest, "timeout_seconds"},
		{"execute: negative", post("/execute", `{"code": "1", "timeout_seconds": -3}`), gateway.CodeInvalidJob, "timeout_seconds"},
		{"execute: too long", post("/execute", `{"code": "1", "timeout_seconds": 1e300}`), gateway.CodeInvalidJob, "timeout_seconds"},
		{"execute: too large", post("/execute", `{"code": "1", "memory_limit_mb": 1e300}`), gateway.CodeInvalidJob, "memory"},
		{"execute: no code", post("/execute", `{}`), gateway.CodeInvalidJob, "code"},
	} {
		r := w.ask(c.ask)
		if r.status < 400 || r.status >= 500 {
			t.Errorf("%s: got %d %.200s, want the client's fault", c.what, r.status, r.body)
			continue
		}
		if p := into[gateway.Problem](t, r); p.Code != c.code || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: got %s %q, want %s with %q", c.what, p.Code, p.Detail, c.code, c.says)
		}
	}
	if jobs, err := w.store.History(t.Context(), "default", job.Filter{}); err != nil || len(jobs) != 0 {
		t.Errorf("got %d jobs, %v, want none of all that", len(jobs), err)
	}
}

func TestASlowBodyIsCutOff(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{gateway: gateway.Config{BodyWait: 200 * time.Millisecond}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("got %d, want 400 for a body that does not come", resp.StatusCode)
	}
}

func TestABatchKeepsItsGoodLines(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	long := `{"code": "` + strings.Repeat("x", 5<<20) + `"}`
	lines := []string{`{"code": "1"}`, `nonsense`, ``, `{"code": "2"}`, `{"code": 3}`, long, `{"code": "1"}`, `{"code": "4", "tenant": "x"}`, `{"code": "5", "batch": "y"}`}
	a := asking{method: http.MethodPost, path: "/v1/batches?name=b", media: "application/x-ndjson", body: strings.Join(lines, "\n")}
	r := w.ask(a)
	got := into[gateway.BatchReceipt](t, r)
	if r.status != 202 || got.Batch != "b" || got.Accepted != 3 || got.Rejected != 6-1 || got.Incomplete != nil {
		t.Fatalf("got %d %.500s, want 3 taken and 5 refused", r.status, r.body)
	}
	var numbers []int
	for _, p := range got.Problems {
		numbers = append(numbers, p.Line)
	}
	if fmt.Sprint(numbers) != "[2 5 6 8 9]" {
		t.Errorf("got problems of lines %v, want 2 5 6 8 9", numbers)
	}
	if r := w.ask(asking{path: "/v1/batches/b"}); r.status != 200 {
		t.Errorf("got %d %s, want the batch found at once", r.status, r.body)
	}
	again := into[gateway.BatchReceipt](t, w.ask(a))
	if again.Accepted != 3 || again.Known != 3 {
		t.Errorf("got %+v, want the same jobs known", again)
	}
	eventually(t, "all three end", func() bool {
		r := w.ask(asking{path: "/v1/batches/b"})
		return r.status == 200 && into[job.Summary](t, r).Statuses[job.StatusOK] == 3
	})
	first := w.ask(asking{path: "/v1/batches/b/results?limit=2"})
	next := first.header.Get("Link")
	if n := strings.Count(string(first.body), "\n"); n != 2 || !strings.HasSuffix(next, `>; rel="next"`) {
		t.Fatalf("got %d results and Link %q, want 2 and the next page", n, next)
	}
	rest := w.ask(asking{path: strings.TrimSuffix(strings.TrimPrefix(next, "<"), `>; rel="next"`)})
	if n := strings.Count(string(rest.body), "\n"); n != 1 || rest.header.Get("Link") != "" {
		t.Errorf("got %d results and Link %q, want the last one", n, rest.header.Get("Link"))
	}
}

func TestABatchThatBreaksOff(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	must(t, err)
	fmt.Fprintf(conn, "POST /v1/batches?name=cut HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, line := range []string{`{"code": "1"}`, `{"code": "2"}`, `{"code": `} {
		fmt.Fprintf(conn, "%x\r\n%s\n\r\n", len(line)+1, line)
	}
	eventually(t, "the whole lines are taken", func() bool {
		r := w.ask(asking{path: "/v1/batches/cut"})
		return r.status == 200 && into[job.Summary](t, r).Total == 2
	})
	must(t, conn.Close())
}
