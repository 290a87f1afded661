//go:build unix

package wasm_test

import (
	"os"
	"testing"
)

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
