package wasm_test

import (
	"os"
	"regexp"
	"testing"
)

// TestVersion: guests are told with the version of the runtime that walls them
// in, which is the one that go.mod names.
func TestVersion(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`github.com/tetratelabs/wazero (v\S+)`).FindSubmatch(mod)
	if named == nil {
		t.Fatal("go.mod names no wazero")
	}
	can, err := newBackend(t, join(converse(), constant(0))).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := can.Isolated.Version, "wazero "+string(named[1]); got != want {
		t.Errorf("got the version %q, want %q", got, want)
	}
}
