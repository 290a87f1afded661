package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"airlock/job"
	"airlock/job/jobfile"
	"airlock/queue"
	"airlock/store"
)

const (
	// batchSubmitters is how many lines of one body are submitted at a time.
	batchSubmitters = 32
	// batchPatience is how long a line waits for room in a queue or quota
	// that is full: the client's body waits with it.
	batchPatience = time.Minute
	batchPause    = 100 * time.Millisecond
	// maxLineProblems bounds those that an answer names.
	maxLineProblems = 1000
)

// BatchReceipt says what became of a batch's lines.
type BatchReceipt struct {
	Batch    string `json:"batch"`
	Accepted int    `json:"accepted"`
	// Known counts those that were submitted before.
	Known    int `json:"known" doc:"Of those accepted, how many had been submitted before."`
	Rejected int `json:"rejected"`
	// Problems are the first thousand.
	Problems []*Problem `json:"problems,omitzero" doc:"What was wrong with rejected lines, the first thousand."`
	// Incomplete is why the body was not read to its end. Lines before it
	// were dealt with.
	Incomplete *Problem `json:"incomplete,omitzero" doc:"Why the body was not read to its end; what came before it counts."`
}

// intake is one body of lines on its way into the queue.
type intake struct {
	g    *Gateway
	park bool

	mu      sync.Mutex
	receipt BatchReceipt // guarded by mu
}

type numbered struct {
	line int
	job  *job.Job
}

// postBatch takes jobs that stand one a line, however many. Memory is bounded
// by what is on its way, and some 30 bytes a line. A line that is wrong costs
// the others nothing, and sending a body again submits nothing twice, since
// each job's key is made of its batch and content.
func (g *Gateway) postBatch(w http.ResponseWriter, r *request) error {
	if err := checkMedia(r.Request, mediaNDJSON, "application/jsonl", "application/jsonlines"); err != nil {
		return err
	}
	park, err := queryBool(r, "park")
	if err != nil {
		return err
	}
	callback, err := g.batchCallback(r)
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("name")
	if name == "" {
		name = job.NewID().String()
	}
	if !job.ValidName(name) {
		return problemf(CodeBadRequest, "name: want 1 to 64 letters, digits, _ and -")
	}
	in := &intake{g: g, park: park, receipt: BatchReceipt{Batch: name}}
	in.take(r.Context(), g.body(w, r, maxBatch), &jobfile.Parser{Tenant: r.who.tenant, Batch: name})
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	status := http.StatusAccepted
	if in.receipt.Accepted == 0 && in.receipt.Incomplete != nil {
		return in.receipt.Incomplete
	}
	if err := g.registerBatch(r.Context(), r.who.tenant, &in.receipt, callback); err != nil {
		return err
	}
	if in.receipt.Accepted > 0 {
		// Who asks about it next is to find it; if not, that is no failure.
		_, _ = settledBy(r.Context(), time.Now().Add(settleBatch), func() (job.Summary, error) {
			return g.cfg.Store.Batch(r.Context(), r.who.tenant, name)
		})
	}
	w.Header().Set("Location", "/v1/batches/"+name)
	return answer(w, status, in.receipt)
}

// maxBatch bounds one body; a batch may have several.
const maxBatch = 64 << 30

func (in *intake) take(ctx context.Context, body io.Reader, parser *jobfile.Parser) {
	group, ctx := errgroup.WithContext(ctx)
	todo := make(chan numbered)
	for range batchSubmitters {
		group.Go(func() error { return in.submitAll(ctx, todo) })
	}
	group.Go(func() error {
		defer close(todo)
		return in.read(ctx, body, parser, todo)
	})
	if err := group.Wait(); err != nil && in.receipt.Incomplete == nil {
		in.receipt.Incomplete = problemOf(err)
	}
}

// read hands on the lines that are jobs. Its error ends the intake.
func (in *intake) read(ctx context.Context, body io.Reader, parser *jobfile.Parser, todo chan<- numbered) error {
	lines := jobfile.NewReader(body)
	for number := 0; ; {
		l, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			p := *problemOf(bodyError(err))
			p.Line = number + 1
			return &p
		}
		number = l.Number
		parsed, err := parser.Parse(l)
		if err != nil {
			in.reject(l.Number, err)
			continue
		}
		select {
		case todo <- numbered{l.Number, parsed.Job}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (in *intake) submitAll(ctx context.Context, todo <-chan numbered) error {
	for next := range todo {
		receipt, err := in.submit(ctx, next.job)
		var p *Problem
		switch {
		case err == nil:
			in.accept(receipt)
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			p = problemOf(err)
		}
		in.reject(next.line, p)
		if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
			return p // the next line would fare no better
		}
	}
	return nil
}

// submit outlasts for a while what passes by itself.
func (in *intake) submit(ctx context.Context, j *job.Job) (queue.Receipt, error) {
	until := time.Now().Add(batchPatience)
	for pause := batchPause; ; pause = min(2*pause, 5*time.Second) {
		receipt, err := in.g.submit(ctx, j, in.park)
		passing := errors.Is(err, queue.ErrOverQuota) || errors.Is(err, queue.ErrQueueFull)
		if !passing || !time.Now().Before(until) {
			// An earlier try may have got through without our knowing.
			receipt.Known = receipt.Known && receipt.Job != j.ID
			return receipt, err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return queue.Receipt{}, ctx.Err()
		case <-in.g.leaving:
			return queue.Receipt{}, problemf(CodeUnavailable, "the gateway is leaving").after(shortPause)
		}
	}
}

func (in *intake) accept(r queue.Receipt) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.receipt.Accepted++
	if r.Known {
		in.receipt.Known++
	}
}

func (in *intake) reject(line int, err error) {
	p := *problemOf(err)
	p.Line = line
	in.mu.Lock()
	defer in.mu.Unlock()
	in.receipt.Rejected++
	if len(in.receipt.Problems) < maxLineProblems {
		in.receipt.Problems = append(in.receipt.Problems, &p)
	}
}

func pathBatch(r *request) (string, error) {
	name := r.PathValue("id")
	if !job.ValidName(name) {
		return "", problemf(CodeNotFound, "%q is no batch's name", job.Printable(name, 80))
	}
	return name, nil
}

func (g *Gateway) getBatch(w http.ResponseWriter, r *request) error {
	name, err := pathBatch(r)
	if err != nil {
		return err
	}
	summary, err := g.cfg.Store.Batch(r.Context(), r.who.tenant, name)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, summary)
}

// getResults lists the results of a batch, one a line. Where there may be more
// the header Link names the next page.
func (g *Gateway) getResults(w http.ResponseWriter, r *request) error {
	name, err := pathBatch(r)
	if err != nil {
		return err
	}
	limit, err := queryLimit(r, maxPage)
	if err != nil {
		return err
	}
	var after job.ID
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = job.ParseID(text); err != nil {
			return problemf(CodeBadRequest, "after: want a job's id")
		}
	}
	lines, last, err := g.resultLines(r.Context(), r.who.tenant, name, after, limit)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		if _, err := g.cfg.Store.Batch(r.Context(), r.who.tenant, name); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", mediaNDJSON)
	if !last.IsZero() {
		w.Header().Set("Link", fmt.Sprintf(`</v1/batches/%s/results?after=%s&limit=%d>; rel="next"`, name, last, limit))
	}
	_, _ = w.Write(lines) // the client has left
	return nil
}

// The bounds of a page of results: it ends with the result with which it has
// pageBytes, and no more than that is read at a time of what is known to be
// large.
const (
	pageBytes    = 8 << 20
	firstResults = 4
	mostResults  = 128
)

// resultLines encodes results, one a line. last is that of the page's last job
// where there may be more behind it.
func (g *Gateway) resultLines(ctx context.Context, tenant, batch string, after job.ID, limit int) (lines []byte, last job.ID, err error) {
	for n, step := 0, firstResults; n < limit && len(lines) < pageBytes; step = max(1, min(mostResults, pageBytes*n/len(lines))) {
		asked := min(step, limit-n)
		results, err := g.cfg.Store.BatchResults(ctx, tenant, batch, after, asked)
		if err != nil {
			return nil, job.ID{}, err
		}
		for _, r := range results {
			line, err := json.Marshal(r, json.Deterministic(true), jsontext.EscapeForHTML(true))
			if err != nil {
				return nil, job.ID{}, err
			}
			lines, after = append(append(lines, line...), '\n'), r.Job
		}
		if n += len(results); len(results) < asked {
			return lines, job.ID{}, nil
		}
	}
	return lines, after, nil
}

func (g *Gateway) deleteBatch(w http.ResponseWriter, r *request) error {
	name, err := pathBatch(r)
	if err != nil {
		return err
	}
	ctx, tenant := r.Context(), r.who.tenant
	before, err := g.cfg.Store.Batch(ctx, tenant, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// Also a batch that is not known yet: its jobs may be on their way.
	if err := g.cfg.Queue.Cancel(ctx, tenant, queue.CancelTarget{Batch: name}); err != nil {
		return err
	}
	if before.Total == 0 {
		return store.ErrNotFound
	}
	after, err := g.cfg.Store.CancelBatch(ctx, tenant, name)
	if err != nil {
		return err
	}
	already := before.States[job.StateFinished] + before.States[job.StateDead]
	ended := after[job.StateFinished] + after[job.StateDead]
	return answer(w, http.StatusAccepted, job.Cancelled{
		Already: already, Ended: max(0, ended-already), Running: after[job.StateRunning],
	})
}
