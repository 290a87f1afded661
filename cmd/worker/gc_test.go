package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// TestCollectLess changes what the whole process has, and is not parallel.
func TestCollectLess(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "77")
	if collectLess() {
		t.Error("with GOGC set: it was overruled")
	}
	if err := os.Unsetenv("GOGC"); err != nil { // Setenv's clean-up restores it
		t.Fatal(err)
	}
	if !collectLess() {
		t.Error("without GOGC: nothing was done")
	}
	ballast := make([]byte, 2*gcHeadroom)
	awaitPercent(t, gcLeast)
	debug.SetGCPercent(77)
	awaitPercent(t, gcLeast) // after each collection, not only the first
	runtime.KeepAlive(ballast)
}

// awaitPercent collects until the percentage is the wanted one.
func awaitPercent(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); percentNow() != want; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("while much lives: got %d percent, want %d", percentNow(), want)
		}
		runtime.GC()
	}
}

func percentNow() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, gcMost}, {1 << 20, gcMost}, {12 << 20, gcMost}, {16 << 20, 300}, {24 << 20, 200}, {25 << 20, 175},
		{48 << 20, gcLeast}, {79 << 20, gcLeast}, {1 << 40, gcLeast},
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("with %d bytes that live: got %d, want %d", c.live, got, c.want)
		}
	}
}
