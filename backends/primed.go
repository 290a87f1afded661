package backends

import (
	"io"
	"time"
)

// conn is a channel whose reads and writes can be bounded in time, as those of
// processes are.
type conn interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// primed is a channel of which the first piece has been read ahead. It is how
// the end of a guest is noticed while nobody converses with it.
type primed struct {
	conn
	head []byte
	err  error
}

// Read implements io.Reader.
func (p *primed) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	if p.err != nil {
		return 0, p.err
	}
	return p.conn.Read(b)
}

// firstPiece is enough for a hello. More is left in the channel.
const firstPiece = 512

// prime reads the channel's first piece in the background. spoke is closed
// when the first of it is there, over when no more is read because all is, or
// the guest has ended. settle ends the reading and returns the channel with
// what was read; the channel is not to be read before.
func prime(ch conn) (spoke, over <-chan struct{}, settle func() *primed) {
	p, first, done := &primed{conn: ch}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.head, p.err = readAhead(ch, first)
	}()
	return first, done, func() *primed {
		select {
		case <-done:
			return p
		default:
		}
		// A deadline in the past ends the read; having ended it is no error.
		_ = ch.SetReadDeadline(time.Unix(1, 0))
		<-done
		_ = ch.SetReadDeadline(time.Time{})
		if isTimeout(p.err) {
			p.err = nil
		}
		return p
	}
}

func readAhead(ch conn, spoke chan<- struct{}) ([]byte, error) {
	head := make([]byte, 0, firstPiece)
	for len(head) < firstPiece {
		n, err := ch.Read(head[len(head):firstPiece])
		if n > 0 && len(head) == 0 {
			close(spoke)
		}
		head = head[:len(head)+n]
		if err != nil {
			return head, err
		}
	}
	return head, nil
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
