package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// upstream is one server, whether it lives or not.
type upstream struct {
	place  int // in the configuration
	server *Server
	opts   Options
	log    zerolog.Logger
	claims *claims
	// changed has a place for the news that the server's tools are others,
	// renewed for the news that ours are.
	changed, renewed chan struct{}

	mu     sync.Mutex
	live   *session // guarded by mu, as all below; nil while the server is dead
	offers []offer
}

func (u *upstream) current() *session {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.live
}

func (u *upstream) set(s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.live = s
}

func (u *upstream) offering() []offer {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.offers
}

func (u *upstream) noteChange() { note(u.changed) }

func note(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is about to be seen
	}
}

// start connects for the first time. Whatever is wrong with the tools is an
// error.
func (u *upstream) start(ctx context.Context) error {
	s, err := u.connect(ctx)
	if err != nil {
		return err
	}
	u.set(s)
	return u.learn(ctx, s)
}

// learn takes the server's tools. The error says which it left out.
func (u *upstream) learn(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, u.server.StartTimeout.Std())
	defer cancel()
	theirs, err := s.list(ctx)
	if err != nil {
		return err
	}
	offers, wrong := u.offered(theirs)
	offers, taken := u.claims.take(u, offers)
	u.mu.Lock()
	news := !same(u.offers, offers)
	u.offers = offers
	u.mu.Unlock()
	if news {
		note(u.renewed)
	}
	return errors.Join(wrong, taken)
}

// keep sees to the server until ctx ends: it follows its tools, and starts it
// again when it has ended.
func (u *upstream) keep(ctx context.Context) {
	wait := u.opts.Backoff.First
	for ctx.Err() == nil {
		s := u.current()
		if s == nil {
			wait = u.revive(ctx, wait)
			continue
		}
		select {
		case <-ctx.Done():
		case <-u.changed:
			u.relearn(ctx, s)
		case <-s.ended:
			u.log.Warn().Msg("server ended")
			u.set(nil)
			s.close()
			if time.Since(s.began) >= u.opts.Backoff.Most {
				wait = u.opts.Backoff.First
			}
		}
	}
}

func (u *upstream) relearn(ctx context.Context, s *session) {
	if err := u.learn(ctx, s); err != nil && ctx.Err() == nil {
		u.log.Error().Err(err).Msg("tools left out")
	}
}

// revive tries to connect until it can, and returns how long to wait before
// the next time.
func (u *upstream) revive(ctx context.Context, wait time.Duration) time.Duration {
	for {
		// Between half of it and all, so that many do not come at once.
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		wait = min(2*wait, u.opts.Backoff.Most)
		select {
		case <-ctx.Done():
			timer.Stop()
			return wait
		case <-timer.C:
		}
		s, err := u.connect(ctx)
		if err == nil {
			u.log.Info().Msg("server is back")
			u.relearn(ctx, s)
			u.set(s)
			return wait
		}
		u.log.Warn().Err(err).Dur("next", wait).Msg("server not started")
	}
}

// stop ends the server.
func (u *upstream) stop() {
	if s := u.current(); s != nil {
		u.set(nil)
		s.close()
	}
}

// where names the server in errors.
func (u *upstream) where() string {
	return fmt.Sprintf("servers[%d] (namespace %s)", u.place, u.server.Namespace)
}
