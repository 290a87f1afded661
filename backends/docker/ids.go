package docker

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// The users of guests, each of one guest at a time: the kernel counts pending
// signals, pipes and watched files by user, also across containers, unless the
// engine remaps users. The range is one that neither distributions nor systemd
// hand out, and is within the 65,536 of an engine that remaps.
const (
	firstUID = 60706
	uids     = 478
)

// ids hands out users.
type ids struct {
	mu   sync.Mutex
	used [uids]bool // guarded by mu
	next int        // guarded by mu
}

// newIDs begins anywhere, so that workers on one host seldom meet.
func newIDs() *ids { return &ids{next: rand.IntN(uids)} }

// take returns a user that no other guest of this backend has, and what to give it
// back with.
func (i *ids) take() (uid int, back func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for range uids {
		n := i.next
		i.next = (n + 1) % uids
		if !i.used[n] {
			i.used[n] = true
			return firstUID + n, func() {
				i.mu.Lock()
				defer i.mu.Unlock()
				i.used[n] = false
			}, nil
		}
	}
	return 0, nil, fmt.Errorf("more than %d guests at once", uids)
}
