package main

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"airlock/job"
)

// tracker matches results to the lines that wait for them.
type tracker struct {
	mu      sync.Mutex // guards all fields
	waiting map[job.ID]waiter
	early   earlyResults
	// moved is when a result was last matched.
	moved time.Time
}

// waiter is what waits for one job: nearly always one line.
type waiter struct {
	ref
	more []ref
	// poll is set when the announcement may not come past us.
	poll bool
}

func newTracker() *tracker {
	return &tracker{waiting: map[job.ID]waiter{}, moved: time.Now()}
}

// expect registers a line before its job is submitted, since the result can
// come before the receipt does.
func (t *tracker) expect(id job.ID, r ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(id, r, false)
}

func (t *tracker) add(id job.ID, r ref, poll bool) {
	w, ok := t.waiting[id]
	if !ok {
		t.waiting[id] = waiter{ref: r, poll: poll}
		return
	}
	w.more = append(w.more, r)
	w.poll = w.poll || poll
	t.waiting[id] = w
}

// forget takes back an expect.
func (t *tracker) forget(id job.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, id)
}

// rename moves a line to the earlier job that its key is known for. If that
// job's result came by before, rename returns it and nothing waits.
func (t *tracker) rename(from, to job.ID, r ref) *job.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, from)
	if result := t.early.take(to); result != nil {
		return result
	}
	t.add(to, r, r.own)
	return nil
}

// poll makes sure that somebody asks for the job.
func (t *tracker) poll(id job.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w, ok := t.waiting[id]; ok {
		w.poll = true
		t.waiting[id] = w
	}
}

// match returns the lines that the result is for. A result that no line waits
// for is kept for a while: its line may not have been read yet.
func (t *tracker) match(result *job.Result) []ref {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.waiting[result.Job]
	if !ok {
		t.early.put(result)
		return nil
	}
	delete(t.waiting, result.Job)
	t.moved = time.Now()
	return append([]ref{w.ref}, w.more...)
}

// doubtful lists up to limit jobs, the next after the given one by id, whose
// result should be asked for: those of poll, and all when nothing has come for
// long.
func (t *tracker) doubtful(after job.ID, quiet time.Duration, limit int) []job.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	stuck := time.Since(t.moved) >= quiet
	var ids []job.ID
	for id, w := range t.waiting {
		if (stuck || w.poll) && bytes.Compare(id[:], after[:]) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids[:min(len(ids), limit)]
}

// earlyResults keeps results that nobody waits for yet, the newest of them.
// The zero value is ready.
type earlyResults struct {
	byID  map[job.ID]*job.Result
	order []job.ID
	bytes int
}

// maxEarly is how much of them is kept. A result that fell out is asked for.
const maxEarly = 32 << 20

func (e *earlyResults) put(r *job.Result) {
	if e.byID == nil {
		e.byID = map[job.ID]*job.Result{}
	}
	if e.byID[r.Job] != nil {
		return
	}
	if len(e.order) > 2*len(e.byID)+1024 {
		e.order = slices.DeleteFunc(e.order, func(id job.ID) bool { return e.byID[id] == nil })
	}
	e.byID[r.Job] = r
	e.order = append(e.order, r.Job)
	for e.bytes += weight(r); e.bytes > maxEarly; {
		oldest := e.order[0]
		e.order = e.order[1:]
		e.take(oldest)
	}
}

// take removes and returns a result, or nil. Its place in order stays until
// put tidies up.
func (e *earlyResults) take(id job.ID) *job.Result {
	r := e.byID[id]
	if r == nil {
		return nil
	}
	delete(e.byID, id)
	e.bytes -= weight(r)
	return r
}

// weight is about what a result takes in memory.
func weight(r *job.Result) int {
	const own = 1 << 10
	return own + len(r.Value) + len(r.Stdout) + len(r.Stderr)
}
