package frame_test

import (
	"bytes"
	"io"
	"testing"

	"airlock/backends/internal/frame"

	"github.com/google/go-cmp/cmp"
)

type body struct {
	Method string `json:"method"`
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	var wire bytes.Buffer
	if err := frame.Write(&wire, body{"hello"}); err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x12" + `{"method":"hello"}`
	if diff := cmp.Diff(want, wire.String()); diff != "" {
		t.Errorf("bytes on the wire (-want +got):\n%s", diff)
	}
	var got body
	if err := frame.Read(&wire, &got); err != nil {
		t.Fatal(err)
	}
	if got.Method != "hello" {
		t.Errorf("got method %q, want hello", got.Method)
	}
	if err := frame.Read(&wire, &got); err != io.EOF {
		t.Errorf("at the end got %v, want io.EOF", err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, wire string }{
		{"length beyond the cap", "\xff\xff\xff\xff"},
		{"length below the smallest object", "\x00\x00\x00\x01{"},
		{"truncated header", "\x00\x00"},
		{"truncated body", "\x00\x00\x00\x09{}"},
		{"not JSON", "\x00\x00\x00\x02no"},
		{"unknown field", "\x00\x00\x00\x07" + `{"a":1}`},
		{"duplicate key", "\x00\x00\x00\x1b" + `{"method":"a","method":"b"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got body
			err := frame.Read(bytes.NewReader([]byte(tt.wire)), &got)
			if err == nil || err == io.EOF {
				t.Errorf("got error %v, want one that names the fault", err)
			}
		})
	}
}
