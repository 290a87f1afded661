package worker

import (
	"sync"
	"time"

	"airlock/job"
)

// output keeps the head of a guest's two streams and counts all of them.
type output struct {
	stdout, stderr stream
	// over is called once, when both streams together exceed
	// job.MaxOutputTotal.
	over func()
	// live, if set, is told of what is kept.
	live *live

	mu    sync.Mutex
	total int64     // guarded by mu, as all below
	first time.Time // when the first byte came
	fired bool
}

// stream is one of them. It is written by one goroutine and read after that
// has ended.
type stream struct {
	out   *output
	keep  int
	kept  []byte
	total int64
}

func newOutput(limit job.Size, over func()) *output {
	o := &output{over: over}
	o.stdout = stream{out: o, keep: int(limit)}
	o.stderr = stream{out: o, keep: int(limit)}
	return o
}

// Write never fails: a guest that prints too much is ended, not refused.
func (s *stream) Write(p []byte) (int, error) {
	if room := s.keep - len(s.kept); room > 0 {
		s.add(p[:min(room, len(p))])
	}
	s.total += int64(len(p))
	s.out.count(len(p))
	return len(p), nil
}

func (s *stream) add(p []byte) {
	if s.out.live != nil {
		s.out.live.add(s, p)
		return
	}
	s.kept = append(s.kept, p...)
}

func (s *stream) truncated() bool { return s.total > int64(len(s.kept)) }

func (o *output) count(n int) {
	o.mu.Lock()
	if o.total == 0 && n > 0 {
		o.first = time.Now()
	}
	o.total += int64(n)
	fire := !o.fired && o.total > int64(job.MaxOutputTotal)
	o.fired = o.fired || fire
	o.mu.Unlock()
	if fire {
		o.over()
	}
}

// began is when the guest printed first; zero if it did not.
func (o *output) began() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first
}
