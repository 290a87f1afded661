package docker

import "sync"

// credit is how many bytes may be sent. The zero value is none.
type credit struct {
	mu     sync.Mutex
	change sync.Cond
	left   int  // guarded by mu
	closed bool // guarded by mu
}

func newCredit() *credit {
	c := &credit{left: window}
	c.change.L = &c.mu
	return c
}

// take waits for some and takes up to most. It returns 0 once closed.
func (c *credit) take(most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left == 0 && !c.closed {
		c.change.Wait()
	}
	if c.closed {
		return 0
	}
	n := min(c.left, most)
	c.left -= n
	return n
}

func (c *credit) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = min(c.left+n, window)
	c.change.Broadcast()
}

func (c *credit) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.change.Broadcast()
}

// backlog holds what the guest said and nobody has read yet. The container may
// not send more than it was granted, and what its kernel held when it ended.
type backlog struct {
	mu     sync.Mutex
	change sync.Cond
	held   []byte // guarded by mu
	closed bool   // guarded by mu
}

const maxBacklog = 2 * window

func newBacklog() *backlog {
	b := &backlog{}
	b.change.L = &b.mu
	return b
}

// put reports false when there is no room, which no container of ours does.
func (b *backlog) put(p []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held)+len(p) > maxBacklog {
		return false
	}
	b.held = append(b.held, p...)
	b.change.Broadcast()
	return true
}

// take waits for bytes and takes all. It returns none after close.
func (b *backlog) take() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.held) == 0 && !b.closed {
		b.change.Wait()
	}
	all := b.held
	b.held = nil
	return all
}

func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.change.Broadcast()
}
