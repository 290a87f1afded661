package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"airlock/gateway"
	"airlock/job"
	"airlock/queue"
	"airlock/queue/natstest"
	"airlock/store"
	"airlock/store/storetest"
)

// patience bounds what should take milliseconds, on the busiest machine.
const patience = time.Minute

// world is a gateway before a real NATS and Postgres, with a worker that plays
// its jobs: the code of a job says what comes of it.
type world struct {
	t     *testing.T
	nats  *natstest.Server
	store *store.Store
	queue *queue.Queue // the worker's
	gw    *gateway.Gateway
	url   string
}

type setUp struct {
	queue    queue.Config
	gateway  gateway.Config
	public   bool
	noWorker bool
	// play, if set, is what the worker does instead.
	play     func(w *world, ctx context.Context, d job.Delivery)
	postgres string
}

func start(t *testing.T, with setUp) *world {
	t.Helper()
	w := &world{t: t, nats: natstest.Start(t)}
	if with.postgres == "" {
		with.postgres = storetest.URL(t)
	}
	w.store = storetest.OpenURL(t, with.postgres)
	with.queue.Log, with.queue.MemoryStorage = storetest.Log(t), true
	var err error
	w.queue, err = queue.Open(t.Context(), w.nats.ConnectAs(string(queue.RoleWorker)), with.queue)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var group errgroup.Group
	if !with.noWorker {
		w.work(ctx, &group, with.play)
	}
	attached, err := queue.Attach(t.Context(), w.nats.ConnectAs(string(queue.RoleGateway)), queue.Config{Log: storetest.Log(t)})
	must(t, err)
	cfg := with.gateway
	cfg.Queue, cfg.Store, cfg.Log, cfg.Loopback = attached, w.store, storetest.Log(t), !with.public
	w.gw, err = gateway.New(cfg)
	must(t, err)
	group.Go(func() error { return w.gw.Run(ctx) })
	server := httptest.NewServer(w.gw)
	w.url = server.URL
	t.Cleanup(func() {
		server.Close()
		stop()
		if err := group.Wait(); err != nil {
			t.Errorf("end: %v", err)
		}
		must(t, attached.Close())
		must(t, w.queue.Close())
	})
	return w
}

// work serves the lane of jobs that ask for nothing.
func (w *world) work(ctx context.Context, group *errgroup.Group, play func(*world, context.Context, job.Delivery)) {
	if play == nil {
		play = (*world).play
	}
	offer := job.Offer{Backend: "fake", Isolation: job.IsolationStrong, OS: "linux", Arch: "amd64", Limits: job.KernelLimits()}
	here := queue.Presence{ID: "played", Host: "here", Slots: 8, Offers: []job.Offer{offer}}
	must(w.t, w.queue.Advertise(ctx, here))
	group.Go(func() error {
		for ctx.Err() == nil {
			_ = w.queue.Advertise(ctx, here) // the server may be away
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
		return nil
	})
	group.Go(func() error { return w.queue.Record(ctx, w.store.RecordQueued) })
	group.Go(func() error {
		return w.queue.Consume(ctx, queue.ConsumerConfig{
			Slots: 8, Offers: func() []job.Offer { return []job.Offer{offer} }, Handler: func(ctx context.Context, d job.Delivery) { play(w, ctx, d) },
		})
	})
}

// play claims a job and ends it as its code says.
func (w *world) play(ctx context.Context, d job.Delivery) {
	claim, ok := w.claim(ctx, d)
	if !ok {
		return
	}
	r := outcome(d.Job)
	if strings.HasPrefix(d.Job.Code, "sleep") {
		for until := time.Now().Add(patience); !w.queue.Cancelled(d.Job.Tenant, d.Job) && ctx.Err() == nil && time.Now().Before(until); {
			time.Sleep(5 * time.Millisecond)
		}
		r.Status = job.StatusCancelled
	}
	r.Attempt, r.Finished = claim.Attempt, time.Now().UTC()
	w.finish(ctx, d, r)
}

// claim takes a delivery, unless it needs no run.
func (w *world) claim(ctx context.Context, d job.Delivery) (claim job.Claim, ok bool) {
	err := insist(ctx, func() (err error) {
		claim, err = w.store.Claim(ctx, job.ClaimRequest{Job: d.Job, Generation: d.Generation, Worker: "played", Backend: "fake", Queued: d.Queued})
		return err
	})
	if err == nil && claim.Verdict == job.Ended {
		_ = d.Ack(ctx)
	}
	return claim, err == nil && claim.Verdict == job.Claimed
}

// finish brings a job to its end.
func (w *world) finish(ctx context.Context, d job.Delivery, r *job.Result) {
	err := insist(ctx, func() error {
		return w.store.Finish(ctx, &job.Attempt{Job: d.Job, Number: r.Attempt, Worker: "played"}, r, 0)
	})
	if err != nil {
		w.t.Logf("finish: %v", err)
		return
	}
	_ = d.Ack(ctx)
	_ = w.queue.Announce(ctx, r)
}

// insist tries again while the database is away, or slow, as a worker does.
func insist(ctx context.Context, act func() error) error {
	for {
		err := act()
		if !errors.Is(err, job.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func outcome(j *job.Job) *job.Result {
	zero := 0
	r := &job.Result{
		Job: j.ID, Tenant: j.Tenant, Batch: j.Batch, Status: job.StatusOK, Value: jsontext.Value(`"done"`), Stdout: job.Bytes("out\n"),
		StdoutBytes: 4, ExitCode: &zero, Worker: "played", Backend: "fake",
		Usage: job.Usage{Wall: job.Duration(1500 * time.Microsecond), PeakMemory: 3 * job.MiB},
	}
	switch j.Code {
	case "timeout":
		r.Status, r.ExitCode, r.Error = job.StatusTimeout, nil, &job.Error{Type: "timeout", Message: "ran longer than 1s"}
	case "memory":
		r.Status, r.ExitCode = job.StatusMemoryLimit, nil
	case "raise":
		one := 1
		r.Status, r.ExitCode, r.Error = job.StatusGuestError, &one, &job.Error{Type: "ValueError", Message: "no", Traceback: "Traceback …\nValueError: no\n"}
	case "exit 3":
		three := 3
		r.Status, r.ExitCode = job.StatusGuestError, &three
	case "large":
		r.Stdout, r.StdoutBytes = bytes.Repeat([]byte("x"), 3<<20), 3<<20
	case "huge":
		r.Stdout, r.StdoutBytes = bytes.Repeat([]byte("x"), 16<<20), 16<<20
	case "leave":
		r.Status, r.Value = job.StatusNoResult, nil
	case "hostile":
		r.Stdout, r.Stderr = job.Bytes("\x1b]0;title\x07\xff\r\n\u202edata: {}\n\n"), job.Bytes("event: x\n")
		r.Value = jsontext.Value(`{"<script>":"\u2028\u0000"}`)
	case "segv":
		r.Status, r.ExitCode, r.Signal = job.StatusGuestError, nil, "SIGSEGV"
	case "die":
		r.Status, r.Error = job.StatusInfraError, &job.Error{Type: "gone", Message: "the sandbox could not be made"}
	}
	return r
}

// token makes one of the tenant.
func (w *world) token(tenant string, scopes ...store.Scope) string {
	w.t.Helper()
	if len(scopes) == 0 {
		scopes = store.Scopes()
	}
	text, token := gateway.NewToken(tenant, scopes, "test", time.Time{})
	must(w.t, w.store.AddToken(w.t.Context(), "test", token))
	return text
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   []byte
}

type asking struct {
	method, path, media, body, token string
	header                           map[string]string
}

func (w *world) ask(a asking) reply {
	w.t.Helper()
	if a.method == "" {
		a.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(w.t.Context(), a.method, w.url+a.path, strings.NewReader(a.body))
	must(w.t, err)
	if a.body != "" || a.media != "" {
		if a.media == "" {
			a.media = "application/json"
		}
		req.Header.Set("Content-Type", a.media)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	for name, value := range a.header {
		req.Header.Set(name, value)
	}
	if host, ok := a.header["Host"]; ok {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	must(w.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(w.t, err)
	return reply{resp.StatusCode, resp.Header, body}
}

// into decodes the reply's body.
func into[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal(r.body, &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("got %d %q, want a %T: %v", r.status, r.body, v, err)
	}
	return v
}

// refused reports a reply that is not the problem.
func (r reply) refused(t *testing.T, what string, code gateway.Code, status int) gateway.Problem {
	t.Helper()
	if got := r.header.Get("Content-Type"); r.status != status || got != "application/problem+json" {
		t.Fatalf("%s: got %d %s %q, want a problem of status %d", what, r.status, got, r.body, status)
	}
	p := into[gateway.Problem](t, r)
	if p.Code != code || p.Status != status || p.Title == "" || p.Type == "" {
		t.Errorf("%s: got %+v, want code %s", what, p, code)
	}
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("still not: %s", what)
		}
	}
}
