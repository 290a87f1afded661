package docker

import (
	"context"
	"errors"
	"time"
)

// errGone is the cause that ends a conversation with a guest that has ended.
var errGone = errors.New("guest is gone")

// talk is a guest's conversation, in a goroutine of its own.
type talk struct {
	carrier *carrier
	cancel  context.CancelCauseFunc
	// served receives what Serve returned, done is closed then.
	served chan error
	done   chan struct{}
}

func (g *guest) talk(ctx context.Context) *talk {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &talk{carrier: g.carrier, cancel: cancel, served: make(chan error, 1), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.served <- g.task.Serve(ctx, g.channel)
	}()
	return t
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
	_ = t.carrier.channel.Close()
	<-t.done
}
