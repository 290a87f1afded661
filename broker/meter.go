package broker

import (
	"sync"
	"time"
)

// meter measures the time in which at least one call is open, and says when
// it is used up.
type meter struct {
	expire func()

	mu      sync.Mutex
	left    time.Duration // guarded by mu, as all below
	waited  time.Duration // before since
	open    int
	since   time.Time
	timer   *time.Timer
	expired bool
}

// newMeter makes a meter that calls expire, once, when limit is used up.
func newMeter(limit time.Duration, expire func()) *meter {
	return &meter{left: limit, expire: expire}
}

// begin opens a call and returns the time that is left for it. It returns
// false, and opens nothing, when the time is used up.
func (m *meter) begin() (left time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expired {
		return 0, false
	}
	if m.open == 0 {
		m.since = time.Now()
		m.timer = time.AfterFunc(m.left, m.runOut)
	}
	m.open++
	return m.left - time.Since(m.since), true
}

// end closes a call that begin opened.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open--; m.open > 0 {
		return
	}
	m.timer.Stop()
	spent := time.Since(m.since)
	m.waited += spent
	if m.left -= spent; m.left <= 0 {
		m.expired = true
	}
}

// usedUp reports whether begin would open nothing.
func (m *meter) usedUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expired
}

func (m *meter) runOut() {
	m.mu.Lock()
	m.expired = true
	m.mu.Unlock()
	m.expire()
}

// total is the time so far in which a call was open.
func (m *meter) total() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open > 0 {
		return m.waited + time.Since(m.since)
	}
	return m.waited
}
