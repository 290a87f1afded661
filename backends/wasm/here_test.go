package wasm_test

import (
	"os"
	"testing"
	"time"

	"airlock/backends/internal/wasmguest"
	"airlock/backends/wasm"
)

// patience is how long a guest may take that is not about time.
const patience = 5 * time.Minute

// tempDir is as T.TempDir, and can be removed under Wine too.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := wasmguest.RemoveTree(dir); err != nil {
			t.Errorf("remove temporary directory: %v", err)
		}
	})
	return dir
}

// needsAccounting skips what a system without any cannot hold.
func needsAccounting(t testing.TB) {
	t.Helper()
	if wasm.Wine() {
		t.Skip("Wine counts no processor time of a job object")
	}
}
