package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/store"
)

// Callback is where to tell of the end of a job.
type Callback struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitzero" doc:"What deliveries are signed with; whsec_ and base64, or any text. Without one they are not signed."`
}

const (
	maxCallbackURL    = 2048
	maxCallbackSecret = 256
	headerSecret      = "Airlock-Callback-Secret"
)

// callbackText is of the routes that take callbacks.
const callbackText = "the URL is sent a POST with the end in JSON (event, job, batch, status, result without its large parts), signed as Standard Webhooks describes " +
	"(webhook-id, webhook-timestamp, webhook-signature), up to ten times in some six hours until it answers 2xx. It may come twice: webhook-id is then the same. Private addresses are refused."

// JobRequest is a job as it is submitted over HTTP, for the description.
type JobRequest struct {
	job.Job
	Callback *Callback `json:"callback,omitzero" doc:"What is told of the job's end."`
}

// takeCallback parts a job from its callback, if it has one.
func (g *Gateway) takeCallback(body []byte) (rest []byte, c *Callback, err error) {
	if !bytes.Contains(body, []byte(`"callback"`)) {
		return body, nil, nil
	}
	if err := job.CheckJSON(body); err != nil {
		return nil, nil, err
	}
	var parts map[string]jsontext.Value
	if err := json.Unmarshal(body, &parts); err != nil || parts["callback"] == nil {
		return body, nil, nil // the job's own decoder says what is wrong, or it is only text in the job
	}
	if err := job.DecodeStrict(parts["callback"], &c); err != nil || c == nil {
		return nil, nil, &job.FieldError{Field: "callback", Reason: "want an object with url and, if it is to be signed, secret"}
	}
	delete(parts, "callback")
	if rest, err = json.Marshal(parts, json.Deterministic(true)); err != nil {
		return nil, nil, err
	}
	return rest, c, g.checkCallback("callback.", c)
}

// checkCallback refuses at once what could never be delivered. Where a name
// leads is looked at when it is called.
func (g *Gateway) checkCallback(field string, c *Callback) error {
	wrong := func(name, reason string) error { return &job.FieldError{Field: field + name, Reason: reason} }
	u, err := url.Parse(c.URL)
	switch {
	case len(c.URL) > maxCallbackURL:
		return wrong("url", "is longer than 2048 bytes")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return wrong("url", "want an address that begins with https:// or http://")
	case u.User != nil || u.Fragment != "":
		return wrong("url", "holds a user or a fragment: leave them out")
	case job.Printable(c.URL, maxCallbackURL) != c.URL:
		return wrong("url", "holds what cannot be printed")
	case len(c.Secret) > maxCallbackSecret:
		return wrong("secret", "is longer than 256 bytes")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !g.cfg.Callbacks.allows(addr) {
		return wrong("url", "leads to an address that callbacks may not be sent to")
	}
	return nil
}

// key is what signs: of the form whsec_… what it stands for.
func (c *Callback) key() []byte {
	if coded, ok := strings.CutPrefix(c.Secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(coded); err == nil {
			return key
		}
	}
	return []byte(c.Secret)
}

// batchCallback is what a batch's request asks for.
func (g *Gateway) batchCallback(r *request) (*Callback, error) {
	to := r.URL.Query().Get("callback")
	if to == "" {
		return nil, nil
	}
	c := &Callback{URL: to, Secret: r.Header.Get(headerSecret)}
	return c, badBody(g.checkCallback("callback.", c))
}

const (
	// firstLook is when a job is looked at that may have ended before its
	// callback was kept; a batch has longer, to reach the history.
	firstLook      = time.Second
	firstBatchLook = 3 * time.Second
)

// register keeps the callback of a job that is in the queue.
func (g *Gateway) register(ctx context.Context, tenant string, id job.ID, c *Callback) error {
	if c == nil {
		return nil
	}
	kept := store.Callback{ID: job.NewID(), Tenant: tenant, Job: id, URL: c.URL, Secret: c.key()}
	g.pending.add(id, kept.ID)
	return g.cfg.Store.AddCallback(ctx, kept, firstLook)
}

func (g *Gateway) registerBatch(ctx context.Context, tenant string, batch *BatchReceipt, c *Callback) error {
	if c == nil || batch.Accepted == 0 {
		return nil
	}
	return g.cfg.Store.AddCallback(ctx, store.Callback{
		ID: job.NewID(), Tenant: tenant, Batch: batch.Batch, Expected: batch.Accepted - batch.Known, URL: c.URL, Secret: c.key(),
	}, firstBatchLook)
}

// pending are the callbacks of jobs that were submitted here, to be told as
// soon as these have ended. Those that are not among them are looked at now and
// then.
type pending struct {
	mu    sync.Mutex
	byJob map[job.ID]job.ID // guarded by mu
	older map[job.ID]job.ID // guarded by mu; those of before byJob was full
	ready []job.ID          // guarded by mu
	wake  chan struct{}
}

// maxPending bounds those that are remembered: of more, the oldest half is
// forgotten. So go those too whose end was missed.
const maxPending = 100_000

func (p *pending) add(of, callback job.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.byJob) >= maxPending/2 {
		p.byJob, p.older = map[job.ID]job.ID{}, p.byJob
	}
	p.byJob[of] = callback
}

func (p *pending) ended(of job.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	callback, ok := p.byJob[of]
	if !ok {
		if callback, ok = p.older[of]; !ok {
			return
		}
	}
	delete(p.byJob, of)
	delete(p.older, of)
	p.ready = append(p.ready, callback)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pending) take() []job.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	ready := p.ready
	p.ready = nil
	return ready
}

// Callbacks are a tenant's, with how they went.
type Callbacks struct {
	Callbacks []CallbackRecord `json:"callbacks"`
}

// CallbackRecord is one callback. Its secret is never shown.
type CallbackRecord struct {
	ID         job.ID              `json:"id"`
	Job        job.ID              `json:"job,omitzero"`
	Batch      string              `json:"batch,omitzero"`
	URL        string              `json:"url"`
	State      store.CallbackState `json:"state" doc:"waiting, due, delivered or given_up."`
	Created    time.Time           `json:"created"`
	Next       time.Time           `json:"next,omitzero" doc:"When it is looked at, or tried, again."`
	Ended      time.Time           `json:"ended,omitzero"`
	Deliveries []DeliveryRecord    `json:"deliveries,omitzero"`
}

// DeliveryRecord is one try.
type DeliveryRecord struct {
	Number int          `json:"number"`
	At     time.Time    `json:"at"`
	Took   job.Duration `json:"took"`
	Status int          `json:"status,omitzero" doc:"What was answered."`
	Error  string       `json:"error,omitzero" doc:"Why nothing was."`
}

func (g *Gateway) getCallbacks(w http.ResponseWriter, r *request) error {
	limit, err := queryLimit(r, 100)
	if err != nil {
		return err
	}
	list, err := g.cfg.Store.Callbacks(r.Context(), r.who.tenant, limit)
	if err != nil {
		return err
	}
	out := Callbacks{Callbacks: []CallbackRecord{}}
	for _, c := range list {
		record := CallbackRecord{ID: c.ID, Job: c.Job, Batch: c.Batch, URL: c.URL, State: c.State, Created: c.Created, Next: c.Next, Ended: c.Ended}
		if !c.Ended.IsZero() {
			record.Next = time.Time{}
		}
		for _, d := range c.Deliveries {
			record.Deliveries = append(record.Deliveries, DeliveryRecord{d.Number, d.At, job.Duration(d.Took), d.Status, d.Error})
		}
		out.Callbacks = append(out.Callbacks, record)
	}
	return answer(w, http.StatusOK, out)
}
