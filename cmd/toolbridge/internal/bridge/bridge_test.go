package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"airlock/broker/brokertest"
	"airlock/broker/provider"
	"airlock/cmd/toolbridge/internal/bridge"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// patience is for a machine that does other things too.
const patience = time.Minute

// local is a server of this test binary.
func local(namespace, kind string, edits ...func(*bridge.Server)) bridge.Server {
	s := bridge.Server{
		Namespace: namespace, Command: []string{os.Args[0]}, Env: map[string]string{kindVariable: kind},
		Timeout: job.Duration(patience), StartTimeout: job.Duration(patience), Concurrency: 8,
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

// said is a log that a test may read.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func options(log *said) bridge.Options {
	return bridge.Options{Log: zerolog.New(log), Backoff: bridge.Backoff{First: 10 * time.Millisecond, Most: 50 * time.Millisecond}}
}

// serve runs a bridge on a NATS server of its own until the test ends or stop
// is called.
func serve(t *testing.T, servers ...bridge.Server) (nc *nats.Conn, log *said, stop func()) {
	t.Helper()
	log = &said{}
	nc, stop = serveWith(t, log, options(log), servers...)
	return nc, log, stop
}

func serveWith(t *testing.T, log *said, opts bridge.Options, servers ...bridge.Server) (nc *nats.Conn, stop func()) {
	t.Helper()
	nc = brokertest.Connect(t, brokertest.NATS(t, 0))
	b, err := bridge.Open(t.Context(), &bridge.Config{Servers: servers}, opts)
	if err != nil {
		t.Fatalf("open: %v\n%s", err, log)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Serve(ctx, nc) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: got error %v, want none", err)
		}
		b.Close()
	})
	t.Cleanup(stop)
	return nc, stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// ask makes a call, again while nobody serves the tool.
func ask(t *testing.T, nc *nats.Conn, subject, arguments string, header ...string) *nats.Msg {
	t.Helper()
	msg := &nats.Msg{Subject: subject, Data: []byte(arguments), Header: nats.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		msg.Header.Set(header[i], header[i+1])
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		answer, err := nc.RequestMsg(msg, patience)
		if err == nil {
			return answer
		}
		if time.Now().After(deadline) {
			t.Fatalf("ask %s: %v", subject, err)
		}
	}
}

func text(t *testing.T, nc *nats.Conn, subject, arguments string) string {
	t.Helper()
	answer := ask(t, nc, subject, arguments)
	if code := answer.Header.Get(provider.HeaderErrorCode); code != "" {
		t.Fatalf("%s: got error %s (%s), want an answer", subject, code, answer.Header.Get(provider.HeaderError))
	}
	return strings.Trim(string(answer.Data), `"`)
}

// remote is a server of the SDK's by HTTP.
func remote(t *testing.T, namespace string, options *mcp.StreamableHTTPOptions) bridge.Server {
	t.Helper()
	server := newServer("all")
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*httpRequest) *mcp.Server { return server }, options))
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	s := local(namespace, "")
	s.Command, s.Env, s.URL = nil, nil, web.URL
	return s
}

func TestWhatAGuestGets(t *testing.T) {
	t.Parallel()
	servers := []bridge.Server{
		local("stdio", "noisy"),
		remote(t, "events", nil),
		remote(t, "json", &mcp.StreamableHTTPOptions{JSONResponse: true}),
		remote(t, "stateless", &mcp.StreamableHTTPOptions{Stateless: true}),
	}
	nc, _, _ := serve(t, servers...)
	for _, tc := range []struct {
		name, tool, arguments string
		body, code, message   string
	}{
		{name: "structured", tool: "greet", arguments: `{"zed":"you"}`, body: `{"text":"Hi you"}`},
		{name: "numbers as they are", tool: "echo", arguments: `{"zz":123456789012345678901234567890,"aa":1.0}`,
			body: `{"zz":123456789012345678901234567890,"aa":1.0}`},
		{name: "texts", tool: "sub_text", arguments: `{}`, body: `"one\ntwo"`},
		{name: "an image", tool: "image", arguments: `{}`,
			body: `[{"text":"see:","type":"text"},{"data":{"$airlock":"bytes","base64":"AP8="},"mime_type":"image/png","type":"image"}]`},
		{name: "nothing", tool: "nothing", arguments: `{}`, body: `null`},
		{name: "the tool's failure", tool: "fail", arguments: `{}`, code: bridge.CodeTool, message: "no such file"},
		{name: "the server's refusal", tool: "refuse", arguments: `{}`, code: provider.CodeBadArguments, message: "not like this"},
		{name: "arguments that do not fit", tool: "greet", arguments: `{"zed":1}`, code: provider.CodeBadArguments, message: "*"},
	} {
		for _, s := range servers {
			t.Run(s.Namespace+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				answer := ask(t, nc, provider.Subject(s.Namespace, tc.tool), tc.arguments)
				code, message := answer.Header.Get(provider.HeaderErrorCode), answer.Header.Get(provider.HeaderMessage)
				if string(answer.Data) != tc.body || code != tc.code {
					t.Errorf("got %s, code %q (%s), want %s, code %q", answer.Data, code, answer.Header.Get(provider.HeaderError), tc.body, tc.code)
				}
				if tc.message != "*" && message != tc.message {
					t.Errorf("got message %q, want %q", message, tc.message)
				}
			})
		}
	}
}

// Positional arguments go by the order of the schema's properties.
func TestWhatIsAnnounced(t *testing.T) {
	t.Parallel()
	nc, _, _ := serve(t, local("plain", "one"), local("trusted", "one", func(s *bridge.Server) { s.TrustHints = true }))
	for namespace, hint := range map[string]string{"plain": "false", "trusted": "true"} {
		text(t, nc, provider.Subject(namespace, "greet"), `{"zed":"x"}`) // so that it is there
		answer := ask(t, nc, "$SRV.INFO."+namespace, "")
		info := string(answer.Data)
		for _, want := range []string{`Say hi.`, `"read_only":"` + hint + `"`, `"idempotent":"` + hint + `"`} {
			if !strings.Contains(info, want) {
				t.Errorf("%s: %s is not in %s", namespace, want, info)
			}
		}
		if strings.Index(info, "zed") > strings.Index(info, "able") {
			t.Errorf("%s: the order of properties is not the server's: %s", namespace, info)
		}
	}
}

func TestTheEnvironmentIsBuilt(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BRIDGE_TEST_CANARY", "never")
	t.Setenv("BRIDGE_TEST_TOKEN", "file:"+secret)
	nc, _, _ := serve(t, local("n", "all", func(s *bridge.Server) {
		s.Env["WORD"], s.EnvFrom = "plain", map[string]string{"TOKEN": "BRIDGE_TEST_TOKEN"}
	}))
	got := map[string]string{}
	for line := range strings.SplitSeq(text(t, nc, "tools.n.env", `{}`), `\n`) {
		name, value, _ := strings.Cut(line, "=")
		got[name] = value
	}
	want := map[string]string{
		"HOME": os.Getenv("HOME"), "PATH": os.Getenv("PATH"), kindVariable: "all", "WORD": "plain", "TOKEN": "from a file",
	}
	maps.DeleteFunc(want, func(_, value string) bool { return value == "" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestHeadersAreSent(t *testing.T) {
	t.Setenv("BRIDGE_TEST_HEADER", "Bearer hush")
	server := newServer("one")
	seen := make(chan string, 100)
	web := httptest.NewServer(recording(seen, mcp.NewStreamableHTTPHandler(func(*httpRequest) *mcp.Server { return server }, nil)))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	s := local("n", "")
	s.Command, s.Env, s.URL, s.HeadersEnv = nil, nil, web.URL, map[string]string{"Authorization": "BRIDGE_TEST_HEADER"}
	b, err := bridge.Open(t.Context(), &bridge.Config{Servers: []bridge.Server{s}}, options(&said{}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := <-seen; got != "Bearer hush" {
		t.Errorf("got header %q, want the variable's value", got)
	}
}

// A redirect would carry the headers elsewhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 100)
	elsewhere := httptest.NewServer(recording(seen, nil))
	t.Cleanup(elsewhere.Close)
	web := httptest.NewServer(redirecting(elsewhere.URL))
	t.Cleanup(web.Close)
	s := local("n", "")
	s.Command, s.Env, s.URL = nil, nil, web.URL
	if b, err := bridge.Open(t.Context(), &bridge.Config{Servers: []bridge.Server{s}}, options(&said{})); err == nil {
		b.Close()
		t.Error("got no error, want one")
	}
	if len(seen) > 0 {
		t.Error("the redirect was followed")
	}
}

func TestToolsFollowTheServer(t *testing.T) {
	t.Parallel()
	nc, _, _ := serve(t, local("n", "all"), local("other", "one"))
	text(t, nc, "tools.n.more", `{}`)
	if got := text(t, nc, "tools.n.extra", `{}`); got != "extra" {
		t.Errorf("got %q, want extra", got)
	}
	eventually(t, "a tool that is gone is gone here", func() bool {
		_, err := nc.Request("tools.n.nothing", []byte(`{}`), patience)
		return err == nats.ErrNoResponders
	})
}

// A tool that comes later does not take a name that is another server's.
func TestTheFirstKeepsAName(t *testing.T) {
	t.Parallel()
	renamed := local("n", "one", func(s *bridge.Server) { s.Rename = map[string]string{"greet": "extra"} })
	nc, log, _ := serve(t, local("n", "all"), renamed)
	text(t, nc, "tools.n.more", `{}`)
	eventually(t, "the log says so", func() bool { return strings.Contains(log.String(), "n.extra is a tool of servers[1]") })
	for range 20 {
		if got := text(t, nc, "tools.n.extra", `{"zed":"x"}`); !strings.Contains(got, "Hi x") {
			t.Fatalf("got %s, want the answer of the one that had the name", got)
		}
	}
}

func TestADeadServerComesBack(t *testing.T) {
	t.Parallel()
	nc, log, _ := serve(t, local("n", "all"))
	before := text(t, nc, "tools.n.pid", `{}`)
	answer := ask(t, nc, "tools.n.die", `{}`)
	if code, again := answer.Header.Get(provider.HeaderErrorCode), answer.Header.Get(provider.HeaderRetryable); code != provider.CodeUnavailable || again != "" {
		t.Errorf("the call that it died of: got code %q, retryable %q, want unavailable and not retryable", code, again)
	}
	eventually(t, "another serves", func() bool {
		answer := ask(t, nc, "tools.n.pid", `{}`)
		if code := answer.Header.Get(provider.HeaderErrorCode); code != "" {
			if code != provider.CodeUnavailable {
				t.Errorf("while it is dead: got %s, want unavailable", code)
			}
			return false
		}
		return string(answer.Data) != `"`+before+`"`
	})
	if !strings.Contains(log.String(), "server is back") {
		t.Errorf("the log does not say so: %s", log)
	}
}

// A call that is not made says that it may be made again.
func TestToolsOfADeadServer(t *testing.T) {
	t.Parallel()
	log := &said{}
	opts := options(log)
	opts.Backoff = bridge.Backoff{First: time.Hour, Most: time.Hour}
	nc, stop := serveWith(t, log, opts, local("n", "all"))
	ask(t, nc, "tools.n.die", `{}`)
	eventually(t, "its tools fail so that guests may call again", func() bool {
		answer := ask(t, nc, "tools.n.pid", `{}`)
		return answer.Header.Get(provider.HeaderErrorCode) == provider.CodeUnavailable && answer.Header.Get(provider.HeaderRetryable) == "true"
	})
	stop()
}

// A server that dies at once is left alone longer each time.
func TestAServerThatDiesAtOnce(t *testing.T) {
	t.Parallel()
	nc, log, stop := serve(t, local("n", "dies", func(s *bridge.Server) { s.Optional = true }), local("other", "one"))
	text(t, nc, "tools.other.greet", `{"zed":"x"}`)
	eventually(t, "it is tried again, and again", func() bool { return strings.Count(log.String(), `"next":50`) > 3 })
	stop()
	if first, said := strings.Index(log.String(), `"next":20`), log.String(); first < 0 || !strings.Contains(said, `no way \\x1b[31mto begin`) {
		t.Errorf("got log %s, want a first wait of 20 ms after 10, and what the server said", said)
	}
}

func TestWhatIsWrongAtTheStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		servers []bridge.Server
		want    string
	}{
		"two of one name": {[]bridge.Server{local("n", "one"), local("n", "all", func(s *bridge.Server) { s.Tools = []string{"greet"} })}, "n.greet is a tool of servers["},
		"names that become one": {[]bridge.Server{local("n", "all", func(s *bridge.Server) { s.Rename = map[string]string{"echo": "sub_text"} })},
			`would both be n.sub_text`},
		"a name that is none":      {[]bridge.Server{local("n", "all", func(s *bridge.Server) { s.Rename = map[string]string{"echo": "1"} })}, `tool "echo": cannot be the name`},
		"a tool that is not there": {[]bridge.Server{local("n", "one", func(s *bridge.Server) { s.Tools = []string{"gret"} })}, `tool "gret": the server has none`},
		"a server that dies":       {[]bridge.Server{local("n", "dies")}, "servers[0] (namespace n): greet the server"},
		"no such command":          {[]bridge.Server{local("n", "one", func(s *bridge.Server) { s.Command = []string{"/nowhere"} })}, "start /nowhere"},
		"a secret that is not set": {[]bridge.Server{local("n", "one", func(s *bridge.Server) { s.EnvFrom = map[string]string{"A": "BRIDGE_TEST_UNSET"} })}, "BRIDGE_TEST_UNSET is not set"},
		"a server that is silent": {[]bridge.Server{local("n", "", func(s *bridge.Server) {
			s.Command, s.StartTimeout = []string{"sleep", "1000"}, job.Duration(100*time.Millisecond)
		})}, "did not answer within 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := bridge.Open(t.Context(), &bridge.Config{Servers: tc.servers}, options(&said{}))
			if err == nil {
				b.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// begun makes a slow call and returns once its server has it.
func begun(t *testing.T, nc *nats.Conn, header ...string) (path string, answers <-chan *nats.Msg) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "slow")
	got := make(chan *nats.Msg, 1)
	go func() { got <- ask(t, nc, "tools.n.slow", fmt.Sprintf(`{"aa":%q}`, path), header...) }()
	eventually(t, "the call has begun", func() bool { return exists(path + ".begun") })
	return path, got
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestTheEndOfACallReachesTheServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		timeout job.Duration
		cancel  bool
		code    string
	}{
		"cancelled":         {job.Duration(patience), true, provider.CodeCancelled},
		"its own time over": {job.Duration(5 * time.Second), false, provider.CodeDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, _, _ := serve(t, local("n", "all", func(s *bridge.Server) { s.Timeout = tc.timeout }))
			path, answers := begun(t, nc, provider.HeaderCall, "call-1")
			if tc.cancel {
				gone := &nats.Msg{Subject: provider.CancelSubject("n"), Header: nats.Header{provider.HeaderCall: {"call-1"}}}
				if err := nc.PublishMsg(gone); err != nil {
					t.Fatal(err)
				}
			}
			if code := (<-answers).Header.Get(provider.HeaderErrorCode); code != tc.code {
				t.Errorf("got code %q, want %q", code, tc.code)
			}
			eventually(t, "the server was told", func() bool { return exists(path + ".ended") })
		})
	}
}

func TestTheTraceGoesAlong(t *testing.T) {
	t.Parallel()
	nc, _, _ := serve(t, local("n", "all"))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := ask(t, nc, "tools.n.meta", `{}`, provider.HeaderTraceParent, parent); string(got.Data) != `"`+parent+`"` {
		t.Errorf("got %s, want the call's trace", got.Data)
	}
}

// It may hold what guests sent, so it is for debugging.
func TestWhatAServerSays(t *testing.T) {
	t.Parallel()
	nc, log, _ := serve(t, local("n", "all"))
	text(t, nc, "tools.n.say", `{}`)
	eventually(t, "it is in the log", func() bool { return strings.Contains(log.String(), `red \\x1b[31malert`) })
	if !strings.Contains(log.String(), `{"level":"debug","server":0,"namespace":"n","said":"red`) {
		t.Errorf("got log %s, want it at debug", log)
	}
}
