package gateway_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

// receiver is who is called back.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []*http.Request
	body [][]byte
}

// receive answers each call with the next of the statuses, and then the last.
func receive(t *testing.T, statuses ...int) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		status := statuses[min(len(r.got), len(statuses)-1)]
		r.got, r.body = append(r.got, req), append(r.body, body)
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func here(c gateway.CallbackConfig) gateway.Config {
	c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	c.Pause = 5 * time.Millisecond
	return gateway.Config{Callbacks: c, Rate: 1e6}
}

// callbacks lists them once all have come to an end.
func (w *world) callbacks(token string) (all []gateway.CallbackRecord) {
	w.t.Helper()
	eventually(w.t, "callbacks have ended", func() bool {
		all = into[gateway.Callbacks](w.t, w.ask(asking{path: "/v1/callbacks", token: token})).Callbacks
		for _, c := range all {
			if c.Ended.IsZero() {
				return false
			}
		}
		return len(all) > 0
	})
	return all
}

func TestACallbackIsTriedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	r := receive(t, 500, 503, 204)
	w := start(t, setUp{gateway: here(gateway.CallbackConfig{}), public: true})
	mine, theirs := w.token("a"), w.token("b")
	key := []byte("0123456789abcdef0123456789abcdef")
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	id := w.submitted(fmt.Sprintf(`{"code": "return 1", "callback": {"url": %q, "secret": %q}}`, r.URL+"/hook?x=1", secret), mine)
	all := w.callbacks(mine)
	if len(all) != 1 || all[0].State != store.CallbackDelivered || all[0].Job != id {
		t.Fatalf("got %+v, want one that was delivered", all)
	}
	var statuses []int
	for _, d := range all[0].Deliveries {
		statuses = append(statuses, d.Status)
	}
	if diff := cmp.Diff([]int{500, 503, 204}, statuses); diff != "" {
		t.Errorf("tries (-want +got):\n%s", diff)
	}
	for i, req := range r.got {
		stamp, name := req.Header.Get("webhook-timestamp"), req.Header.Get("webhook-id")
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(name + "." + stamp + "." + string(r.body[i])))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); req.Header.Get("webhook-signature") != want || name != all[0].ID.String() {
			t.Errorf("try %d: got id %q and signature %q, want %q", i, name, req.Header.Get("webhook-signature"), want)
		}
	}
	var d gateway.Delivery
	must(t, json.Unmarshal(r.body[2], &d, json.RejectUnknownMembers(true)))
	if d.Event != "job.finished" || d.Job != id || d.Status != job.StatusOK || string(d.Result.Stdout) != "out\n" {
		t.Errorf("got %s, want the job's end", r.body[2])
	}
	for path, token := range map[string]string{"/v1/callbacks": mine, "/v1/jobs/" + id.String(): mine} {
		if got := w.ask(asking{path: path, token: token}); strings.Contains(string(got.body), "whsec") || strings.Contains(string(got.body), "secret") {
			t.Errorf("%s shows the secret: %s", path, got.body)
		}
	}
	if got := into[gateway.Callbacks](t, w.ask(asking{path: "/v1/callbacks", token: theirs})); len(got.Callbacks) != 0 {
		t.Errorf("another tenant sees %+v", got.Callbacks)
	}
}

func TestACallbackIsGivenUp(t *testing.T) {
	t.Parallel()
	redirects, gone := receive(t, http.StatusFound), receive(t, http.StatusGone)
	w := start(t, setUp{gateway: here(gateway.CallbackConfig{Tries: 3})})
	w.submitted(fmt.Sprintf(`{"code": "return 1", "callback": {"url": %q}}`, redirects.URL), "")
	w.submitted(fmt.Sprintf(`{"code": "return 1", "callback": {"url": %q}}`, gone.URL), "")
	w.submitted(`{"code": "return 1", "callback": {"url": "http://127.0.0.1:1/"}}`, "")
	eventually(t, "three", func() bool { return len(w.callbacks("")) == 3 })
	want := map[string]int{redirects.URL: 3, gone.URL: 1, "http://127.0.0.1:1/": 3}
	for _, c := range w.callbacks("") {
		if c.State != store.CallbackGivenUp || len(c.Deliveries) != want[c.URL] {
			t.Errorf("%s: got %s after %d tries, want given_up after %d", c.URL, c.State, len(c.Deliveries), want[c.URL])
		}
		if last := c.Deliveries[len(c.Deliveries)-1]; (last.Status == 0) != (last.Error != "") || strings.Contains(last.Error, "http://") {
			t.Errorf("%s: got %+v, want either a status or an error without the URL", c.URL, last)
		}
	}
	for _, req := range redirects.got {
		if req.URL.Path != "/" || req.Header.Get("webhook-signature") != "" {
			t.Errorf("got a call of %s, signed %q; want no redirect followed, and nothing signed without a secret", req.URL.Path, req.Header.Get("webhook-signature"))
		}
	}
}

// TestABatchIsToldOnce though two gateways look.
func TestABatchIsToldOnce(t *testing.T) {
	t.Parallel()
	r := receive(t, 200)
	w := start(t, setUp{gateway: here(gateway.CallbackConfig{})})
	other, err := queue.Attach(t.Context(), w.nats.ConnectAs(string(queue.RoleGateway)), queue.Config{})
	must(t, err)
	cfg := here(gateway.CallbackConfig{})
	cfg.Queue, cfg.Store, cfg.Loopback = other, w.store, true
	second, err := gateway.New(cfg)
	must(t, err)
	ended := make(chan error, 1)
	ctx, stop := contextOf(t)
	go func() { ended <- second.Run(ctx) }()
	t.Cleanup(func() { stop(); must(t, <-ended); must(t, other.Close()) })
	path := "/v1/batches?name=b&callback=" + r.URL + "/batch"
	got := into[gateway.BatchReceipt](t, w.ask(asking{
		method: http.MethodPost, path: path, media: "application/x-ndjson", body: lines(50), header: map[string]string{"Airlock-Callback-Secret": "s"},
	}))
	for i := range 20 {
		w.submitted(fmt.Sprintf(`{"code": "return 1", "callback": {"url": "%s/%d"}}`, r.URL, i), "")
	}
	if all := w.callbacks(""); got.Accepted != 50 || len(all) != 21 {
		t.Fatalf("got %d callbacks, want 21", len(all))
	}
	ids := map[string]int{}
	for i, req := range r.got {
		ids[req.Header.Get("webhook-id")]++
		if req.URL.Path != "/batch" {
			continue
		}
		var d gateway.Delivery
		must(t, json.Unmarshal(r.body[i], &d, json.RejectUnknownMembers(true)))
		if d.Event != "batch.finished" || d.Batch != "b" || d.Summary.States[job.StateFinished] != 50 || req.Header.Get("webhook-signature") == "" {
			t.Errorf("got %s, want the batch's end, signed", r.body[i])
		}
	}
	for id, n := range ids {
		if n != 1 {
			t.Errorf("%s was told %d times", id, n)
		}
	}
	if len(ids) != 21 {
		t.Errorf("told of %d, want 21", len(ids))
	}
}

// TestCallbacksReachNoPrivateAddress by whatever name.
func TestCallbacksReachNoPrivateAddress(t *testing.T) {
	t.Parallel()
	r := receive(t, 200)
	port := r.URL[strings.LastIndex(r.URL, ":"):]
	w := start(t, setUp{gateway: gateway.Config{Callbacks: gateway.CallbackConfig{Tries: 1}}})
	body := func(url string) string { return fmt.Sprintf(`{"code": "return 1", "callback": {"url": %q}}`, url) }
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]",
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "0.0.0.0", "[::]", "224.0.0.1", "255.255.255.255", "198.18.0.1", "[fe80::1]", "[fe80::1%25lo]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "[2001::1]", "[ff02::1]",
	} {
		got := w.ask(asking{method: http.MethodPost, path: "/v1/jobs", body: body("http://" + host + port)}).refused(t, host, gateway.CodeInvalidJob, http.StatusUnprocessableEntity)
		if len(got.Errors) != 1 || got.Errors[0].Field != "callback.url" {
			t.Errorf("%s: got %+v, want callback.url named", host, got.Errors)
		}
	}
	named := []string{"localhost", "localhost.", "LOCALHOST", "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "ip6-localhost"}
	client := gateway.CallbackConfig{}.Client()
	for _, host := range named {
		w.submitted(body("http://"+host+port), "")
		resp, err := client.Get("http://" + host + port)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s was reached", host)
		}
		if host == "localhost" && !errors.Is(err, gateway.ErrAddress) {
			t.Errorf("%s: got %v, want it refused for its address", host, err)
		}
	}
	eventually(t, "all are given up", func() bool { return len(w.callbacks("")) == len(named) })
	for _, c := range w.callbacks("") {
		if c.State != store.CallbackGivenUp || c.Deliveries[0].Status != 0 || strings.Contains(c.Deliveries[0].Error, "127.0.0.1") {
			t.Errorf("%s: got %s %+v, want it given up without a word of where it led", c.URL, c.State, c.Deliveries)
		}
	}
	if n := r.calls(); n != 0 {
		t.Errorf("a private address was called %d times", n)
	}
	resp, err := gateway.CallbackConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}.Client().Get("http://localhost" + port)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("got %v for a network that is allowed", err)
	}
}

func TestBadCallbacks(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{})
	for _, callback := range []string{
		`{}`, `{"url": 1}`, `"http://x"`, `{"url": "ftp://example.org"}`, `{"url": "//example.org"}`, `{"url": "http://"}`, `{"url": "http://u:p@example.org"}`,
		`{"url": "http://example.org/#x"}`, `{"url": "http://example.org/\u0000"}`, `{"url": "http://example.org", "more": 1}`, `{"url": "http://a", "url": "http://b"}`,
		`{"url": "http://` + strings.Repeat("x", 3000) + `"}`, `{"url": "http://example.org", "secret": "` + strings.Repeat("x", 300) + `"}`,
	} {
		for _, body := range []string{`{"code": "return 1", "callback": ` + callback + `}`, `[{"code": "return 1", "callback": ` + callback + `}]`} {
			if r := w.ask(asking{method: http.MethodPost, path: "/v1/jobs", body: body}); r.status != http.StatusUnprocessableEntity && r.status != http.StatusBadRequest {
				t.Errorf("%.200s: got %d %s, want it refused", body, r.status, r.body)
			}
		}
	}
	w.ask(asking{method: http.MethodPost, path: "/v1/batches?callback=gopher://x", media: "application/x-ndjson", body: lines(1)}).refused(t, "batch", gateway.CodeBadRequest, http.StatusBadRequest)
	if got := into[gateway.Callbacks](t, w.ask(asking{path: "/v1/callbacks"})); len(got.Callbacks) != 0 {
		t.Errorf("got %+v, want none kept", got.Callbacks)
	}
	// A guest's code may speak of callbacks.
	w.submitted(`{"code": "\"callback\"", "vars": {"callback": 1}}`, "")
}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(context.Background())
}

func TestEachJobOfAnArrayHasItsOwnCallback(t *testing.T) {
	t.Parallel()
	w := start(t, setUp{noWorker: true})
	const many = 50
	var jobs []string
	for i := range many {
		jobs = append(jobs, fmt.Sprintf(`{"code": "1", "callback": {"url": "https://example.com/%d"}}`, i))
	}
	taken := into[gateway.Receipts](t, w.ask(post("/v1/jobs?park", "["+strings.Join(jobs, ",")+"]")))
	told := map[job.ID]string{}
	for _, c := range into[gateway.Callbacks](t, w.ask(asking{path: "/v1/callbacks?limit=1000"})).Callbacks {
		told[c.Job] = c.URL
	}
	for i, r := range taken.Jobs {
		if want := fmt.Sprintf("https://example.com/%d", i); told[r.ID] != want {
			t.Errorf("job %d: got callback %q, want %q", i, told[r.ID], want)
		}
	}
}
