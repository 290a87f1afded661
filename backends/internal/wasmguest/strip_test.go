package wasmguest_test

import (
	"bytes"
	"testing"

	"airlock/backends/internal/wasmguest"

	"github.com/google/go-cmp/cmp"
)

const header = "\x00asm\x01\x00\x00\x00"

// The sections of a module with two functions and data: types, functions,
// count of data, code, data.
const (
	types     = "\x01\x04\x01\x60\x00\x00"
	functions = "\x03\x03\x02\x00\x00"
	count     = "\x0c\x01\x01"
	code      = "\x0a\x09\x02\x02\x00\x0b\x04\x00\x41\x00\x0b"
	data      = "\x0b\x07\x01\x00\x41\x00\x0b\x01x"
)

func TestRewritten(t *testing.T) {
	t.Parallel()
	whole := header + types + functions + count + code + data
	for _, tt := range []struct {
		name    string
		rewrite func([]byte) ([]byte, error)
		module  string
		want    string
	}{
		{name: "without data", rewrite: wasmguest.Strip, module: whole, want: header + types + functions + code},
		{
			name: "without code", rewrite: wasmguest.Hollow, module: header + types + functions + code,
			want: header + types + functions + "\x0a\x09\x02\x03\x00\x00\x0b\x03\x00\x00\x0b",
		},
		{name: "nothing in it", rewrite: wasmguest.Hollow, module: header, want: header},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			given := []byte(tt.module)
			got, err := tt.rewrite(given)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]byte(tt.want), got); diff != "" {
				t.Errorf("got another module than wanted (-want +got):\n%s", diff)
			}
			if !bytes.Equal(given, []byte(tt.module)) {
				t.Error("got the given module changed, want it as it was")
			}
		})
	}
}

func TestNoModule(t *testing.T) {
	t.Parallel()
	for name, module := range map[string]string{
		"nothing":            "",
		"another magic":      "\x7fELF\x01\x00\x00\x00",
		"a size beyond":      header + "\x0a\x05\x01",
		"a size without end": header + "\x0a\xff\xff",
		"more bodies":        header + "\x0a\x01\x7f",
		"no count":           header + "\x0a\x00",
		"endless count":      header + "\x0a\x02\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := wasmguest.Hollow([]byte(module)); err == nil {
				t.Errorf("got %q, want an error", got)
			}
		})
	}
}
