package main

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap grow to five times what lives before it is looked
// through, which at many small jobs a second takes a sixth of the worker's
// processor time off. What lives is some ten MiB, and less than results in hand.
const gcPercent = 400

// collectLess sets gcPercent, unless the operator says something else by GOGC.
func collectLess() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
}
