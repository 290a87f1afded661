package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/gateway"
	"airlock/job"
)

// message is one server-sent event.
type message struct {
	id, name string
	data     gateway.JobEvent
}

// stream is an open stream of events, read as a browser would.
type stream struct {
	t        *testing.T
	resp     *http.Response
	lines    *bufio.Reader
	cut      context.CancelFunc
	comments []string
	// last is the id that a client would come back with.
	last string
}

// open asks for a stream, from the event after last.
func (w *world) open(path, last, token string) *stream {
	w.t.Helper()
	ctx, cut := context.WithCancel(w.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	must(w.t, err)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	must(w.t, err)
	s := &stream{t: w.t, resp: resp, lines: bufio.NewReader(resp.Body), cut: func() { cut(); resp.Body.Close() }, last: last}
	w.t.Cleanup(s.cut)
	return s
}

// line is one of them, however it ends.
func (s *stream) line() (string, error) {
	var b strings.Builder
	for {
		c, err := s.lines.ReadByte()
		switch {
		case err != nil:
			return b.String(), err
		case c == '\n':
			return b.String(), nil
		case c == '\r':
			if next, err := s.lines.Peek(1); err == nil && next[0] == '\n' {
				_, _ = s.lines.ReadByte()
			}
			return b.String(), nil
		}
		b.WriteByte(c)
	}
}

// next is the next event; false at the stream's end.
func (s *stream) next() (m message, ok bool) {
	s.t.Helper()
	data, seen := "", false
	for {
		line, err := s.line()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrUnexpectedEOF) {
				s.t.Logf("stream: %v", err)
			}
			return m, false
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && !seen:
		case line == "":
			if err := json.Unmarshal([]byte(data), &m.data, json.RejectUnknownMembers(true)); err != nil {
				s.t.Errorf("event %s: %v in %q", m.name, err, data)
			}
			return m, true
		case field == "":
			s.comments = append(s.comments, value)
		case field == "id":
			m.id, s.last = value, value
		case field == "event":
			m.name, seen = value, true
		case field == "data":
			data, seen = data+value, true
		default:
			s.t.Errorf("got line %q of no known field", line)
		}
	}
}

// rest reads to the end.
func (s *stream) rest() (all []message) {
	s.t.Helper()
	for m, ok := s.next(); ok; m, ok = s.next() {
		all = append(all, m)
	}
	return all
}

// scripted is a worker that plays what a test says, telling of it as a real one
// does.
type scripted struct {
	w       *world
	attempt *job.Attempt
	tell    func(*job.Job, job.News)
	link    int
	printed map[string][]byte
}

// newGate makes what a script waits at. The test defers open too: the world ends
// when its scripts have.
func newGate() (gate <-chan struct{}, open func()) {
	c := make(chan struct{})
	return c, sync.OnceFunc(func() { close(c) })
}

// script is what happens in one attempt; false gives the job back.
type script func(s *scripted) (ended bool)

// scriptedBy makes what setUp.play takes.
func scriptedBy(tell func(w *world, j *job.Job, n job.News), run script) func(*world, context.Context, job.Delivery) {
	return func(w *world, ctx context.Context, d job.Delivery) {
		claim, ok := w.claim(ctx, d)
		if !ok {
			return
		}
		s := &scripted{
			w: w, attempt: &job.Attempt{Job: d.Job, Number: claim.Attempt, Worker: "played"}, printed: map[string][]byte{},
			tell: func(j *job.Job, n job.News) { tell(w, j, n) },
		}
		s.news(job.News{Kind: job.NewsClaimed, Worker: "played", Backend: "fake"})
		s.news(job.News{Kind: job.NewsStarted})
		if !run(s) {
			if err := insist(ctx, func() error { return w.store.Release(ctx, s.attempt) }); err != nil {
				w.t.Logf("release: %v", err)
			}
			_ = d.Later(0)
			return
		}
		r := outcome(d.Job)
		r.Attempt, r.Finished, r.Usage.Startup = claim.Attempt, time.Now().UTC(), job.Duration(time.Millisecond)
		r.Stdout, r.StdoutBytes = s.printed["stdout"], int64(len(s.printed["stdout"]))
		w.finish(ctx, d, r)
	}
}

// faithful tells all news.
func faithful(w *world, j *job.Job, n job.News) { w.queue.Tell(j, n) }

func (s *scripted) news(n job.News) {
	n.Attempt, n.At = s.attempt.Number, time.Now().UTC()
	s.tell(s.attempt.Job, n)
}

func (s *scripted) print(stream string, text []byte) {
	s.news(job.News{Kind: job.NewsOutput, Stream: stream, Offset: int64(len(s.printed[stream])), Data: text})
	s.printed[stream] = append(s.printed[stream], text...)
}

// start records that a call was made, and tells it.
func (s *scripted) start(seq int) *job.Call {
	s.link++
	c := &job.Call{
		Job: s.attempt.Job.ID, Attempt: s.attempt.Number, Seq: seq, Namespace: "math", Name: "add", Arguments: []byte(`{"secret":1}`),
		State: job.CallStarted, Started: time.Now().UTC().Truncate(time.Microsecond), StartLink: s.link, StartHash: []byte("x"),
	}
	if err := insist(s.w.t.Context(), func() error { return s.w.store.CallStarted(context.Background(), s.attempt, *c) }); err != nil {
		s.w.t.Logf("call started: %v", err)
	}
	s.tell(s.attempt.Job, job.CallNews(c))
	return c
}

func (s *scripted) end(c *job.Call, state job.CallState) {
	s.link++
	c.State, c.Answer, c.Ended, c.EndLink, c.EndHash = state, []byte(`"secret"`), time.Now().UTC().Truncate(time.Microsecond), s.link, []byte("y")
	if err := insist(s.w.t.Context(), func() error { return s.w.store.CallEnded(context.Background(), s.attempt, *c) }); err != nil {
		s.w.t.Logf("call ended: %v", err)
	}
	s.tell(s.attempt.Job, job.CallNews(c))
}

// submitted is a job that is in the queue.
func (w *world) submitted(body, token string) job.ID {
	w.t.Helper()
	r := w.ask(asking{method: http.MethodPost, path: "/v1/jobs", body: body, token: token})
	if r.status != http.StatusAccepted {
		w.t.Fatalf("got %d %s, want the job taken", r.status, r.body)
	}
	return into[gateway.Receipt](w.t, r).ID
}
