package gateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
	"airlock/store"
)

const (
	// deliverEvery is how often is looked for callbacks to tell.
	deliverEvery = time.Second
	// maxLook bounds the wait until a job or batch that has not ended is looked
	// at again; it grows with how long that takes.
	maxLook = time.Minute
	// unknownFor is how long something may be unknown before it is given up.
	unknownFor = 24 * time.Hour
	// callbacksKept is how long what was delivered, or given up, is listed.
	callbacksKept = 7 * 24 * time.Hour
	dropEvery     = time.Hour
	maxAnswer     = 64 << 10
)

// Delivery is the body of a callback.
type Delivery struct {
	Event  string     `json:"event" doc:"job.finished or batch.finished."`
	Job    job.ID     `json:"job,omitzero"`
	Batch  string     `json:"batch,omitzero"`
	Status job.Status `json:"status,omitzero" doc:"The job's."`
	// Result lacks what Omitted names.
	Result  *job.Result  `json:"result,omitzero"`
	Omitted []string     `json:"omitted,omitzero"`
	Summary *job.Summary `json:"summary,omitzero" doc:"The batch's."`
}

// deliver tells of ends until ctx ends. Any gateway does, and no two the same.
func (g *Gateway) deliver(ctx context.Context) error {
	client := g.cfg.Callbacks.client()
	tick := time.NewTicker(deliverEvery)
	defer tick.Stop()
	at := newPlaces()
	var telling sync.WaitGroup
	defer telling.Wait()
	begin := func(c store.Callback) {
		telling.Go(func() {
			defer at.leave(c)
			if err := g.tell(ctx, client, c); err != nil && ctx.Err() == nil {
				g.cfg.Log.Warn().Err(err).Stringer("callback", c.ID).Msg("callback not told; tried again when its lease is over")
			}
		})
	}
	var dropped time.Time
	for quiet := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-g.pending.wake:
		case <-at.freed:
		}
		err := g.deliverDue(ctx, at, begin)
		if err == nil && time.Since(dropped) > dropEvery {
			dropped = time.Now()
			err = g.cfg.Store.DropCallbacks(ctx, time.Now().Add(-callbacksKept))
		}
		if err != nil && ctx.Err() == nil && !quiet {
			g.cfg.Log.Warn().Err(err).Msg("callbacks not looked at; tried again each second")
		}
		quiet = err != nil
	}
}

// deliverDue begins with all that is due now and has a place.
func (g *Gateway) deliverDue(ctx context.Context, at *places, begin func(store.Callback)) error {
	if ready := g.pending.take(); len(ready) > 0 {
		if err := g.cfg.Store.CallbacksDue(ctx, ready); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		free, full := at.room()
		if free == 0 {
			return nil
		}
		due, err := g.cfg.Store.TakeCallbacks(ctx, free, 2*g.cfg.Callbacks.Patience+10*time.Second, full)
		if err != nil || len(due) == 0 {
			return err
		}
		var back []store.Callback
		for _, c := range due {
			if !at.take(c) {
				back = append(back, c)
				continue
			}
			begin(c)
		}
		if len(back) == 0 {
			continue
		}
		if err := g.cfg.Store.ReturnCallbacks(ctx, back); err != nil {
			return err
		}
	}
	return nil
}

// tell looks whether the end has come, and tries to tell of it.
func (g *Gateway) tell(ctx context.Context, client *http.Client, c store.Callback) error {
	body, err := g.deliveryOf(ctx, c)
	switch {
	case errors.Is(err, store.ErrNotFound) && time.Since(c.Created) > unknownFor:
		return g.cfg.Store.NoteDelivery(ctx, c.ID, store.Delivery{Number: c.Attempts + 1, Error: "nothing is known of it"}, store.CallbackGivenUp, 0)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case body == nil:
		return g.cfg.Store.PostponeCallback(ctx, c, min(max(time.Since(c.Created)/10, firstLook), maxLook))
	}
	if ours, err := g.cfg.Store.TellCallback(ctx, c); err != nil || !ours {
		return err
	}
	d := store.Delivery{Number: c.Attempts + 1}
	began := time.Now()
	d.Status, err = g.post(ctx, client, c, body)
	d.Took = time.Since(began)
	if ctx.Err() != nil {
		return nil // it is tried again when its lease is over
	}
	d.Error = reason(err)
	state, again := g.judge(d)
	g.cfg.Log.Info().Stringer("callback", c.ID).Int("try", d.Number).Int("status", d.Status).Str("state", string(state)).Msg("callback tried")
	return g.cfg.Store.NoteDelivery(ctx, c.ID, d, state, again)
}

// judge says where a callback stands after a try.
func (g *Gateway) judge(d store.Delivery) (store.CallbackState, time.Duration) {
	switch {
	case d.Status >= 200 && d.Status < 300:
		return store.CallbackDelivered, 0
	case d.Number >= g.cfg.Callbacks.Tries || d.Status == http.StatusGone:
		return store.CallbackGivenUp, 0
	}
	pause := g.cfg.Callbacks.Pause
	for n := 1; n < d.Number && pause < maxPause; n++ {
		pause *= 3
	}
	pause = min(pause, maxPause)
	return store.CallbackDue, pause*4/5 + rand.N(pause*2/5+1)
}

// deliveryOf is the body of a callback whose end has come; nil while it has not.
func (g *Gateway) deliveryOf(ctx context.Context, c store.Callback) ([]byte, error) {
	var d *Delivery
	var err error
	if c.Batch != "" {
		d, err = g.batchDelivery(ctx, c)
	} else {
		d, err = g.jobDelivery(ctx, c)
	}
	if err != nil || d == nil {
		return nil, err
	}
	return json.Marshal(d, json.Deterministic(true))
}

func (g *Gateway) jobDelivery(ctx context.Context, c store.Callback) (*Delivery, error) {
	r, err := g.cfg.Store.Result(ctx, c.Tenant, c.Job)
	if err != nil {
		return nil, err // ErrNotFound while it has not ended
	}
	d := &Delivery{Event: "job.finished", Job: c.Job, Batch: r.Batch, Status: r.Status}
	d.Result, d.Omitted = brief(r)
	return d, nil
}

func (g *Gateway) batchDelivery(ctx context.Context, c store.Callback) (*Delivery, error) {
	counts, err := g.cfg.Store.Batch(ctx, c.Tenant, c.Batch)
	if err != nil || counts.Total < c.Expected || !allEnded(counts) {
		return nil, err
	}
	return &Delivery{Event: "batch.finished", Batch: c.Batch, Summary: &counts}, nil
}

// post makes one try, and returns the status that was answered.
func (g *Gateway) post(ctx context.Context, client *http.Client, c store.Callback, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", mediaJSON)
	req.Header.Set("User-Agent", "airlock")
	req.Header.Set("Webhook-Id", c.ID.String())
	req.Header.Set("Webhook-Timestamp", stamp)
	if len(c.Secret) > 0 {
		req.Header.Set("Webhook-Signature", "v1,"+sign(c.Secret, c.ID.String(), stamp, body))
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // what it says besides does not matter
	return resp.StatusCode, nil
}

// sign is the signature that Standard Webhooks describes.
func sign(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, stamp)
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// reason is an error without the URL, which may hold what is not for logs.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, errAddress) {
		return errAddress.Error()
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return job.Printable(err.Error(), 300)
}
