package main

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestCollectLess changes what the whole process has, and is not parallel.
func TestCollectLess(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "100")
	collectLess()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("with GOGC set: got %d, want it left at 100", got)
	}
	if err := os.Unsetenv("GOGC"); err != nil { // Setenv's clean-up restores it
		t.Fatal(err)
	}
	collectLess()
	if got := debug.SetGCPercent(100); got != gcPercent {
		t.Errorf("without GOGC: got %d, want %d", got, gcPercent)
	}
}
