package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"airlock/job"
	"airlock/store"
)

const (
	// endsPage is how many ends of jobs are read at a time.
	endsPage = 500
	// roundPause is the least between two looks at a batch; it is more where a
	// look takes long, so that looking takes a twentieth of the time at most.
	roundPause = time.Second
	roundShare = 20
	// lagPause is when ends are in order of which was just known.
	lagPause = 1250 * time.Millisecond
)

// batchFollower sends how the jobs of one batch end, in that order, and how
// many stand where.
type batchFollower struct {
	g             *Gateway
	tenant, batch string
	heard         *listener
	out           *eventStream

	at       store.EndMark
	progress job.Summary
	// complete: all jobs had ended when they were last counted.
	complete bool
}

func markID(m store.EndMark) string { return fmt.Sprintf("%d-%s", m.At.UnixMicro(), m.Job) }

func parseMark(id string) (m store.EndMark, ok bool) {
	micros, rest, _ := strings.Cut(id, "-")
	at, err := strconv.ParseUint(micros, 10, 53)
	if err != nil {
		return m, false
	}
	m.Job, err = job.ParseID(rest)
	m.At = time.UnixMicro(int64(at)).UTC()
	return m, err == nil
}

func (g *Gateway) followBatch(w http.ResponseWriter, r *request) error {
	f := &batchFollower{g: g, tenant: r.who.tenant, batch: r.PathValue("id")}
	if last := resumeFrom(r); last != "" {
		var ok bool
		if f.at, ok = parseMark(last); !ok {
			return problemf(CodeBadRequest, "Last-Event-ID: %q is no id of a batch's event", job.Printable(last, 80))
		}
	}
	ctx := r.Context()
	f.heard = g.hub.followBatch(f.tenant, f.batch)
	defer f.heard.leave()
	named, _ := job.ParseID(f.batch) // zero for a name that somebody chose
	counts, err := settled(ctx, named, func() (job.Summary, error) { return g.cfg.Store.Batch(ctx, f.tenant, f.batch) })
	if err != nil {
		return err
	}
	if gone, err := f.nothingLeft(ctx, counts); gone || err != nil {
		if gone {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	f.out = g.openStream(w)
	defer f.out.flush()
	f.run(ctx)
	return nil
}

// nothingLeft reports whether a client has all there is.
func (f *batchFollower) nothingLeft(ctx context.Context, counts job.Summary) (bool, error) {
	if f.at.Job.IsZero() || !allEnded(counts) {
		return false, nil
	}
	ends, err := f.g.cfg.Store.BatchEnds(ctx, f.tenant, f.batch, f.at, true, 1)
	return len(ends) == 0, err
}

func allEnded(counts job.Summary) bool {
	n := 0
	for state, count := range counts.States {
		if state.Ended() {
			n += count
		}
	}
	return n == counts.Total
}

// run sends until all jobs have ended or the client has left.
func (f *batchFollower) run(ctx context.Context) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		began := time.Now()
		changed := f.round(ctx)
		f.out.flush()
		if f.complete || f.out.err != nil {
			return
		}
		pause := max(roundPause, roundShare*time.Since(began))
		patience := followPause()
		if changed {
			patience = lagPause
		}
		if !f.rest(ctx, beat, pause, max(pause, patience)) {
			return
		}
	}
}

// rest waits for news, from pause on, or for as long as patience. It reports
// whether to go on.
func (f *batchFollower) rest(ctx context.Context, beat *time.Ticker, pause, patience time.Duration) bool {
	early, late := time.NewTimer(pause), time.NewTimer(patience)
	defer early.Stop()
	defer late.Stop()
	var news <-chan struct{}
	for {
		select {
		case <-early.C:
			news = f.heard.wake
		case <-news:
			return true
		case <-late.C:
			return true
		case <-beat.C:
			if f.out.comment("alive"); f.out.err != nil {
				return false
			}
		case <-f.g.leaving:
			if !f.at.Job.IsZero() {
				f.out.comment("this gateway ends: go on from id %s", markID(f.at))
			}
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// round sends what is new, and reports whether anything was.
func (f *batchFollower) round(ctx context.Context) (changed bool) {
	counts, err := f.g.cfg.Store.Batch(ctx, f.tenant, f.batch)
	if err != nil {
		f.trouble(ctx, err)
		return false
	}
	// Whatever ended before they were counted is seen now.
	complete := allEnded(counts)
	if err := f.ends(ctx, complete); err != nil {
		f.trouble(ctx, err)
		return false
	}
	f.complete = complete
	if changed = !reflect.DeepEqual(counts, f.progress); changed {
		f.progress = counts
		f.out.event("", eventProgress, JobEvent{Batch: f.batch, At: time.Now().UTC(), Progress: &counts})
	}
	return changed
}

// ends sends the ends of jobs, a page at a time, however many there are.
func (f *batchFollower) ends(ctx context.Context, all bool) error {
	for f.out.err == nil {
		page, err := f.g.cfg.Store.BatchEnds(ctx, f.tenant, f.batch, f.at, all, endsPage)
		if err != nil {
			return err
		}
		for _, e := range page {
			f.out.event(markID(e.EndMark), eventFinished, JobEvent{
				Job: e.Job, Batch: f.batch, At: e.At, Attempt: e.Attempt, Ended: &Ended{e.Key, e.Status, e.Error},
			})
			f.at = e.EndMark
		}
		f.out.flush()
		if len(page) < endsPage {
			return nil
		}
	}
	return nil
}

func (f *batchFollower) trouble(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, store.ErrNotFound):
		f.complete = true
	default:
		f.g.cfg.Log.Warn().Err(err).Msg("history not read for a stream of events")
	}
}
