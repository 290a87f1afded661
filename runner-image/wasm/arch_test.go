package wasm_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSelfTest has the interpreter compute what each probe of the backend has a
// guest compute, by which a wrong compiler is found. It takes no wall, so that
// an emulator of another processor can run it:
//
//	GOARCH=arm64 go test -exec qemu-aarch64-static -run TestSelfTest ./runner-image/wasm
func TestSelfTest(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile(filepath.Join("..", "..", "backends", "wasm", "selftest.py"))
	if err != nil {
		t.Fatal(err)
	}
	m := started(t)
	if exit, result := m.run(t, string(code), ""); exit != 0 {
		t.Errorf("got code %d and %v, want 0; stderr: %s", exit, result, m.err.String())
	}
}
