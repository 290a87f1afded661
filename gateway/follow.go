package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

const (
	// followEvery is how often a stream looks into the history by itself: news
	// may be missed.
	followEvery = 5 * time.Second
	// gapPause is how long news that are out of order wait for those before
	// them; then the history is asked.
	gapPause = 250 * time.Millisecond
	// maxEarly bounds the news that wait so.
	maxEarly = 256
)

// follower sends the events of one job, each once and in their order: what the
// history has at first, news as they come, and the history's again where news
// are missing.
type follower struct {
	g      *Gateway
	tenant string
	id     job.ID
	heard  *listener
	out    *eventStream

	// at is the place of the last event that was sent.
	at place
	// early are news that came before others that belong before them.
	early   map[place]JobEvent
	printed printed
	over    bool
}

func (g *Gateway) followJob(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	at := placeNone
	if last := resumeFrom(r); last != "" {
		var ok bool
		if at, ok = parsePlace(last); !ok {
			return problemf(CodeBadRequest, "Last-Event-ID: %q is no id of a job's event", job.Printable(last, 80))
		}
	}
	ctx := r.Context()
	f := &follower{g: g, tenant: r.who.tenant, id: id, at: at, early: map[place]JobEvent{}}
	// Before the history is read, so that nothing falls between.
	f.heard = g.hub.follow(f.tenant, id)
	defer f.heard.leave()
	trail, err := settled(ctx, id, func() (store.Trail, error) { return f.read(ctx) })
	if err != nil {
		return err
	}
	if trail.Record.State.Ended() && !(place{trail.Record.Attempt, stepEnd}).after(at) {
		w.WriteHeader(http.StatusNoContent) // which tells browsers not to come again
		return nil
	}
	f.out = g.openStream(w)
	defer f.out.flush()
	f.run(ctx, trail)
	return nil
}

func (f *follower) read(ctx context.Context) (store.Trail, error) {
	return f.g.cfg.Store.Trail(ctx, f.tenant, f.id, max(0, f.at.attempt))
}

// run sends until the job has ended or the client has left.
func (f *follower) run(ctx context.Context, trail store.Trail) {
	f.catchUp(ctx, trail)
	f.printed.live = true
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	look := time.NewTimer(followPause())
	defer look.Stop()
	gap := time.NewTimer(gapPause)
	defer gap.Stop()
	for f.out.flush(); !f.over && f.out.err == nil; f.out.flush() {
		select {
		case <-f.heard.wake:
			f.take(ctx)
			if len(f.early) > 0 {
				gap.Reset(gapPause)
			}
		case <-look.C:
			f.look(ctx)
			look.Reset(followPause())
		case <-gap.C:
			if len(f.early) > 0 {
				f.sync(ctx)
				gap.Reset(4 * gapPause)
			}
		case <-beat.C:
			f.out.comment("alive")
		case <-f.g.leaving:
			f.out.comment("this gateway ends: go on from id %s", f.at)
			return
		case <-ctx.Done():
			return
		}
	}
}

// followPause is spread, so that streams do not look all at once.
func followPause() time.Duration {
	return followEvery*3/4 + rand.N(followEvery/2)
}

// take sends the news that were heard.
func (f *follower) take(ctx context.Context) {
	news, ended, ok := f.heard.take()
	if !ok {
		f.over = true
		f.out.comment("this client reads too slowly: go on from id %s", f.at)
		f.g.cfg.Log.Info().Stringer("job", f.id).Msg("slow reader of events sent away")
		return
	}
	for _, n := range news {
		f.hear(ctx, newsEvent(n))
	}
	if ended {
		f.sync(ctx)
	}
}

// hear sends what news tell, if that is next.
func (f *follower) hear(ctx context.Context, e JobEvent) {
	if e.name == "" || f.over {
		return
	}
	if e.Attempt > f.at.attempt && !e.place.follows(f.at) {
		f.sync(ctx) // what came before is in the history
	}
	switch {
	case e.name == eventOutput:
		if e.Attempt == f.at.attempt && f.at.step != stepEnd {
			f.start(e)
			f.print(e)
		}
	case !e.place.after(f.at):
	case e.place.follows(f.at):
		f.send(e)
		f.drain()
	case e.place == place{f.at.attempt, stepLink + 1} && f.at.step == stepClaimed:
		f.start(e)
		f.send(e)
		f.drain()
	case len(f.early) < maxEarly:
		f.early[e.place] = e
	}
}

// start sends that the attempt has started, which what it did shows, if the news
// of that were missed.
func (f *follower) start(did JobEvent) {
	if f.at.step == stepClaimed {
		f.send(JobEvent{Job: did.Job, Batch: did.Batch, At: did.At, Attempt: did.Attempt, name: eventStarted, place: place{did.Attempt, stepStarted}})
	}
}

func (f *follower) send(e JobEvent) {
	if e.name == eventClaimed {
		f.printed.begin()
	}
	f.out.event(e.place.String(), e.name, e)
	f.at = e.place
}

// drain sends the early news whose turn has come, and forgets those that were
// sent from the history.
func (f *follower) drain() {
	for next := (place{f.at.attempt, f.at.step + 1}); f.at.step != stepEnd; next.step++ {
		e, ok := f.early[next]
		if !ok {
			break
		}
		f.send(e)
	}
	for p := range f.early {
		if !p.after(f.at) {
			delete(f.early, p)
		}
	}
}

// look asks whether the history has what was not heard of.
func (f *follower) look(ctx context.Context) {
	now, err := f.g.cfg.Store.Standing(ctx, f.tenant, f.id)
	if err != nil {
		f.trouble(ctx, err)
		return
	}
	waits := now.State == job.StateQueued || now.State == job.StateRetryWait
	if now.State.Ended() || now.Attempt != f.at.attempt || now.Links+stepLink > f.at.step && now.Links > 0 ||
		waits && now.Attempt > 0 && f.at.step != stepEnd {
		f.sync(ctx)
	}
}

// sync sends what the history has and was not sent.
func (f *follower) sync(ctx context.Context) {
	trail, err := f.read(ctx)
	if err != nil {
		f.trouble(ctx, err)
		return
	}
	f.catchUp(ctx, trail)
}

// trouble ends a stream whose job is gone, and leaves any other to try again.
func (f *follower) trouble(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, store.ErrNotFound):
		f.over = true
	default:
		f.g.cfg.Log.Warn().Err(err).Stringer("job", f.id).Msg("history not read for a stream of events")
	}
}

func (f *follower) catchUp(ctx context.Context, trail store.Trail) {
	end := place{trail.Record.Attempt, stepEnd}
	var result *job.Result
	if trail.Record.State.Ended() && end.after(f.at) {
		var err error
		if result, err = f.g.cfg.Store.Result(ctx, f.tenant, f.id); err != nil {
			f.trouble(ctx, err)
			return
		}
	}
	for _, e := range trailEvents(trail) {
		if e.place.after(f.at) {
			f.send(e)
		}
	}
	f.drain()
	if result != nil {
		f.finish(end, result)
	}
}

// finish sends what was not heard of what the guest printed last, and the last
// event.
func (f *follower) finish(end place, r *job.Result) {
	if f.at.attempt == end.attempt {
		f.printRest(r)
	}
	e := JobEvent{Job: r.Job, Batch: r.Batch, At: r.Finished, Attempt: end.attempt, name: eventFinished, place: end}
	e.Result, e.Omitted = brief(r)
	f.send(e)
	f.over = true
}

// heardEnd passes on that a job has ended.
func (g *Gateway) heardEnd(a queue.Announcement) {
	g.waiters.heard(a)
	g.hub.ended(a)
	g.pending.ended(a.Job)
}
