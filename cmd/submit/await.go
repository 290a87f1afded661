package main

import (
	"context"
	"sync"
	"time"

	"airlock/job"
	"airlock/queue"
)

// askEvery is how often a wait asks the workers, in case the announcement of
// a result was lost.
const askEvery = 15 * time.Second

// await waits for a job's result. It comes as an announcement, or, where that
// is no longer kept or was lost, from a worker that is asked.
func (s *session) await(ctx context.Context, r queue.Receipt) (*job.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan *job.Result, 2)
	var wg sync.WaitGroup
	wg.Go(func() { s.listen(ctx, r.Job, found) })
	wg.Go(func() { s.enquire(ctx, r, found) })
	defer wg.Wait()
	defer cancel()
	select {
	case result := <-found:
		return result, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// awaitAloud is await, which tells where the job stands while it waits.
func (s *session) awaitAloud(ctx context.Context, j *job.Job, r queue.Receipt) (*job.Result, error) {
	telling, enough := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer enough()
	wg.Go(func() { s.tellStanding(telling, j) })
	return s.await(ctx, r)
}

// listen waits for the announcement. The subject's batch is left open: a key
// may belong to a job of another batch.
func (s *session) listen(ctx context.Context, id job.ID, found chan<- *job.Result) {
	for ctx.Err() == nil {
		result, err := s.nextResult(ctx, id)
		if err == nil {
			found <- result
			return
		}
		if ctx.Err() == nil {
			s.talk.seldom("results", "waiting for results: %v", err)
			pause(ctx, jitter(2*time.Second))
		}
	}
}

func (s *session) nextResult(ctx context.Context, id job.ID) (*job.Result, error) {
	stream, err := s.Results(ctx, s.tenant, "", id)
	if err != nil {
		return nil, err
	}
	defer stream.Stop()
	return stream.Next(ctx)
}

func (s *session) enquire(ctx context.Context, r queue.Receipt, found chan<- *job.Result) {
	if !r.Known && !pause(ctx, askEvery) {
		return
	}
	for ctx.Err() == nil {
		if result, err := s.stored(ctx, r.Job); err == nil && result != nil {
			found <- result
			return
		}
		pause(ctx, askEvery)
	}
}

// stored asks for a result; nil means that there is none yet.
func (s *session) stored(ctx context.Context, id job.ID) (*job.Result, error) {
	var result job.Result
	err := s.ask(ctx, "result", idRequest{id}, &result)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// idRequest is the request of the verbs about one job.
type idRequest struct {
	ID job.ID `json:"id"`
}
