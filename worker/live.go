package worker

import (
	"sync"
	"time"
	"unicode/utf8"

	"airlock/job"
)

// What a guest prints is told while it runs at this pace, so that one that
// floods costs its neighbours nothing. The result has what is kept, in any case.
const (
	liveEvery = 100 * time.Millisecond
	liveChunk = 32 << 10
	// liveLast is how many messages of each stream are told of what is left
	// when the guest has ended.
	liveLast = 8
)

// live tells what a guest prints, as far as it is kept. Nil does nothing.
type live struct {
	tell    func(job.News)
	attempt int

	// telling is held while news are told, so that they keep their order. It is
	// taken before mu.
	telling sync.Mutex
	// mu guards what follows, and what the streams keep.
	mu      sync.Mutex
	streams []*liveStream
	timer   *time.Timer
	armed   bool
	closed  bool
	last    time.Time
}

// liveStream is how far one stream was told.
type liveStream struct {
	name string
	from *stream
	sent int
}

// tellLive has what is printed told from now on.
func (o *output) tellLive(attempt int, tell func(job.News)) {
	o.live = &live{tell: tell, attempt: attempt, streams: []*liveStream{
		{name: "stdout", from: &o.stdout}, {name: "stderr", from: &o.stderr},
	}}
}

// add keeps what came on a stream, which is told in a moment.
func (l *live) add(s *stream, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.kept = append(s.kept, p...)
	if !l.armed && !l.closed {
		l.arm()
	}
}

// arm has flush called when it is time; mu is held.
func (l *live) arm() {
	l.armed = true
	wait := max(0, liveEvery-time.Since(l.last))
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.flush)
		return
	}
	l.timer.Reset(wait)
}

// flush tells one message of each stream that has something new.
func (l *live) flush() {
	l.telling.Lock()
	defer l.telling.Unlock()
	for _, n := range l.take(false) {
		l.tell(n)
	}
}

// take is what is to be told now. When it is not the last time, a character of
// which a part is still to come is left for the next.
func (l *live) take(last bool) (news []job.News) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && !last {
		return nil
	}
	l.armed, l.last = false, time.Now()
	more := false
	for _, s := range l.streams {
		// What is kept is only ever added to.
		rest := s.from.kept[s.sent:]
		chunk := rest[:min(len(rest), liveChunk)]
		if !last || len(chunk) < len(rest) {
			chunk = whole(chunk)
		}
		if len(chunk) == 0 {
			continue
		}
		news = append(news, job.News{
			Kind: job.NewsOutput, Attempt: l.attempt, At: l.last.UTC(), Stream: s.name, Offset: int64(s.sent), Data: chunk,
		})
		s.sent += len(chunk)
		more = more || s.sent < len(s.from.kept)
	}
	if more && !l.closed {
		l.arm()
	}
	return news
}

// whole is the text without the beginning of a character at its end.
func whole(text []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if i := len(text) - back; utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}

// close tells what is left, up to a bound, and nothing any more after that. It
// returns when nothing is being told.
func (l *live) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.telling.Lock()
	defer l.telling.Unlock()
	for range liveLast {
		for _, n := range l.take(true) {
			l.tell(n)
		}
	}
}
