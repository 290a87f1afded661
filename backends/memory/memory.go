// Package memory says when a worker is about to run out of it.
package memory

// spare is the part of the memory that is kept for what jobs need next: where
// less is free, what only makes jobs faster gives way. A guest's limit is a
// quarter of a gigabyte by default, so a tenth is a few guests on the smallest
// host that has slots for them, and not so much that a large one wastes it.
const spare = 0.10

// Tight reports whether less than a tenth is free of the memory of the host, or
// of what the worker's control group or one above it may use. What cannot be
// read, as on other systems than Linux, is never tight. It reads a few files of
// the kernel, and may be called from several goroutines at once.
func Tight() bool { return tight() }

// full reports whether less than the spare part of the whole is free.
func full(free, whole int64) bool { return float64(free) < spare*float64(whole) }
