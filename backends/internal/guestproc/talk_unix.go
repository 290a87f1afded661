//go:build unix

package guestproc

import (
	"context"
	"errors"
	"time"
)

// errGone is the cause that ends a conversation with a guest that has ended.
var errGone = errors.New("guest is gone")

// talk is a guest's conversation, in a goroutine of its own.
type talk struct {
	channel *channel
	cancel  context.CancelCauseFunc
	// served receives what Serve returned, done is closed then.
	served chan error
	done   chan struct{}
}

func (g *Guest) talk(ctx context.Context, ch *channel) *talk {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &talk{channel: ch, cancel: cancel, served: make(chan error, 1), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.served <- g.Task.Serve(ctx, ch)
	}()
	return t
}

// dying is how long a guest may take from hanging up to being seen to be dead.
const dying = 50 * time.Millisecond

// hungUp reports whether Serve failed because the guest had ended, rather than
// because of what it said: a guest whose end of the channel is closed is
// given a moment to turn out to be dead.
func (t *talk) hungUp(p *process) bool {
	if !t.channel.ended.Load() {
		return false
	}
	select {
	case <-p.exited:
		return true
	case <-time.After(dying):
		return false
	}
}

// lastWords is how long a conversation may take to read what a guest sent
// before it ended, and to notice its end.
const lastWords = time.Second

// end waits for the conversation with a guest that is gone.
func (t *talk) end(ctx context.Context) {
	defer t.cancel(errGone)
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-t.done:
		return
	case <-ctx.Done():
	case <-timer.C:
	}
	t.cancel(errGone)
	_ = t.channel.Close()
	<-t.done
}
