package guestproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// streams are the host's ends of a guest's standard streams.
type streams struct {
	stdin          *os.File // nil when the guest reads the null device
	stdout, stderr *os.File
	// guest are the guest's ends, descriptors 0 to 2.
	guest   [3]*os.File
	copying sync.WaitGroup
}

func newStreams(stdin []byte) (*streams, error) {
	s := &streams{}
	var errs [3]error
	if len(stdin) == 0 {
		s.guest[0], errs[0] = os.Open(os.DevNull)
	} else {
		s.guest[0], s.stdin, errs[0] = os.Pipe()
	}
	s.stdout, s.guest[1], errs[1] = os.Pipe()
	s.stderr, s.guest[2], errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		s.closeGuest()
		s.closeHost()
		return nil, fmt.Errorf("make streams: %w", err)
	}
	return s, nil
}

// pump starts copying. The guest's ends must be closed here by then.
func (s *streams) pump(stdin []byte, stdout, stderr io.Writer) {
	if s.stdin != nil {
		s.copying.Go(func() {
			// A guest that does not read ends the write when it ends.
			_, _ = s.stdin.Write(stdin)
			_ = s.stdin.Close()
		})
	}
	s.copying.Go(func() { drain(stdout, s.stdout) })
	s.copying.Go(func() { drain(stderr, s.stderr) })
}

// chunk is how much is copied at once: what a pipe holds by default, halved.
const chunk = 32 << 10

// chunks are buffers that no stream uses now.
var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

func drain(to io.Writer, from *os.File) {
	buffer := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buffer)
	// The wrappers hide ReadFrom and WriteTo, which would use buffers and
	// pieces of their own.
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer[:])
}

// drainTime bounds how long a process that outlived the guest can hold its
// streams open; where nothing outlives it, they end by themselves.
const drainTime = time.Second

// finish waits until all that the guest wrote is copied and closes the
// streams.
func (s *streams) finish() {
	if s.stdin != nil {
		_ = s.stdin.Close()
	}
	limit := time.Now().Add(drainTime)
	_ = s.stdout.SetReadDeadline(limit)
	_ = s.stderr.SetReadDeadline(limit)
	s.copying.Wait()
	s.closeHost()
}

func (s *streams) closeGuest() { closeAll(s.guest[:]...) }

func (s *streams) closeHost() { closeAll(s.stdin, s.stdout, s.stderr) }

// closeAll closes the files that are there. A second Close is harmless.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
