package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"airlock/broker/policy"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// Past is the record of calls that were made before; *store.Store is one.
type Past interface {
	// Recorded gives the calls that q chooses to each, one at a time, by
	// attempt and sequence. What each returns ends it and is returned.
	Recorded(ctx context.Context, q job.CallQuery, each func(job.Call) error) error
}

// past knows which calls are recorded, and reads them when they are made again.
// Beside an outline it holds nothing, so that it takes about a hundred bytes a
// call however large the answers are. It does not change.
type past struct {
	source Past
	tenant string
	job    job.ID
	// only: what is not recorded is not made.
	only  bool
	calls map[sameness][]reference // in the order of equal calls
	tools []*Tool                  // only in a replay: those that were called
}

// reference is where a call is recorded; the zero one is nowhere.
type reference struct{ attempt, seq int }

// rules reports whether the record alone decides what a call brings.
func (p *past) rules() bool { return p != nil && p.only }

// find returns where the nth of equal calls is recorded.
func (p *past) find(same sameness, ordinal int) (at reference, ok bool) {
	if p == nil || ordinal > len(p.calls[same]) {
		return at, false
	}
	at = p.calls[same][ordinal-1]
	return at, at.seq != 0
}

// remember outlines what an attempt's calls may be answered from. It asks
// nothing for a first attempt.
func (b *Broker) remember(ctx context.Context, a *job.Attempt) (*past, error) {
	j := a.Job
	p := &past{source: b.cfg.Past, tenant: j.Tenant, job: j.ID, calls: map[sameness][]reference{}}
	switch {
	case !j.ReplayOf.IsZero():
		p.job, p.only = j.ReplayOf, true
	case a.Number == 1 || j.OnRetry == job.OnRetryRecall:
		return nil, nil
	}
	if p.source == nil {
		return p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	err := persist(ctx, func() error { return p.outline(ctx, a) })
	if err != nil {
		return nil, fmt.Errorf("%w: read what was recorded: %w", errOurs, err)
	}
	return p, nil
}

func (p *past) outline(ctx context.Context, a *job.Attempt) error {
	clear(p.calls)
	q := job.CallQuery{Tenant: p.tenant, Job: p.job, Before: a.Number, Outline: true}
	if p.only {
		q.Last, q.Before = true, 0
		return p.source.Recorded(ctx, q, func(c job.Call) error { p.take(a.Job.ID, &c); return nil })
	}
	o := outliner{past: p, id: a.Job.ID}
	return p.source.Recorded(ctx, q, func(c job.Call) error { o.take(&c); return nil })
}

// take notes a call for a replay.
func (p *past) take(id job.ID, c *job.Call) {
	if decided(c) {
		return
	}
	same, _ := samenessOf(id, c.Namespace, c.Name, c.Arguments)
	p.calls[same] = append(p.calls[same], reference{c.Attempt, c.Seq})
	if !slices.ContainsFunc(p.tools, func(t *Tool) bool { return t.Namespace == c.Namespace && t.Name == c.Name }) {
		p.tools = append(p.tools, unannounced(c.Namespace, c.Name))
	}
}

// decided reports whether a call was refused for what the job and the call are,
// which a replay finds for itself.
func decided(c *job.Call) bool {
	if c.State != job.CallRefused {
		return false
	}
	switch Code(c.Code) {
	case CodeBadName, CodeNamespaceNotAllowed, CodeNotGranted, CodeFinished:
		return true
	}
	return false
}

// outliner lines the calls of several attempts up. In each attempt, those that
// were not answered from an earlier one were, in order, the ones whose answers
// no earlier attempt has.
type outliner struct {
	past    *past
	id      job.ID
	attempt int
	next    map[sameness]int // of this attempt: the first place that is not taken
}

func (o *outliner) take(c *job.Call) {
	if c.Attempt != o.attempt {
		o.attempt, o.next = c.Attempt, map[sameness]int{}
	}
	if c.StartLink == 0 && Code(c.Code) != CodeNotRecorded {
		return // replayed, or refused before it was counted
	}
	same, _ := samenessOf(o.id, c.Namespace, c.Name, c.Arguments)
	places, at := o.past.calls[same], o.next[same]
	for at < len(places) && places[at].seq != 0 {
		at++
	}
	if at == len(places) {
		places = append(places, reference{})
	}
	if answered(c) {
		places[at] = reference{c.Attempt, c.Seq}
	}
	o.past.calls[same], o.next[same] = places, at+1
}

// answered reports whether what a call brought is known, and was the tool's
// doing: anything else says nothing of what a call would bring now.
func answered(c *job.Call) bool {
	switch c.State {
	case job.CallOK, job.CallLate:
		return true
	case job.CallFailed:
		switch Code(c.Code) {
		case CodeProviderError, CodeBadAnswer, CodeTooLarge:
			return true
		}
	}
	return false
}

// read returns the recorded call.
func (p *past) read(ctx context.Context, at reference) (*job.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	var found *job.Call
	err := persist(ctx, func() error {
		found = nil
		q := job.CallQuery{Tenant: p.tenant, Job: p.job, Attempt: at.attempt, Seq: at.seq}
		return p.source.Recorded(ctx, q, func(c job.Call) error { found = &c; return nil })
	})
	if err == nil && found == nil {
		err = errors.New("the recorded call is not there any more")
	}
	return found, err
}

// told is what a recorded call told its guest: a value, or a refusal. kept is
// false when the record does not say, or not in full.
func told(c *job.Call) (value jsontext.Value, no *refusal, kept bool) {
	switch {
	case c.State == job.CallStarted:
		return nil, nil, false
	case c.Code == "":
		return c.Answer, nil, unredacted(c.Answer)
	}
	no = &refusal{code: Code(c.Code), message: c.Message, retryable: c.Retryable, recorded: true, foreign: true}
	return nil, no, !strings.Contains(c.Message, policy.Redacted)
}

// known is what a recorded call brought, which of a late one no guest was told.
// kept is as for told.
func known(c *job.Call) (value jsontext.Value, no *refusal, kept bool) {
	if c.State == job.CallLate {
		return c.Answer, nil, unredacted(c.Answer)
	}
	return told(c)
}

// unredacted reports whether a recorded document is what was sent, and nothing of it
// was redacted. One that says so by itself is not taken for whole either.
func unredacted(doc jsontext.Value) bool {
	if len(doc) == 0 {
		return false
	}
	if !bytes.Contains(doc, []byte(policy.Redacted)) {
		return true
	}
	dec := jsontext.NewDecoder(bytes.NewReader(doc))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if token.Kind() == '"' && token.String() == policy.Redacted {
			return false
		}
	}
}
