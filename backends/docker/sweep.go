package docker

import (
	"context"
	"time"

	"github.com/docker/docker/api/types/container"
)

const (
	// sweepPause is the time between two sweeps.
	sweepPause = time.Minute
	// unclaimed is how long a container may be over, or past its deadline,
	// before anybody may remove it: its own worker takes seconds.
	unclaimed = 10 * time.Minute
)

// sweep removes what dead workers left, now and every minute, until Close.
func (b *Backend) sweep(r *ready) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.sweeper.Go(func() {
		<-b.closing
		cancel()
	})
	tick := time.NewTicker(sweepPause)
	defer tick.Stop()
	for {
		r.sweepOnce(ctx)
		select {
		case <-tick.C:
		case <-b.closing:
			return
		}
	}
}

// sweepOnce goes through the guests of all workers once.
func (r *ready) sweepOnce(ctx context.Context) {
	guests, err := r.engine.guests(ctx)
	if err != nil {
		r.config.Log.Warn().Err(err).Msg("containers that dead workers left cannot be looked for")
		return
	}
	for _, c := range guests {
		if ctx.Err() != nil || !r.left(c, time.Now()) {
			continue
		}
		if err := r.engine.remove(ctx, c.ID); err != nil {
			r.config.Log.Warn().Err(err).Msg("a container that a dead worker left cannot be removed")
			continue
		}
		r.config.Log.Info().Str("container", c.ID).Msg("removed a container that a dead worker left")
	}
}

// left reports whether nobody wants the container any more: its owner was on
// this host and is dead, or is us and has given it up, or it is past its
// deadline or over, for long enough that no owner comes.
func (r *ready) left(c container.Summary, now time.Time) bool {
	if c.Labels[labelHost] == r.hostID && r.owner.Left(c.Labels[labelOwner]) {
		return true
	}
	if r.shared.lost(c.Labels[labelOwner]) {
		return true
	}
	if c.Labels[labelOwner] == "" {
		return false
	}
	// An owner on another host that still lives has removed it by then, also
	// if our clocks differ.
	at, err := time.Parse(time.RFC3339, c.Labels[labelDeadline])
	if err == nil && now.Sub(at) > unclaimed && c.Labels[labelHost] != r.hostID {
		return true
	}
	over := c.State == container.StateExited || c.State == container.StateDead
	return over && now.Sub(time.Unix(c.Created, 0)) > unclaimed
}
