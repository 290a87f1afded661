package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is one that a consumer gave out. Whoever has it acknowledges it in one
// of the ways, once; InProgress may be said any number of times before.
type message struct {
	nc    *nats.Conn
	msg   *nats.Msg
	acked atomic.Bool
}

func (m *message) Subject() string      { return m.msg.Subject }
func (m *message) Headers() nats.Header { return m.msg.Header }
func (m *message) Data() []byte         { return m.msg.Data }

// Metadata is what the server says of the message.
func (m *message) Metadata() (*nats.MsgMetadata, error) { return m.msg.Metadata() }

// Ack has the message done with, and waits for nothing.
func (m *message) Ack() error { return m.end("+ACK") }

// Nak gives the message back, for anybody.
func (m *message) Nak() error { return m.end("-NAK") }

// NakWithDelay gives it back, for anybody after the delay.
func (m *message) NakWithDelay(delay time.Duration) error {
	if delay <= 0 {
		return m.Nak()
	}
	return m.end(fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// TermWithReason has the message never come again.
func (m *message) TermWithReason(reason string) error { return m.end("+TERM " + reason) }

// InProgress has the server wait on.
func (m *message) InProgress() error {
	if m.acked.Load() {
		return jetstream.ErrMsgAlreadyAckd
	}
	return m.nc.Publish(m.msg.Reply, []byte("+WPI"))
}

// DoubleAck has the message done with, and waits until the server says so.
func (m *message) DoubleAck(ctx context.Context) error {
	if m.acked.Load() {
		return jetstream.ErrMsgAlreadyAckd
	}
	_, err := m.nc.RequestWithContext(ctx, m.msg.Reply, []byte("+ACK"))
	if err == nil {
		m.acked.Store(true)
	}
	return err
}

func (m *message) end(word string) error {
	if m.acked.Load() {
		return jetstream.ErrMsgAlreadyAckd
	}
	err := m.nc.Publish(m.msg.Reply, []byte(word))
	if err == nil {
		m.acked.Store(true)
	}
	return err
}
