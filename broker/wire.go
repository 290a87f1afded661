package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The bounds of a frame's body, in bytes.
const (
	MinFrame = 2
	MaxFrame = 8 << 20
)

// frameHeader is the length before each body.
const frameHeader = 4

// readStep is how much is allocated on the word of a length alone; the rest
// follows the bytes that really arrive.
const readStep = 64 << 10

// ErrFrame is wrapped by ReadFrame's error for bytes that are no frame: a
// length out of range, or an end in the middle.
var ErrFrame = errors.New("not a frame")

// ReadFrame reads one frame and returns its body. At the end of r between two
// frames it returns io.EOF. What it allocates is bounded by twice the bytes
// that arrived and a constant, whatever length the frame claims. It checks
// nothing of the body but its length.
func ReadFrame(r io.Reader) ([]byte, error) {
	var header [frameHeader]byte
	if n, err := io.ReadFull(r, header[:]); err != nil {
		return nil, cutShort(err, n, "length")
	}
	length := binary.BigEndian.Uint32(header[:])
	if length < MinFrame || length > MaxFrame {
		return nil, fmt.Errorf("%w: a length of %d, want %d to %d", ErrFrame, length, MinFrame, MaxFrame)
	}
	return readBody(r, int(length))
}

func readBody(r io.Reader, length int) ([]byte, error) {
	body := make([]byte, 0, min(length, readStep))
	for len(body) < length {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(length, 2*cap(body)))
			copy(grown, body)
			body = grown
		}
		n, err := io.ReadFull(r, body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return nil, cutShort(err, len(body)+frameHeader, "body")
		}
	}
	return body, nil
}

// cutShort tells an end in the middle of a frame, which is the peer's fault,
// from an end between two and from an error of the channel.
func cutShort(err error, read int, part string) error {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case ended && read == 0:
		return io.EOF
	case ended:
		return fmt.Errorf("%w: the channel ended within a frame's %s", ErrFrame, part)
	}
	return err
}

// AppendFrame appends body as one frame to dst. It refuses a body whose length
// is out of range.
func AppendFrame(dst, body []byte) ([]byte, error) {
	if len(body) < MinFrame || len(body) > MaxFrame {
		return dst, fmt.Errorf("%w: a body of %d bytes, want %d to %d", ErrFrame, len(body), MinFrame, MaxFrame)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...), nil
}
