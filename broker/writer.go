package broker

import (
	"context"
	"errors"
	"fmt"
)

// send queues a body for the guest; it gives up when the conversation ends.
func (s *session) send(ctx context.Context, body []byte) {
	select {
	case s.outgoing <- body:
	case <-ctx.Done():
	}
}

// write sends what is queued until the queue is closed. A guest that closed
// its end may have left frames that are still to be read, so that is no end.
func (s *session) write(ctx context.Context) {
	defer close(s.written)
	deaf := false
	for body := range s.outgoing {
		if deaf || ctx.Err() != nil {
			continue
		}
		if err := s.writeOne(body); errors.Is(err, errChannelEnded) {
			deaf = true
		} else if err != nil {
			s.end(err)
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
