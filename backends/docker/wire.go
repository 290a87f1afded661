package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"airlock/backends/internal/guestproc"
)

// kind says what a frame between us and the container's first process holds.
// first.py has the same list.
type kind byte

// To the container.
const (
	toChannel  kind = 'c'
	endChannel kind = 'C'
	toStdin    kind = 'i'
	endStdin   kind = 'I'
	grant      kind = 'g'
	killAll    kind = 'k'
)

// From the container.
const (
	isReady      kind = 'r'
	fromChannel  kind = 'c'
	channelEnded kind = 'C'
	fromStdout   kind = 'o'
	fromStderr   kind = 'e'
	grantChannel kind = 'g'
	grantStdin   kind = 's'
	guestEnded   kind = 'x'
)

const (
	frameHeader = 5
	// maxFrame bounds what we take; the container sends no more.
	maxFrame = 64 << 10
	// window is how much of a stream may be on its way at first.
	window = 256 << 10
	// writeTime bounds a write: the first process always reads.
	writeTime = 30 * time.Second
)

// wire is the attached connection.
type wire struct {
	conn net.Conn
	in   *demux

	mu sync.Mutex // one frame at a time is written
}

// send writes one frame.
func (w *wire) send(k kind, body []byte) error {
	frame := make([]byte, frameHeader, frameHeader+len(body))
	frame[0] = byte(k)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(body)))
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := w.conn.Write(append(frame, body...))
	return err
}

func (w *wire) grant(n int) error {
	return w.send(grant, binary.BigEndian.AppendUint32(nil, uint32(n)))
}

// receive reads one frame; its body is good until the next call.
func (w *wire) receive(buf []byte) (kind, []byte, error) {
	header := buf[:frameHeader]
	if _, err := io.ReadFull(w.in, header); err != nil {
		return 0, nil, err
	}
	k, size := kind(header[0]), binary.BigEndian.Uint32(header[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("the container sent a frame of %d bytes", size)
	}
	body := buf[:size]
	_, err := io.ReadFull(w.in, body)
	return k, body, err
}

// demux reads the container's standard output out of an attached stream, which
// holds it in pieces with eight bytes before each. The standard error is what
// the runtime or the first process complains of.
type demux struct {
	from      io.Reader
	left      int
	complaint guestproc.Head
}

const (
	engineHeader = 8
	engineStdout = 1
	engineStderr = 2
)

var errStream = errors.New("the engine's stream is not one of frames: is the container's Tty on?")

// Read implements io.Reader.
func (d *demux) Read(p []byte) (int, error) {
	for d.left == 0 {
		var header [engineHeader]byte
		if _, err := io.ReadFull(d.from, header[:]); err != nil {
			return 0, err
		}
		size := int(binary.BigEndian.Uint32(header[4:]))
		switch header[0] {
		case engineStdout:
			d.left = size
		case engineStderr:
			if _, err := io.CopyN(&d.complaint, d.from, int64(size)); err != nil {
				return 0, err
			}
		default:
			return 0, errStream
		}
	}
	n, err := d.from.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}
