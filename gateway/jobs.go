package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

const (
	// maxJobs is how many jobs one array may hold; more go into a batch.
	maxJobs = 1000
	// maxHeld bounds the results that the answer to an array has.
	maxHeld = 64 << 20
	// maxWait is how long a request may wait for its jobs.
	maxWait = 5 * time.Minute
)

// Receipt says what became of a job that was submitted.
type Receipt struct {
	ID   job.ID `json:"id"`
	Lane string `json:"lane,omitzero"`
	// Known is set when the same content was submitted under the same key.
	Known  bool        `json:"known,omitzero" doc:"The same content was submitted under this key before."`
	Result *job.Result `json:"result,omitzero" doc:"There when the job ended within the wait. Of an array's results only the first 64 MiB are: ask for the others by their id."`
	// Problem is there when this job of an array was not taken.
	Problem *Problem `json:"problem,omitzero" doc:"There when this job of an array was not taken."`
}

// Receipts are those of an array, in its order.
type Receipts struct {
	Jobs []Receipt `json:"jobs"`
}

// View is where a job stands.
type View struct {
	Job    job.Record  `json:"job"`
	Result *job.Result `json:"result,omitzero" doc:"There when the job has ended."`
}

// postJobs takes one job, or an array of them of which each must be right for
// any to be taken.
func (g *Gateway) postJobs(w http.ResponseWriter, r *request) error {
	opt, err := submitOptions(r)
	if err != nil {
		return err
	}
	body, err := g.read(w, r, maxBody, mediaJSON)
	if err != nil {
		return err
	}
	if jsontext.Value(bytes.TrimLeft(body, " \t\r\n")).Kind() == '[' {
		return g.postArray(w, r, body, opt)
	}
	body, opt.callback, err = g.takeCallback(body)
	if err != nil {
		return err
	}
	j, err := job.Decode(body)
	if err != nil {
		return err
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if j.Key != "" && j.Key != key {
			return problemf(CodeBadRequest, "Idempotency-Key and the job's key are different")
		}
		j.Key = key
	}
	if err := adopt(j, r.who.tenant); err != nil {
		return err
	}
	receipt, err := g.runOne(r.Context(), j, opt)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/jobs/"+receipt.ID.String())
	return answer(w, took(receipt), receipt)
}

func took(receipts ...Receipt) int {
	for _, r := range receipts {
		if r.Result == nil {
			return http.StatusAccepted
		}
	}
	return http.StatusOK
}

func (g *Gateway) postArray(w http.ResponseWriter, r *request, body []byte, opt options) error {
	jobs, callbacks, err := g.decodeArray(body, r.who.tenant)
	if err != nil {
		return err
	}
	if r.Header.Get("Idempotency-Key") != "" {
		return problemf(CodeBadRequest, "Idempotency-Key is for one job: give those of an array their key in the field key")
	}
	receipts := make([]Receipt, len(jobs))
	var held atomic.Int64
	var running sync.WaitGroup
	for i, j := range jobs {
		own := opt
		own.callback = callbacks[i]
		running.Go(func() {
			var err error
			if receipts[i], err = g.runOne(r.Context(), j, own); err != nil {
				receipts[i].Problem = problemOf(err)
			}
			if res := receipts[i].Result; res != nil && held.Add(int64(len(res.Stdout)+len(res.Stderr)+len(res.Value))) > maxHeld {
				receipts[i].Result = nil
			}
		})
	}
	running.Wait()
	return answer(w, took(receipts...), Receipts{receipts})
}

// decodeArray reads and checks all jobs of an array, and says of each what is
// wrong with it.
func (g *Gateway) decodeArray(body []byte, tenant string) ([]*job.Job, []*Callback, error) {
	if err := job.CheckJSON(body); err != nil {
		return nil, nil, badBody(err)
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, nil, problemf(CodeBadRequest, "the body is neither a job nor an array of jobs")
	}
	if len(raw) == 0 || len(raw) > maxJobs {
		return nil, nil, problemf(CodeBadRequest, "the array holds %d jobs: send 1 to %d, or POST /v1/batches", len(raw), maxJobs)
	}
	jobs, callbacks, wrong := make([]*job.Job, len(raw)), make([]*Callback, len(raw)), []FieldDetail{}
	for i, one := range raw {
		j, callback, err := g.decodeOne(one, tenant)
		var field *job.FieldError
		switch {
		case errors.As(err, &field):
			wrong = append(wrong, FieldDetail{at(i, field.Field), field.Reason})
		case err != nil:
			return nil, nil, err
		}
		jobs[i], callbacks[i] = j, callback
	}
	if len(wrong) > 0 {
		return nil, nil, problemf(CodeInvalidJob, "%d of %d jobs are wrong, none was taken", len(wrong), len(raw)).with(wrong...)
	}
	return jobs, callbacks, nil
}

func (g *Gateway) decodeOne(body []byte, tenant string) (*job.Job, *Callback, error) {
	body, callback, err := g.takeCallback(body)
	if err != nil {
		return nil, nil, err
	}
	j, err := job.Decode(body)
	if err == nil {
		err = adopt(j, tenant)
	}
	return j, callback, err
}

func at(i int, field string) string {
	if field == "" {
		return fmt.Sprintf("[%d]", i)
	}
	return fmt.Sprintf("[%d].%s", i, field)
}

// options are how jobs are submitted.
type options struct {
	park bool
	wait time.Duration
	// leash has a job cancelled whose client leaves while it waits.
	leash bool
	// callback is told of the job's end.
	callback *Callback
}

func submitOptions(r *request) (o options, err error) {
	if o.park, err = queryBool(r, "park"); err != nil {
		return o, err
	}
	if o.leash, err = queryBool(r, "cancel_on_disconnect"); err != nil {
		return o, err
	}
	o.wait, err = queryWait(r)
	return o, err
}

// queryWait is how long a request may wait; 0 is not at all.
func queryWait(r *request) (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, problemf(CodeBadRequest, "wait: want a time such as 10s, at most %s", maxWait)
	}
	return wait, nil
}

func queryBool(r *request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return r.URL.Query().Has(name), nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, problemf(CodeBadRequest, "%s: want true or false", name)
	}
	return v, nil
}

// runOne submits a prepared job, and waits for its result as opt says.
func (g *Gateway) runOne(ctx context.Context, j *job.Job, opt options) (Receipt, error) {
	waiting, done := g.waiters.add(j.Tenant, j.ID)
	defer func() { done() }()
	receipt, err := g.accept(ctx, j, opt)
	if err != nil {
		if ctx.Err() != nil && opt.leash {
			g.letGo(ctx, j.Tenant, j.ID) // the queue may have it all the same
		}
		return receipt, err
	}
	if receipt.Known {
		done()
		waiting, done = g.waiters.add(j.Tenant, receipt.ID)
		waiting.news <- nil // it may have ended: look
	}
	if opt.wait == 0 {
		return receipt, nil
	}
	limited, cancel := context.WithTimeout(ctx, opt.wait)
	defer cancel()
	receipt.Result, err = g.await(limited, waiting)
	if ctx.Err() != nil && opt.leash && receipt.Result == nil {
		g.letGo(ctx, j.Tenant, receipt.ID)
	}
	return receipt, err
}

// accept puts a job into the queue and keeps its callback.
func (g *Gateway) accept(ctx context.Context, j *job.Job, opt options) (Receipt, error) {
	taken, err := g.submit(ctx, j, opt.park)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{ID: taken.Job, Lane: taken.Lane, Known: taken.Known}, g.register(ctx, j.Tenant, taken.Job, opt.callback)
}

// letGo cancels a job that nobody waits for any more.
func (g *Gateway) letGo(ctx context.Context, tenant string, id job.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTime)
	defer cancel()
	if err := g.cfg.Queue.Cancel(ctx, tenant, queue.CancelTarget{Job: id}); err != nil {
		g.cfg.Log.Warn().Err(err).Stringer("job", id).Msg("job of a client that left not cancelled")
	}
}

func (g *Gateway) getJob(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	wait, err := queryWait(r)
	if err != nil {
		return err
	}
	view, err := g.view(r.Context(), r.who.tenant, id, wait)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, view)
}

// view is where a job stands when it has ended, or after the wait.
func (g *Gateway) view(ctx context.Context, tenant string, id job.ID, wait time.Duration) (view View, err error) {
	read := func() (job.Record, error) { return g.cfg.Store.Job(ctx, tenant, id) }
	// Before the history is read, so that an end does not fall between.
	waiting, done := g.waiters.add(tenant, id)
	defer done()
	view.Job, err = settled(ctx, id, read)
	if err == nil && wait > 0 && !view.Job.State.Ended() {
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if view.Result, err = g.await(limited, waiting); err == nil {
			view.Job, err = read()
		}
	}
	if err == nil && view.Job.State.Ended() && view.Result == nil {
		view.Result, err = g.cfg.Store.Result(ctx, tenant, id)
	}
	return view, err
}

// pathID is the job that the path names. What is no id names no job.
func pathID(r *request) (job.ID, error) {
	id, err := job.ParseID(r.PathValue("id"))
	if err != nil {
		return id, problemf(CodeNotFound, "%q is no job's id", job.Printable(r.PathValue("id"), 80))
	}
	return id, nil
}

func (g *Gateway) getCalls(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	calls, err := settled(r.Context(), id, func() ([]job.Call, error) { return g.cfg.Store.Calls(r.Context(), r.who.tenant, id) })
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, Calls{calls})
}

// Calls are the audit of a job's tool calls.
type Calls struct {
	Calls []job.Call `json:"calls"`
}

// Records are where jobs stand.
type Records struct {
	Jobs []job.Record `json:"jobs"`
}

func (g *Gateway) getJobs(w http.ResponseWriter, r *request) error {
	f, err := filter(r)
	if err != nil {
		return err
	}
	jobs, err := g.cfg.Store.History(r.Context(), r.who.tenant, f)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, Records{jobs})
}

func filter(r *request) (f job.Filter, err error) {
	q := r.URL.Query()
	f.Batch = q.Get("batch")
	if text := q.Get("status"); text != "" {
		if err := f.Status.UnmarshalText([]byte(text)); err != nil {
			return f, problemf(CodeBadRequest, "status: %s", err)
		}
	}
	if text := q.Get("since"); text != "" {
		if f.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return f, problemf(CodeBadRequest, "since: want a time such as 2026-01-31T00:00:00Z")
		}
	}
	if text := q.Get("before"); text != "" {
		if f.Before, err = job.ParseID(text); err != nil {
			return f, problemf(CodeBadRequest, "before: want a job's id")
		}
	}
	f.Limit, err = queryLimit(r, 100)
	return f, err
}

// maxPage is how much one answer lists.
const maxPage = 1000

func queryLimit(r *request, usual int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, problemf(CodeBadRequest, "limit: want 1 to %d", maxPage)
	}
	return n, nil
}

func (g *Gateway) deleteJob(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	before, err := settled(ctx, id, func() (job.Record, error) { return g.cfg.Store.Job(ctx, r.who.tenant, id) })
	if err != nil {
		return err
	}
	if before.State.Ended() {
		return answer(w, http.StatusOK, job.Cancelled{Already: 1})
	}
	if err := g.cfg.Queue.Cancel(ctx, r.who.tenant, queue.CancelTarget{Job: id}); err != nil {
		return err
	}
	state, err := g.cfg.Store.Cancel(ctx, r.who.tenant, id)
	if err != nil {
		return err
	}
	if state.Ended() {
		return answer(w, http.StatusOK, job.Cancelled{Ended: 1})
	}
	return answer(w, http.StatusAccepted, job.Cancelled{Running: 1})
}

func (g *Gateway) requeueJob(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	again, err := g.cfg.Store.Requeue(ctx, r.who.tenant, id)
	if errors.Is(err, store.ErrNotDead) {
		return problemf(CodeConflict, "job %s is not dead", id)
	}
	if err != nil {
		return err
	}
	detail := map[string]any{"job": id.String()}
	if err := g.cfg.Store.RecordAct(ctx, r.who.name, "job.requeue", r.who.tenant, detail); err != nil {
		return err
	}
	// If this publish is lost the reconciler finds the row and repeats it.
	if err := g.cfg.Queue.Republish(ctx, again); err != nil {
		return err
	}
	if err := g.cfg.Store.Republished(ctx, id, again.Generation); err != nil {
		return err
	}
	return answer(w, http.StatusAccepted, Requeued{again.Generation})
}

// Requeued says that a dead job has all its tries anew.
type Requeued struct {
	Generation int `json:"generation"`
}
