package broker

import (
	"context"
	"errors"
	"fmt"
)

// outgoing is a frame for the guest.
type outgoing struct {
	body []byte
	// then, if set, is called once the frame has been written, or cannot be.
	then func()
}

// send queues a body for the guest; it gives up when the conversation ends.
func (s *session) send(ctx context.Context, body []byte) { s.sendThen(ctx, body, nil) }

func (s *session) sendThen(ctx context.Context, body []byte, then func()) {
	select {
	case s.outgoing <- outgoing{body, then}:
	case <-ctx.Done():
	}
}

// write sends what is queued until the queue is closed. A guest that closed
// its end may have left frames that are still to be read, so that is no end.
func (s *session) write(ctx context.Context) {
	defer close(s.written)
	deaf := false
	for frame := range s.outgoing {
		if !deaf && ctx.Err() == nil {
			err := s.writeOne(frame.body)
			if deaf = errors.Is(err, errChannelEnded); err != nil && !deaf {
				s.end(err)
			}
		}
		if frame.then != nil {
			frame.then()
		}
	}
}

// writeOne sends one frame. Its error is the cause of the end.
func (s *session) writeOne(body []byte) error {
	err := s.ch.write(body)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnread):
		return breachf("a frame was not taken within %s", s.b.cfg.WriteTimeout)
	case errors.Is(err, errOverdrawn):
		return breachf("%v", err)
	case errors.Is(err, ErrFrame):
		return fmt.Errorf("%w: %w", errOurs, err)
	}
	return errChannelEnded
}
