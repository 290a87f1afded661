package gateway

import (
	"sync"

	"airlock/job"
	"airlock/queue"
)

// What waits for one client that follows events. One that reads more slowly
// than they come is sent away, and may come again.
const (
	maxUnread      = 1024
	maxUnreadBytes = 1 << 20
)

// hub passes news on to those who follow a job or a batch.
type hub struct {
	mu      sync.RWMutex
	jobs    map[job.ID][]*listener    // guarded by mu
	batches map[batchName][]*listener // guarded by mu
}

type batchName struct{ tenant, name string }

// listener is one who follows.
type listener struct {
	tenant string
	leave  func()
	// wake has a place for the news that there are some.
	wake chan struct{}

	mu     sync.Mutex
	unread []queue.Event // guarded by mu, as all below
	bytes  int
	ended  bool
	slow   bool
}

// follow hears of a job from now on. The caller calls leave.
func (h *hub) follow(tenant string, id job.ID) *listener {
	l := &listener{tenant: tenant, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jobs == nil {
		h.jobs = map[job.ID][]*listener{}
	}
	h.jobs[id] = append(h.jobs[id], l)
	l.leave = func() { dismiss(h, h.jobs, id, l) }
	return l
}

// followBatch hears that jobs of a batch have ended. The caller calls leave.
func (h *hub) followBatch(tenant, batch string) *listener {
	name := batchName{tenant, batch}
	l := &listener{tenant: tenant, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.batches == nil {
		h.batches = map[batchName][]*listener{}
	}
	h.batches[name] = append(h.batches[name], l)
	l.leave = func() { dismiss(h, h.batches, name, l) }
	return l
}

func dismiss[K comparable](h *hub, from map[K][]*listener, key K, gone *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var rest []*listener
	for _, l := range from[key] {
		if l != gone {
			rest = append(rest, l)
		}
	}
	if len(rest) == 0 {
		delete(from, key)
		return
	}
	from[key] = rest
}

// wanted reports whether anybody follows the job.
func (h *hub) wanted(id job.ID) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.jobs[id]) > 0
}

// heard passes news of a job on. It waits for nobody.
func (h *hub) heard(e queue.Event) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, l := range h.jobs[e.Job] {
		if l.tenant == e.Tenant {
			l.add(e)
		}
	}
}

// ended passes on that a job has ended.
func (h *hub) ended(a queue.Announcement) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, l := range h.jobs[a.Job] {
		if l.tenant == a.Tenant {
			l.end()
		}
	}
	if a.Batch == "" {
		return
	}
	for _, l := range h.batches[batchName{a.Tenant, a.Batch}] {
		l.end()
	}
}

func (l *listener) add(e queue.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow {
		return
	}
	if len(l.unread) >= maxUnread || l.bytes+e.Size > maxUnreadBytes {
		l.slow, l.unread = true, nil
	} else {
		l.unread = append(l.unread, e)
		l.bytes += e.Size
	}
	l.stir()
}

func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.stir()
}

func (l *listener) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take is what was heard since the last time: news, and whether there was an
// end. It is not ok once there was more than is kept.
func (l *listener) take() (news []queue.Event, ended, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news, ended = l.unread, l.ended
	l.unread, l.bytes, l.ended = nil, 0, false
	return news, ended, !l.slow
}
