// Package guestproc runs a guest that is a process of this host: it starts
// the process, gives it its descriptors, watches over it, ends it with all it
// started, and says how it ended. What isolates the process is the backend's.
//
// A guest has four descriptors: 0 at end-of-file or with the job's bytes, 1
// and 2 drained while it runs, and 3, one end of a socket pair: nothing else
// can connect to the other, and no name leads to it.
//
// On Windows the fourth is the handle of a pipe's end, and the process is in a
// job object that bounds its memory, lets it start no other, and ends it with
// us. A system that does not hold what a job object was told is refused.
package guestproc
