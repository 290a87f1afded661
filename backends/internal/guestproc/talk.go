package guestproc

import (
	"context"
	"errors"
	"io"
	"time"

	"airlock/backends"
)

// errGone is the cause that ends a conversation with a guest that has ended.
var errGone = errors.New("guest is gone")

// Talk is a guest's conversation, in a goroutine of its own.
type Talk struct {
	// Served receives what Serve returned.
	Served <-chan error

	channel io.Closer
	cancel  context.CancelCauseFunc
	// done is closed when Serve has returned.
	done chan struct{}
}

// NewTalk calls the task's Serve with the guest's channel.
func NewTalk(ctx context.Context, task backends.Task, channel io.ReadWriteCloser) *Talk {
	ctx, cancel := context.WithCancelCause(ctx)
	served := make(chan error, 1)
	t := &Talk{Served: served, channel: channel, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		served <- task.Serve(ctx, channel)
	}()
	return t
}

// lastWords is how long a conversation may take to read what a guest sent
// before it ended, and to notice its end.
const lastWords = time.Second

// End waits for the conversation with a guest that is gone.
func (t *Talk) End(ctx context.Context) {
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

// dying is how long a guest may take from hanging up to being seen to be dead.
const dying = 50 * time.Millisecond

// gone reports whether Serve failed because the guest had ended, rather than
// because of what it said: a guest whose end of the channel is closed is
// given a moment to turn out to be dead.
func gone(p Process, ch *channel) bool {
	if !ch.ended.Load() {
		return false
	}
	select {
	case <-p.Exited():
		return true
	case <-time.After(dying):
		return false
	}
}
