package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"airlock/backends"

	"github.com/docker/docker/api/types"
)

// carrier moves the bytes of one guest between the attached connection and
// those who want them, each stream in a goroutine of its own.
type carrier struct {
	wire
	stdout, stderr io.Writer
	// channel is the worker's end of the guest's channel, inner ours.
	channel, inner net.Conn
	said           *backlog
	toChannel      *credit
	toStdin        *credit

	// ready is closed when greeting is set, hungUp when the guest has closed
	// its channel, ended when ending is set, broken when nothing more comes
	// from the container and err says why.
	ready, hungUp, ended, broken chan struct{}
	greeting                     greeting
	ending                       ending
	err                          error

	pumps sync.WaitGroup
}

// carry begins with a container that is attached and not started.
func carry(streams types.HijackedResponse, task backends.Task) *carrier {
	c := &carrier{
		wire: wire{conn: streams.Conn, in: &demux{from: streams.Reader}}, stdout: task.Stdout, stderr: task.Stderr,
		said: newBacklog(), toChannel: newCredit(), toStdin: newCredit(),
		ready: make(chan struct{}), hungUp: make(chan struct{}), ended: make(chan struct{}), broken: make(chan struct{}),
	}
	c.channel, c.inner = net.Pipe()
	c.pumps.Go(c.receiveAll)
	return c
}

// converse starts to move the channel's bytes and stdin's.
func (c *carrier) converse(stdin []byte) {
	c.pumps.Go(c.hearGuest)
	c.pumps.Go(c.tellGuest)
	c.pumps.Go(func() { c.feed(stdin) })
}

// stop ends all goroutines. What has arrived by then has been handed on.
func (c *carrier) stop() {
	_ = c.conn.Close()
	_ = c.channel.Close()
	_ = c.inner.Close()
	c.toChannel.close()
	c.toStdin.close()
	c.said.close()
	c.pumps.Wait()
}

// receiveAll takes frames until the container is gone.
func (c *carrier) receiveAll() {
	defer close(c.broken)
	defer c.said.close()
	buf := make([]byte, maxFrame)
	for {
		k, body, err := c.receive(buf)
		if err == nil {
			err = c.handle(k, body)
		}
		if err != nil {
			c.err = err
			return
		}
	}
}

func (c *carrier) handle(k kind, body []byte) (err error) {
	switch k {
	case isReady:
		if c.greeting, err = readGreeting(body); err == nil {
			c.once(c.ready)
		}
		return err
	case fromStdout:
		_, _ = c.stdout.Write(body) // writers of a Task never fail
	case fromStderr:
		_, _ = c.stderr.Write(body)
	case fromChannel:
		if !c.said.put(body) {
			return errors.New("the container sends more than it may")
		}
	case channelEnded:
		c.said.close()
		c.once(c.hungUp)
	case grantChannel, grantStdin:
		return c.handleGrant(k, body)
	case guestEnded:
		if c.ending, err = readEnding(body); err == nil {
			c.said.close()
			c.once(c.ended)
		}
		return err
	default:
		return fmt.Errorf("the container sent a frame of kind %q", byte(k))
	}
	return nil
}

func (c *carrier) handleGrant(k kind, body []byte) error {
	if len(body) < 4 {
		return fmt.Errorf("the container sent a frame of kind %q that is too short", byte(k))
	}
	n := binary.BigEndian.Uint32(body)
	to := c.toChannel
	if k == grantStdin {
		to = c.toStdin
	}
	to.add(int(min(n, window)))
	return nil
}

// once closes a channel that only the receiving goroutine closes.
func (*carrier) once(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// hearGuest hands on what the guest says, and grants as much again. At the end
// the worker's end of the channel ends too.
func (c *carrier) hearGuest() {
	defer c.inner.Close()
	for {
		piece := c.said.take()
		if len(piece) == 0 {
			return
		}
		if _, err := c.inner.Write(piece); err != nil {
			return
		}
		_ = c.grant(len(piece)) // of a container that is gone the rest is still to be heard
	}
}

// tellGuest sends the guest what the worker says, and the end of it.
func (c *carrier) tellGuest() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.inner.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			some := c.toChannel.take(len(rest))
			if some == 0 || c.send(toChannel, rest[:some]) != nil {
				return
			}
			rest = rest[some:]
		}
		if err != nil {
			_ = c.send(endChannel, nil)
			return
		}
	}
}

// feed sends what the guest can read from its standard input.
func (c *carrier) feed(stdin []byte) {
	for len(stdin) > 0 {
		some := c.toStdin.take(min(len(stdin), maxFrame/2))
		if some == 0 || c.send(toStdin, stdin[:some]) != nil {
			return
		}
		stdin = stdin[some:]
	}
	_ = c.send(endStdin, nil)
}
