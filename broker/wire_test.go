package broker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"airlock/broker"

	"pgregory.net/rapid"
)

func TestFrameRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var bodies [][]byte
		for range rapid.IntRange(0, 5).Draw(t, "frames") {
			size := rapid.OneOf(rapid.IntRange(2, 300), rapid.IntRange(60<<10, 300<<10)).Draw(t, "size")
			body := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, size)
			var err error
			if stream, err = broker.AppendFrame(stream, body); err != nil {
				t.Fatalf("append: %v", err)
			}
			bodies = append(bodies, body)
		}
		r := iotest.HalfReader(bytes.NewReader(stream))
		for _, want := range bodies {
			if got, err := broker.ReadFrame(r); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("got %d bytes and error %v, want %d", len(got), err, len(want))
			}
		}
		if _, err := broker.ReadFrame(r); err != io.EOF {
			t.Fatalf("at the end: got error %v, want io.EOF", err)
		}
	})
}

func TestReadFrameErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		r    io.Reader
		want error
	}{
		{"nothing", strings.NewReader(""), io.EOF},
		{"half a length", strings.NewReader("\x00\x00"), broker.ErrFrame},
		{"no body", strings.NewReader("\x00\x00\x00\x02"), broker.ErrFrame},
		{"half a body", strings.NewReader("\x00\x00\x00\x02{"), broker.ErrFrame},
		{"too short", strings.NewReader("\x00\x00\x00\x01{"), broker.ErrFrame},
		{"too long", strings.NewReader("\x00\x80\x00\x01{}"), broker.ErrFrame},
		{"channel breaks", iotest.ErrReader(broken), broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := broker.ReadFrame(tt.r); !errors.Is(err, tt.want) {
				t.Errorf("got error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestAppendFrameRefuses(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, broker.MaxFrame + 1} {
		if _, err := broker.AppendFrame(nil, make([]byte, size)); !errors.Is(err, broker.ErrFrame) {
			t.Errorf("body of %d bytes: got error %v, want ErrFrame", size, err)
		}
	}
}

// A length alone must not make the worker allocate: a thousand guests that
// claim 8 MiB each would be 8 GiB.
func TestReadFrameAllocatesWhatArrives(t *testing.T) { // BK1
	header := binary.BigEndian.AppendUint32(nil, broker.MaxFrame)
	short := append(header, bytes.Repeat([]byte{' '}, 1000)...)
	const rounds = 64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		if _, err := broker.ReadFrame(bytes.NewReader(short)); !errors.Is(err, broker.ErrFrame) {
			t.Fatalf("got error %v, want ErrFrame", err)
		}
	}
	runtime.ReadMemStats(&after)
	// Other tests of the package may run at the same moment, hence the room.
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 1<<20 {
		t.Errorf("got %d bytes allocated for a frame of which 1000 arrived, want less than 1 MiB", each)
	}
}
