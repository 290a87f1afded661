package wasm_test

import (
	"errors"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/backends/wasm"
)

// TestSelfTest: a processor that computes one thing wrongly, once in
// thousands, is not offered, and the reason says what it is. That a right one
// is offered is what all other tests with Python rest on.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	where := python(t)
	for _, tt := range []struct{ group, right, wrong string }{
		{"dates", "microseconds=n * 7", "microseconds=n * 7 + (n == 331 * 900)"},
		{"integers", "{n // 10} {n % 10}", "{n // 10 + (n == 2990)} {n % 10}"},
		{"floats", "{int(x * 1e9)}", "{int(x * 1e9) + (n == 3999)}"},
		{"texts", "sorted(words)", "sorted(words, reverse=n == 399)"},
	} {
		t.Run(tt.group, func(t *testing.T) {
			config, ok := wasm.Wrong(wasm.Config{Helper: helper, Python: where, Log: zerologOf(t)}, tt.right, tt.wrong)
			if !ok {
				t.Fatalf("the self-test does not have %q once", tt.right)
			}
			b := wasm.New(wasm.Here(config))
			defer b.Close()
			_, err := b.Probe(t.Context())
			if !errors.Is(err, backends.ErrUnavailable) {
				t.Fatalf("got %v, want ErrUnavailable", err)
			}
			for _, want := range []string{tt.group, "issue 2516", "another backend"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to name %q", err, want)
				}
			}
		})
	}
}
