package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"airlock/broker"
	"airlock/job"
	"airlock/queue"
	"airlock/store"
)

const (
	// lookEvery is how often the database is asked about the calls that wait,
	// since the message that something was decided may get lost.
	lookEvery = 3 * time.Second
	// lookTime bounds one look.
	lookTime = 10 * time.Second
	// maxApprovals bounds one list of requests.
	maxApprovals = 1000
	// maxListedArguments is how much of a call's arguments a list shows; who
	// asks for one request sees all.
	maxListedArguments = 16 << 10
)

// approvals has persons decide about calls: the requests are rows of the
// database, and so are the decisions, which messages only announce.
type approvals struct {
	store *store.Store
	log   zerolog.Logger
	// wake has a place for the news that something may have been decided.
	wake chan struct{}

	mu      sync.Mutex
	waiting map[job.CallRef]chan job.Approval // guarded by mu
}

var _ broker.Approvals = (*approvals)(nil)

func newApprovals(s *store.Store, log zerolog.Logger) *approvals {
	return &approvals{store: s, log: log, wake: make(chan struct{}, 1), waiting: map[job.CallRef]chan job.Approval{}}
}

// Ask implements broker.Approvals.
func (p *approvals) Ask(ctx context.Context, a *job.Attempt, c job.Call, within time.Duration) (job.Approval, error) {
	ref := job.CallRef{Job: c.Job, Attempt: c.Attempt, Seq: c.Seq}
	decided := make(chan job.Approval, 1)
	p.put(ref, decided)
	defer p.put(ref, nil)
	if err := p.store.AskApproval(ctx, a, c, within); err != nil {
		return job.Approval{}, err
	}
	p.log.Info().Stringer("call", ref).Str("tenant", a.Job.Tenant).Str("tool", c.Namespace+"."+c.Name).Msg("a call waits for approval")
	// The database's clock decides what is over; this only has it looked at.
	over := time.AfterFunc(within, p.look)
	defer over.Stop()
	select {
	case d := <-decided:
		p.log.Info().Stringer("call", ref).Str("decision", string(d.State)).Msg("a call waits no longer")
		return d, nil
	case <-ctx.Done():
		return job.Approval{}, p.giveUp(ctx, ref)
	}
}

// giveUp notes that nobody waits any more, unless the lease is lost: then
// nothing more may be written, and the row is found to be gone.
func (p *approvals) giveUp(ctx context.Context, ref job.CallRef) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, job.ErrLeaseLost) || errors.Is(cause, job.ErrFenced) {
		return cause
	}
	if err := p.store.ApprovalGone(ctx, ref); err != nil {
		p.log.Warn().Err(err).Stringer("call", ref).Msg("the end of a wait for approval is not recorded")
	}
	return cause
}

// put sets who waits for a call's decision; nil is nobody.
func (p *approvals) put(ref job.CallRef, decided chan job.Approval) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if decided == nil {
		delete(p.waiting, ref)
		return
	}
	p.waiting[ref] = decided
}

// refs are the calls that wait.
func (p *approvals) refs() []job.CallRef {
	p.mu.Lock()
	defer p.mu.Unlock()
	refs := make([]job.CallRef, 0, len(p.waiting))
	for ref := range p.waiting {
		refs = append(refs, ref)
	}
	return refs
}

// look has the database asked soon.
func (p *approvals) look() {
	select {
	case p.wake <- struct{}{}:
	default: // it is about to be
	}
}

// heard is told of decisions about a job's calls.
func (p *approvals) heard(id job.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range p.waiting {
		if ref.Job == id {
			p.look()
			return
		}
	}
}

// run asks the database about the calls that wait, until ctx ends. While none
// does it asks nothing.
func (p *approvals) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.wake:
		}
		if refs := p.refs(); len(refs) > 0 {
			p.deliver(ctx, refs)
		}
	}
}

func (p *approvals) deliver(ctx context.Context, refs []job.CallRef) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	decided, err := p.store.Decisions(ctx, refs)
	if err != nil {
		p.log.Warn().Err(err).Msg("approvals not looked at")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range decided {
		select {
		case p.waiting[d.CallRef] <- d:
		default: // it was told before, or waits no longer
		}
	}
}

// serveDecisions takes decisions and hands them to who waits, until ctx ends.
func (p *pool) serveDecisions(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { p.approvals.run(ctx); return nil })
	group.Go(func() error { return p.queue.WatchDecisions(ctx, p.approvals.heard) })
	group.Go(func() error { return p.queue.AnswerDecisions(ctx, verb(p.decide)) })
	return group.Wait()
}

// The requests of the verbs about approvals.
type approvalsRequest struct {
	// All lists the decided ones too.
	All bool `json:"all,omitzero"`
	// Call asks for one request, with all of its arguments. Only what names
	// the call is read of it.
	Call *job.Decision `json:"call,omitzero"`
}

// listApprovals answers what waits for a person.
func (p *pool) listApprovals(ctx context.Context, tenant string, r approvalsRequest) (any, error) {
	if r.Call != nil {
		one, err := p.store.Approval(ctx, tenant, *r.Call)
		return map[string][]job.Approval{"approvals": {one}}, err
	}
	list, err := p.store.Approvals(ctx, tenant, r.All, maxApprovals)
	for i := range list {
		list[i].Arguments = broker.Abridge(list[i].Arguments, maxListedArguments)
	}
	return map[string][]job.Approval{"approvals": list}, err
}

// decide takes a person's decision.
func (p *pool) decide(ctx context.Context, tenant string, d job.Decision) (any, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	d.By, d.Reason = job.Printable(d.By, job.MaxApprover), job.PrintableLines(d.Reason, job.MaxReason)
	now, err := p.store.Decide(ctx, tenant, d)
	if errors.Is(err, store.ErrDecided) || errors.Is(err, store.ErrAmbiguous) {
		return nil, &queue.RemoteError{Code: codeConflict, Message: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	// Who waits looks again soon, should this get lost.
	if err := p.queue.AnnounceDecision(now.Job); err != nil {
		p.log.Warn().Err(err).Msg("decision not announced")
	}
	return now, nil
}
