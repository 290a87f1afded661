// Package frame reads and writes the frames of broker/PROTOCOL.md for the
// parts of backends that play one end of a guest's channel themselves: the
// scripted guests of package fake and the host of the conformance suite. The
// worker's own, budgeted end is package broker.
package frame

import (
	"encoding/binary"
	"fmt"
	"io"

	"airlock/job"

	"github.com/go-json-experiment/json"
)

// Max is the largest body that a frame may have.
const Max = 8 << 20

// Write sends body, encoded as JSON, as one frame in one Write call.
func Write(w io.Writer, body any) error {
	doc, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	return WriteRaw(w, doc)
}

// WriteRaw sends the bytes as the body of one frame, whatever they are.
func WriteRaw(w io.Writer, body []byte) error {
	if len(body) > Max {
		return fmt.Errorf("frame of %d bytes, the maximum is %d", len(body), Max)
	}
	buf := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(buf, uint32(len(body)))
	if _, err := w.Write(append(buf, body...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// Read receives one frame and decodes it strictly into body. At a clean end
// of the channel the error is io.EOF itself.
func Read(r io.Reader, body any) error {
	doc, err := ReadRaw(r)
	if err != nil {
		return err
	}
	if err := job.DecodeStrict(doc, body); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	return nil
}

// ReadRaw receives the body of one frame, whatever it holds. At a clean end
// of the channel the error is io.EOF itself.
func ReadRaw(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if err == io.EOF {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read frame: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 2 || size > Max {
		return nil, fmt.Errorf("frame of %d bytes, want 2 to %d", size, Max)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	return body, nil
}
