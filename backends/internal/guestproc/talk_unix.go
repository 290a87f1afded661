//go:build unix

package guestproc

import "time"

// dying is how long a guest may take from hanging up to being seen to be dead.
const dying = 50 * time.Millisecond

// gone reports whether Serve failed because the guest had ended, rather than
// because of what it said: a guest whose end of the channel is closed is
// given a moment to turn out to be dead.
func gone(p Process, ch *channel) bool {
	if !ch.ended.Load() {
		return false
	}
	select {
	case <-p.Exited():
		return true
	case <-time.After(dying):
		return false
	}
}
