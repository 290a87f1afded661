package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// deafAfter is how long nothing may be answered before another server is tried.
// An election takes up to nine seconds, which is no reason to leave.
const deafAfter = 12 * time.Second

// hearing notices a connection that stands and brings nothing: a server that
// lost the rest of its cluster keeps its clients, and goes on answering their
// pings.
type hearing struct {
	// since is when the first request was made of those, up to now, that
	// brought nothing, in Unix nanoseconds; 0 after an answer.
	since atomic.Int64
}

// note takes down how a request ended that was made at the given time, and
// reports whether it is time to leave the server.
func (h *hearing) note(asked time.Time, err error, now time.Time) bool {
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case err == nil || !transient(err):
		h.since.Store(0)
		return false
	}
	h.since.CompareAndSwap(0, asked.UnixNano())
	since := h.since.Load()
	return since != 0 && now.UnixNano()-since >= int64(deafAfter) && h.since.CompareAndSwap(since, 0)
}

// answered notes how a request ended, and moves to another server of the
// cluster when this one has answered none for long. What is lost with the
// connection is asked again by whoever waits for it.
func (q *Queue) answered(asked time.Time, err error) {
	if !q.hearing.note(asked, err, time.Now()) || !q.nc.IsConnected() || len(q.nc.Servers()) < 2 {
		return
	}
	q.cfg.Log.Warn().Err(err).Str("server", q.nc.ConnectedServerName()).Msg("nats answers nothing, trying another server")
	if err := q.nc.ForceReconnect(); err != nil {
		q.cfg.Log.Debug().Err(err).Msg("server could not be left")
	}
}

// insist makes a request again, each time with its own deadline, until it ends
// otherwise than by what passes by itself, or ctx ends.
func (q *Queue) insist(ctx context.Context, request func(context.Context) error) error {
	for {
		err := q.once(ctx, request)
		if err == nil || ctx.Err() != nil || !transient(err) {
			return err
		}
		if pause(ctx, publishAgain) != nil {
			return err
		}
	}
}

func (q *Queue) once(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked := time.Now()
	err := request(ctx)
	q.answered(asked, err)
	return err
}

// look is once for a request that only reads. A server that is cut off from its
// cluster answers some of those from what it has, so that an answer is no sign
// that it is heard.
func (q *Queue) look(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked := time.Now()
	err := request(ctx)
	if err != nil && transient(err) {
		q.answered(asked, err)
	}
	return err
}
