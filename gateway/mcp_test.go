package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

// bearing sends a token with each request.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// agent connects the SDK's client.
func (w *world) agent(token string) (*mcp.ClientSession, error) {
	w.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(w.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: bearing(token)}, MaxRetries: -1,
	}, nil)
	if err == nil {
		w.t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func (w *world) mustAgent(token string) *mcp.ClientSession {
	w.t.Helper()
	session, err := w.agent(token)
	must(w.t, err)
	return session
}

// called is what an agent gets of a call.
type called struct {
	text   string
	run    gateway.Run
	code   gateway.Code
	failed bool
}

func callTool(t *testing.T, s *mcp.ClientSession, name string, arguments any) called {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	must(t, err)
	if len(r.Content) != 1 {
		t.Fatalf("%s: got %d parts, want a text", name, len(r.Content))
	}
	out := called{text: r.Content[0].(*mcp.TextContent).Text, failed: r.IsError}
	body, err := json.Marshal(r.StructuredContent)
	must(t, err)
	var refused struct {
		Problem gateway.Problem `json:"problem"`
	}
	if must(t, json.Unmarshal(body, &refused)); refused.Problem.Code != "" {
		out.code = refused.Problem.Code
		return out
	}
	must(t, json.Unmarshal(body, &out.run))
	return out
}

func TestAnAgentRunsPython(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	agent := w.mustAgent("")
	ran := callTool(t, agent, "run_python", map[string]any{"code": "1", "files": map[string]any{"a.txt": "hello", "b": map[string]any{"base64": "/w=="}}, "limits": map[string]any{"wall": "3s"}})
	if ran.failed || ran.run.Status != "ok" || string(ran.run.Value) != `"done"` || ran.run.Stdout != "out\n" {
		t.Errorf("got %+v, want the result", ran)
	}
	if want := "run " + ran.run.ID.String() + ": ok\nvalue:\n\"done\"\nstdout:\nout"; ran.text != want {
		t.Errorf("got text %q, want %q", ran.text, want)
	}
	spec, err := w.store.Spec(t.Context(), "default", ran.run.ID)
	must(t, err)
	want := []job.File{{Path: "a.txt", Content: job.Bytes("hello")}, {Path: "b", Content: job.Bytes{0xff}}}
	if diff := cmp.Diff(want, spec.Files); diff != "" || spec.Batch != "mcp" || spec.Limits.Wall.String() != "3s" {
		t.Errorf("got %+v, want the files and the limit (-want +got):\n%s", spec, diff)
	}
	if again := callTool(t, agent, "get_run", map[string]any{"id": ran.run.ID.String()}); !cmp.Equal(again, ran, cmp.AllowUnexported(called{}), cmp.AllowUnexported(gateway.Run{})) {
		t.Errorf("get_run: got %+v, want %+v", again, ran)
	}
	raised := callTool(t, agent, "run_python", map[string]any{"code": "raise"})
	if !raised.failed || raised.run.Error == nil || !strings.Contains(raised.text, "guest_error") || !strings.Contains(raised.text, "ValueError: no") {
		t.Errorf("got %+v, want the exception told", raised)
	}
}

func TestAnAgentListsTools(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.queue.Answer(ctx, map[string]queue.Answer{"tools": func(_ context.Context, tenant string, request []byte) (any, error) {
			if tenant != "default" || string(request) != `{"namespace":"math","schemas":true}` {
				t.Errorf("got %s of %s, want the tools of math", request, tenant)
			}
			return map[string]any{"tools": []map[string]any{{"namespace": "math", "name": "add", "description": "Adds.\x1b[2J", "input_schema": map[string]any{"type": "object"}, "providers": 1}}}, nil
		}})
	}()
	defer func() { stop(); must(t, <-ended) }()
	agent := w.mustAgent("")
	var got called
	eventually(t, "a worker answers", func() bool {
		got = callTool(t, agent, "list_tools", map[string]any{"namespace": "math"})
		return !got.failed
	})
	if want := "1 tools\nmath.add: Adds.\\x1b[2J\n  arguments: {\"type\":\"object\"}"; got.text != want {
		t.Errorf("got %q, want %q", got.text, want)
	}
}

func TestAnAgentIsToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	agent := w.mustAgent("")
	for _, tc := range []struct {
		name, tool string
		arguments  any
		code       gateway.Code
		text       string
	}{
		{"no code", "run_python", map[string]any{}, gateway.CodeInvalidJob, "code"},
		{"an unknown argument", "run_python", map[string]any{"code": "1", "network": true}, gateway.CodeBadRequest, "network: unknown field"},
		{"a limit", "run_python", map[string]any{"code": "1", "limits": map[string]any{"wall": "1ns"}}, gateway.CodeInvalidJob, "limits.wall"},
		{"a path", "run_python", map[string]any{"code": "1", "files": map[string]any{"../a": ""}}, gateway.CodeInvalidJob, "files"},
		{"a tool", "run_python", map[string]any{"code": "1", "tools": []string{"add"}}, gateway.CodeInvalidJob, "math.add"},
		{"no run", "get_run", map[string]any{"id": job.ID{1}.String()}, gateway.CodeNotFound, ""},
		{"no id", "get_run", map[string]any{"id": "\x1b[2J"}, gateway.CodeNotFound, `\x1b[2J`},
		{"no worker answers", "list_tools", nil, gateway.CodeUnavailable, ""},
	} {
		got := callTool(t, agent, tc.tool, tc.arguments)
		if !got.failed || got.code != tc.code || !strings.Contains(got.text, string(tc.code)+": ") || !strings.Contains(got.text, tc.text) {
			t.Errorf("%s: got %+v, want %s and %q", tc.name, got, tc.code, tc.text)
		}
	}
}

func TestHostileOutputReachesAnAgentHarmless(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	got := callTool(t, w.mustAgent(""), "run_python", map[string]any{"code": "hostile"})
	if want := "\x1b]0;title\x07\uFFFD\r\n\u202edata: {}\n\n"; got.run.Stdout != want || string(got.run.Value) != `{"<script>":"`+"\u2028"+`\u0000"}` {
		t.Errorf("got %q and %s, want what the guest wrote", got.run.Stdout, got.run.Value)
	}
	for _, r := range got.text {
		if r < ' ' && r != '\n' || r == 0x202e {
			t.Errorf("got %q, want nothing in the text that commands a terminal", got.text)
			break
		}
	}
}

func TestMCPAsksForTokens(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{public: true})
	a, b := w.token("a"), w.token("b")
	for what, token := range map[string]string{"no token": "", "a wrong one": "airlock_x", "one that may only read": w.token("a", store.ScopeRead)} {
		if _, err := w.agent(token); err == nil {
			t.Errorf("%s: got a session, want none", what)
		}
	}
	ran := callTool(t, w.mustAgent(a), "run_python", map[string]any{"code": "1"})
	if ran.failed {
		t.Fatalf("got %+v, want the result", ran)
	}
	theirs := callTool(t, w.mustAgent(b), "get_run", map[string]any{"id": ran.run.ID.String()})
	if theirs.code != gateway.CodeNotFound {
		t.Errorf("another tenant got %+v, want not_found", theirs)
	}
	tools, err := w.mustAgent(w.token("a", store.ScopeSubmit)).ListTools(t.Context(), nil)
	must(t, err)
	if len(tools.Tools) != 1 || tools.Tools[0].Name != "run_python" {
		t.Errorf("who may not read got %d tools, want run_python alone", len(tools.Tools))
	}
}

func TestACancelledCallCancelsItsJob(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/mcp", strings.NewReader(
		`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": "sleep"}}}`))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	gone := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	ofBatch := func() job.Summary {
		got := w.ask(asking{path: "/v1/batches/mcp"})
		if got.status != http.StatusOK {
			return job.Summary{}
		}
		return into[job.Summary](t, got)
	}
	eventually(t, "the job runs", func() bool { return ofBatch().States[job.StateRunning] == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the call cut off", err)
	}
	eventually(t, "the job is cancelled", func() bool { return ofBatch().Statuses[job.StatusCancelled] == 1 })
}

func TestALeavingGatewayTellsAnAgentWhatRuns(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	agent := w.mustAgent("")
	answered := make(chan called, 1)
	go func() { answered <- callTool(t, agent, "run_python", map[string]any{"code": "sleep"}) }()
	eventually(t, "the job runs", func() bool { return strings.Contains(string(w.ask(asking{path: "/v1/jobs"}).body), `"running"`) })
	w.gw.Leave()
	got := <-answered
	if got.failed || got.run.Status != "running" || got.run.ID.IsZero() {
		t.Errorf("got %+v, want a run to come back to", got)
	}
	if again := callTool(t, agent, "get_run", map[string]any{"id": got.run.ID.String()}); again.run.Status != "running" {
		t.Errorf("got %+v, want it running", again)
	}
	w.ask(asking{method: http.MethodDelete, path: "/v1/jobs/" + got.run.ID.String()})
}

func TestMCPTakesOneCheckedMessage(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	const ping = `{"jsonrpc": "2.0", "id": 1, "method": "ping"}`
	if got := w.ask(post("/mcp", ping)); got.status != http.StatusOK || !strings.Contains(string(got.body), `"result"`) {
		t.Errorf("got %d %s, want a ping answered", got.status, got.body)
	}
	if got := w.ask(post("/mcp", `{"jsonrpc": "2.0", "method": "notifications/initialized"}`)); got.status != http.StatusAccepted {
		t.Errorf("got %d %s, want a notification taken", got.status, got.body)
	}
	w.ask(post("/mcp", "["+ping+","+ping+"]")).refused(t, "several in one", gateway.CodeBadRequest, 400)
	w.ask(post("/mcp", `{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}`)).refused(t, "a key twice", gateway.CodeBadRequest, 400)
	w.ask(post("/mcp", "\xff")).refused(t, "bad UTF-8", gateway.CodeBadRequest, 400)
	w.ask(post("/mcp", strings.Repeat("[", 100_000))).refused(t, "depth", gateway.CodeBadRequest, 400)
	w.ask(post("/mcp", `{"x": "`+strings.Repeat("x", 5<<20)+`"}`)).refused(t, "a large one", gateway.CodeTooLarge, 413)
	w.ask(asking{path: "/mcp", method: http.MethodPost, media: "text/plain", body: ping}).refused(t, "a form", gateway.CodeMediaType, 415)
	w.ask(asking{path: "/mcp"}).refused(t, "GET", gateway.CodeMethod, 405)
	if got := w.ask(asking{path: "/mcp", method: http.MethodPost, body: ping, header: map[string]string{"Host": "evil.example"}}); got.status < 400 {
		t.Errorf("got %d %s for a foreign host, want a refusal", got.status, got.body)
	}
}
