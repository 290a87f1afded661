package gateway_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// described is what the test reads of a description.
type described struct {
	OpenAPI string                          `json:"openapi"`
	Paths   map[string]map[string]operation `json:"paths"`
	Rest    map[string]jsontext.Value       `json:",inline"`
}

type operation struct {
	OperationID string `json:"operationId"`
	RequestBody struct {
		Content map[string]struct {
			Example jsontext.Value            `json:"example"`
			Rest    map[string]jsontext.Value `json:",inline"`
		} `json:"content"`
		Rest map[string]jsontext.Value `json:",inline"`
	} `json:"requestBody"`
	Responses map[string]jsontext.Value `json:"responses"`
	Rest      map[string]jsontext.Value `json:",inline"`
}

func describe(t *testing.T, w *world) described {
	t.Helper()
	r := w.ask(asking{path: "/openapi.json"})
	var d described
	if err := json.Unmarshal(r.body, &d); err != nil || !strings.HasPrefix(d.OpenAPI, "3.1") {
		t.Fatalf("got %d %.200s, want OpenAPI 3.1: %v", r.status, r.body, err)
	}
	return d
}

func TestEveryExampleWorks(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	sent := 0
	for path, methods := range describe(t, w).Paths {
		for method, op := range methods {
			for media, content := range op.RequestBody.Content {
				body := string(content.Example)
				if media != "application/json" {
					must(t, json.Unmarshal(content.Example, &body))
				}
				r := w.ask(asking{method: strings.ToUpper(method), path: path, media: media, body: body})
				if _, ok := op.Responses[strconv.Itoa(r.status)]; !ok || r.status >= 400 {
					t.Errorf("%s %s: got %d %s, want its example taken", method, path, r.status, r.body)
				}
				sent++
			}
		}
	}
	if sent < 3 {
		t.Errorf("sent %d examples, want one for each body", sent)
	}
}

func TestEveryProblemIsDescribed(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{public: true})
	for path, methods := range describe(t, w).Paths {
		for method, op := range methods {
			r := w.ask(asking{method: strings.ToUpper(method), path: strings.ReplaceAll(path, "{id}", "x")})
			if _, ok := op.Responses[strconv.Itoa(r.status)]; !ok {
				t.Errorf("%s %s: got status %d, which %s does not name", method, path, r.status, op.OperationID)
			}
		}
	}
}

func TestThePageNeedsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	r := w.ask(asking{path: "/docs"})
	page := string(r.body)
	for _, banned := range []string{"http://", "https://", "<script", "<img", "style="} {
		if strings.Contains(page, banned) {
			t.Errorf("the page has %q", banned)
		}
	}
	if csp := r.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("got Content-Security-Policy %q, want default-src 'none'", csp)
	}
	for path := range describe(t, w).Paths {
		if !strings.Contains(page, path) {
			t.Errorf("the page does not have %s", path)
		}
	}
	if css := w.ask(asking{path: "/docs.css"}); css.status != 200 || !strings.HasPrefix(css.header.Get("Content-Type"), "text/css") {
		t.Errorf("got %d %s, want the style", css.status, css.header.Get("Content-Type"))
	}
}
