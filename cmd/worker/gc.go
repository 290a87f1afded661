package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// What is allocated between two collections: up to four times what lives, where
// Go's own is once, takes a sixth of the worker's processor time off at many
// small jobs a second. But a heap keeps the size that one early collection let
// it reach, and with a queue of a million jobs in the same process much lives:
// so it is bounded in bytes too.
const (
	gcMost     = 400
	gcLeast    = 100
	gcHeadroom = 48 << 20
	// gcStep is by what percentages differ: setting one stops the process for
	// a moment.
	gcStep = 25
)

// collectLess has the heap grow by gcHeadroom between collections, within
// gcLeast and gcMost percent of what lives, unless the operator says something
// else by GOGC: then it does nothing, and returns false. GOMEMLIMIT holds in
// either case.
func collectLess() bool {
	if _, set := os.LookupEnv("GOGC"); set {
		return false
	}
	debug.SetGCPercent(gcMost)
	afterCollection()
	return true
}

// afterCollection adjusts the percentage after each collection from now on: what
// nobody has is cleaned up by the next.
func afterCollection() {
	witness := new([64]byte) // too large to share its place with something that lives
	runtime.AddCleanup(witness, func(struct{}) {
		read := []metrics.Sample{
			{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/gogc:percent"},
		}
		metrics.Read(read)
		// The runtime takes the percentage of all three.
		live := read[0].Value.Uint64() + read[1].Value.Uint64() + read[2].Value.Uint64()
		if percent := gcPercent(live); percent != int(read[3].Value.Uint64()) {
			debug.SetGCPercent(percent)
		}
		afterCollection()
	}, struct{}{})
}

// gcPercent is by how much of so many bytes the heap may grow.
func gcPercent(live uint64) int {
	percent := int(min(gcHeadroom*100/max(live, 1), gcMost))
	return max(percent/gcStep*gcStep, gcLeast)
}
