package main

import (
	"context"
	"time"

	"airlock/job"
)

// collect delivers the batch's results as they are announced, those of earlier
// runs first. A stream that breaks is opened again; what comes twice has no
// line waiting for it any more.
func (b *batch) collect(ctx context.Context) error {
	for ctx.Err() == nil {
		err, fatal := b.collectStream(ctx)
		if fatal {
			return err
		}
		if ctx.Err() == nil {
			b.talk.seldom("results", "waiting for results: %v", err)
			pause(ctx, jitter(2*time.Second))
		}
	}
	return nil
}

// collectStream returns when the stream breaks, or, fatally, when a result
// cannot be written.
func (b *batch) collectStream(ctx context.Context) (err error, fatal bool) {
	stream, err := b.s.Results(ctx, b.parser.Tenant, b.parser.Batch, job.ID{})
	if err != nil {
		return err, false
	}
	defer stream.Stop()
	for {
		result, err := stream.Next(ctx)
		if err != nil {
			return err, false
		}
		if err := b.deliver(ctx, result); err != nil {
			return err, true
		}
	}
}

// deliver writes a result for each line that waits for it.
func (b *batch) deliver(ctx context.Context, result *job.Result) error {
	for _, r := range b.waiting.match(result) {
		if err := b.settle(ctx, result, r); err != nil {
			return err
		}
	}
	return nil
}

// settle accounts for a line. Its files come before its result, so that a run
// which was cut off in between brings them again.
func (b *batch) settle(ctx context.Context, result *job.Result, r ref) error {
	missed, err := addUnwritten(0, b.s.bring(ctx, b.files, result, result.Job.String()))
	if err != nil {
		return err
	}
	b.unwritten.Add(int64(missed))
	if err := b.out.add(r, result); err != nil {
		return err
	}
	b.tally.ended(result.Status)
	<-b.window
	return nil
}

// recheck asks for results whose announcement may have passed us by: of jobs
// that an earlier run submitted, and of all jobs when nothing comes for long.
func (b *batch) recheck(ctx context.Context) error {
	const (
		every = time.Second
		round = 64
	)
	var last job.ID
	for pause(ctx, every) {
		ids := b.waiting.doubtful(last, askEvery, round)
		last = job.ID{}
		if len(ids) == round {
			last = ids[round-1]
		}
		for _, id := range ids {
			if err := b.recover(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// recover asks the workers for a result, or replays its announcement where
// they cannot answer.
func (b *batch) recover(ctx context.Context, id job.ID) error {
	result, err := b.s.stored(ctx, id)
	if err != nil {
		const patience = time.Second
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if result, err = b.s.nextResult(limited, id); err != nil {
			return nil // it is asked for again in the next round
		}
	}
	if result == nil {
		return nil
	}
	return b.deliver(ctx, result)
}
