package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

func scanRecord(row pgx.CollectableRow) (job.Record, error) {
	var (
		rec                                 job.Record
		id                                  [16]byte
		batch, worker, backend, status      *string
		key, labels, kind, message          []byte
		notBefore, deadline, lease, endedAt *time.Time
	)
	err := row.Scan(
		&id, &rec.Tenant, &batch, &key, &labels, &rec.Lane, &rec.Priority, &rec.State, &status, &rec.Generation, &rec.Attempt,
		&rec.Failures, &rec.MaxAttempts, &worker, &rec.CancelRequested, &rec.Submitted, &notBefore, &deadline, &lease, &endedAt,
		&backend, &kind, &message)
	if err != nil {
		return job.Record{}, err
	}
	rec.ID, rec.Batch, rec.Key, rec.Worker, rec.Backend = job.ID(id), deref(batch), string(key), deref(worker), deref(backend)
	rec.Status, rec.Error = job.Status(deref(status)), shortError(kind, message)
	rec.Submitted, rec.NotBefore, rec.Deadline = rec.Submitted.UTC(), deref(notBefore).UTC(), deref(deadline).UTC()
	rec.LeaseUntil, rec.Finished = deref(lease).UTC(), deref(endedAt).UTC()
	if len(labels) > len("{}") {
		if err := json.Unmarshal(labels, &rec.Labels); err != nil {
			return job.Record{}, fmt.Errorf("stored labels of job %s: %w", rec.ID, err)
		}
	}
	return rec, nil
}

func shortError(kind, message []byte) *job.Error {
	if len(kind)+len(message) == 0 {
		return nil
	}
	return &job.Error{Type: string(kind), Message: string(message)}
}

// Job returns where a job stands, with all its attempts. ErrNotFound if the
// tenant has no such job.
func (s *Store) Job(ctx context.Context, tenant string, id job.ID) (job.Record, error) {
	rec, err := one(ctx, s, "read job", scanRecord, jobSQL, tenant, [16]byte(id))
	if err != nil {
		return job.Record{}, err
	}
	rec.Attempts, err = collect(ctx, s, "read attempts", scanAttempt, attemptsSQL, [16]byte(id))
	if err != nil || !rec.State.Ended() {
		return rec, err
	}
	rec.Artifacts, err = s.artifactsOf(ctx, id)
	return rec, err
}

func scanAttempt(row pgx.CollectableRow) (job.AttemptRecord, error) {
	_, a, err := scanTry(row)
	return a, err
}

// scanTry reads an attempt and whose it is.
func scanTry(row pgx.CollectableRow) (job.ID, job.AttemptRecord, error) {
	var a job.AttemptRecord
	var id [16]byte
	var status *string
	var kind, message []byte
	var ended *time.Time
	err := row.Scan(&id, &a.Number, &a.Generation, &a.Worker, &a.Backend, &a.Outcome, &status, &kind, &message,
		&a.ToolCalls, &a.Started, &ended)
	message = bytes.ToValidUTF8(message, nil) // a cut may have gone through a character
	a.Status, a.Error = job.Status(deref(status)), shortError(kind, message)
	a.Started, a.Ended = a.Started.UTC(), deref(ended).UTC()
	return job.ID(id), a, err
}

const (
	defaultHistory = 100
	maxHistory     = 1000
)

// History lists a tenant's jobs, newest first, without their attempts.
func (s *Store) History(ctx context.Context, tenant string, f job.Filter) ([]job.Record, error) {
	sql, args := historyQuery(tenant, f)
	return collect(ctx, s, "read history", scanRecord, sql, args...)
}

// Dead lists a tenant's dead jobs, newest first.
func (s *Store) Dead(ctx context.Context, tenant string, limit int) ([]job.Record, error) {
	return s.History(ctx, tenant, job.Filter{Status: job.StatusInfraError, Limit: limit})
}

// Requeue gives a dead job all its tries anew and returns it to be published
// and confirmed by Republished. Attempts keep counting up. ErrNotFound if the
// tenant has no such job, ErrNotDead if it is not dead.
func (s *Store) Requeue(ctx context.Context, tenant string, id job.ID) (job.Republish, error) {
	ctx, cancel := written(ctx)
	defer cancel()
	taken, err := s.republishes(ctx, "requeue", `
		WITH told AS (
		    DELETE FROM announcements WHERE job = $2 AND EXISTS (
		        SELECT FROM jobs WHERE tenant = $1 AND id = $2 AND state = 'dead')
		)
		UPDATE jobs SET
		    state = 'queued', generation = generation + 1, publish_due = now() + $3::interval, failures = 0, deaths = 0,
		    status = NULL, ended_at = NULL, ended_by = NULL, cancel_requested = false,
		    not_before = now()
		WHERE tenant = $1 AND id = $2 AND state = 'dead'
		RETURNING id, generation, spec, $4::text, false`, tenant, [16]byte(id), confirmWithin, reasonRequeued)
	if err == nil && len(taken) == 1 {
		return taken[0], nil
	}
	if err == nil {
		if _, err = s.Job(ctx, tenant, id); err == nil {
			err = fmt.Errorf("requeue: %w", ErrNotDead)
		}
	}
	return job.Republish{}, err
}

// Batch counts the jobs of a batch. ErrNotFound if the tenant has no such
// batch.
func (s *Store) Batch(ctx context.Context, tenant, batch string) (job.Summary, error) {
	type count struct {
		state  job.State
		status job.Status
		n      int
	}
	rows, err := collect(ctx, s, "count batch", func(row pgx.CollectableRow) (count, error) {
		var c count
		err := row.Scan(&c.state, &c.status, &c.n)
		return c, err
	}, batchCountSQL, tenant, batch)
	if err != nil {
		return job.Summary{}, err
	}
	if len(rows) == 0 {
		return job.Summary{}, fmt.Errorf("count batch: %w", ErrNotFound)
	}
	counts := job.Summary{Batch: batch, States: map[job.State]int{}, Statuses: map[job.Status]int{}}
	for _, c := range rows {
		counts.Total += c.n
		counts.States[c.state] += c.n
		if c.state.Ended() {
			counts.Statuses[c.status] += c.n
		}
	}
	return counts, nil
}
