package main

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"airlock/job"
	"airlock/queue"
)

// tally counts what became of a batch's lines.
type tally struct {
	mu      sync.Mutex // guards what follows
	sum     summary
	total   int
	started time.Time
	// said are reasons that were told in full, with the line they were told
	// for.
	said map[string]int
}

// summary is what is said at the end of a batch. Lines is the sum of the other
// counts.
type summary struct {
	Batch string `json:"batch"`
	// Lines were read; blank ones do not count.
	Lines int `json:"lines"`
	// Done have a result, Earlier of them in the output file already when
	// this run began.
	Done     int                `json:"done"`
	Earlier  int                `json:"earlier"`
	Statuses map[job.Status]int `json:"statuses"`
	// Malformed lines are no jobs, Refused ones have another reason, such as
	// a key that another job has.
	Malformed   int `json:"malformed"`
	Refused     int `json:"refused"`
	Unplaceable int `json:"unplaceable"`
	// Unfinished lines were read and have neither result nor refusal.
	Unfinished int     `json:"unfinished"`
	Seconds    float64 `json:"seconds"`
	// Problems are the first lines that did not run.
	Problems []problem `json:"problems,omitzero"`
}

// problem is a line that did not run.
type problem struct {
	Line   int    `json:"line"`
	Field  string `json:"field,omitzero"`
	Reason string `json:"reason"`
}

// maxProblems bounds what a summary names, and what is remembered as said.
const maxProblems = 100

func newTally() *tally {
	return &tally{sum: summary{Statuses: map[job.Status]int{}}, started: time.Now(), said: map[string]int{}}
}

// expect sets how many lines there will be, where that is known.
func (t *tally) expect(total int) { t.update(func() { t.total = total }) }

func (t *tally) read() { t.update(func() { t.sum.Lines++ }) }

func (t *tally) ended(s job.Status) {
	t.update(func() { t.sum.Done++; t.sum.Statuses[s]++ })
}

func (t *tally) earlier(s job.Status) {
	t.update(func() { t.sum.Done++; t.sum.Earlier++; t.sum.Statuses[s]++ })
}

func (t *tally) update(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// refused counts a line that does not run and returns what to say of it.
func (t *tally) refused(line int, err error) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := problem{Line: line, Reason: err.Error()}
	var (
		field       *job.FieldError
		unplaceable *queue.UnplaceableError
	)
	switch {
	case errors.As(err, &field):
		t.sum.Malformed++
		p.Field, p.Reason = field.Field, field.Reason
	case errors.As(err, &unplaceable):
		t.sum.Unplaceable++
		if earlier, ok := t.said[p.Reason]; ok {
			return fmt.Sprintf("line %d: no worker can run this job, as line %d", line, earlier)
		}
	default:
		t.sum.Refused++
	}
	if len(t.sum.Problems) < maxProblems {
		t.sum.Problems = append(t.sum.Problems, p)
		t.said[p.Reason] = line
	}
	return fmt.Sprintf("line %d: %v", line, err)
}

func (t *tally) summary(batch string) summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.sum
	sum.Batch = batch
	sum.Statuses = maps.Clone(t.sum.Statuses)
	sum.Unfinished = sum.Lines - sum.settled()
	sum.Seconds = time.Since(t.started).Seconds()
	return sum
}

func (s *summary) settled() int { return s.Done + s.Malformed + s.Refused + s.Unplaceable }

// code is the exit code of a batch that was not interrupted.
func (s *summary) code() int {
	switch {
	case s.Unplaceable > 0:
		return codeUnplaceable
	case s.Statuses[job.StatusOK] < s.Lines:
		return codeFailed
	}
	return codeOK
}

// snapshot implements progressing.
func (t *tally) snapshot() snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return snapshot{
		done: t.sum.settled(), total: max(t.total, t.sum.Lines), fresh: t.sum.settled() - t.sum.Earlier,
		statuses: maps.Clone(t.sum.Statuses), refused: t.sum.Malformed + t.sum.Refused + t.sum.Unplaceable,
		elapsed: time.Since(t.started),
	}
}

// printSummary prints a table, or JSON with --json.
func (a *app) printSummary(to output, s summary) error {
	if a.flags.JSON {
		return to.document(s)
	}
	g := newGrid()
	for _, status := range job.Statuses() {
		addCount(g, string(status), s.Statuses[status])
	}
	addCount(g, "malformed", s.Malformed)
	addCount(g, "refused", s.Refused)
	addCount(g, "not placeable", s.Unplaceable)
	addCount(g, "not finished", s.Unfinished)
	g.add("lines", s.Lines)
	tail := fmt.Sprintf("batch %s, %s", s.Batch, time.Duration(s.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	if s.Earlier > 0 {
		tail += fmt.Sprintf(", %d of the results were there before", s.Earlier)
	}
	return to.text(g.Render() + "\n" + tail + "\n")
}

func addCount(g grid, name string, n int) {
	if n > 0 {
		g.add(name, n)
	}
}
