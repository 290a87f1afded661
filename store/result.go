package store

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"airlock/job"
)

func scanResult(row pgx.CollectableRow) (*job.Result, error) {
	var (
		r                        job.Result
		id                       [16]byte
		key, value, usage, rest  []byte
		batch, signal, head      *string
		kind, message, traceback []byte
		exitCode                 *int64
		finished                 time.Time
		stdout, stderr           []byte
	)
	err := row.Scan(
		&id, &key, &r.Tenant, &batch, &finished,
		&r.Attempt, &r.Worker, &r.Backend, &r.Status, &value, &r.Lossy, &kind, &message, &traceback,
		&stdout, &r.StdoutBytes, &r.StdoutTruncated, &stderr, &r.StderrBytes, &r.StderrTruncated,
		&exitCode, &signal, &r.ToolCalls, &usage, &rest, &head)
	if err != nil {
		return nil, err
	}
	r.Job, r.Key, r.Batch, r.Finished = job.ID(id), string(key), deref(batch), finished.UTC()
	r.Value, r.Stdout, r.Stderr = jsontext.Value(value), job.Bytes(stdout), job.Bytes(stderr)
	r.Signal, r.AuditHead = deref(signal), deref(head)
	if len(kind)+len(message)+len(traceback) > 0 {
		r.Error = &job.Error{Type: string(kind), Message: string(message), Traceback: string(traceback)}
	}
	if exitCode != nil {
		code := int(*exitCode)
		r.ExitCode = &code
	}
	return &r, decodeFacts(&r, usage, rest)
}

func decodeFacts(r *job.Result, usage, rest []byte) error {
	if len(usage) > 0 {
		if err := json.Unmarshal(usage, &r.Usage); err != nil {
			return fmt.Errorf("stored usage of job %s: %w", r.Job, err)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	var f facts
	if err := json.Unmarshal(rest, &f); err != nil {
		return fmt.Errorf("stored facts of job %s: %w", r.Job, err)
	}
	r.Events, r.Isolation, r.Artifacts, r.Verdict, r.Policy = f.Events, f.Isolation, f.Artifacts, f.Verdict, f.Policy
	return nil
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// withTries adds their attempts to the results of jobs that had several.
func (s *Store) withTries(ctx context.Context, results []*job.Result) error {
	byID, ids := map[job.ID]*job.Result{}, [][16]byte{}
	for _, r := range results {
		if r.Attempt != 1 { // the first attempt's result has nothing before it
			byID[r.Job], ids = r, append(ids, r.Job)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := collect(ctx, s, "read attempts", func(row pgx.CollectableRow) (struct{}, error) {
		id, a, err := scanTry(row)
		if r := byID[id]; err == nil {
			r.Attempts = append(r.Attempts, a)
		}
		return struct{}{}, err
	}, triesSQL, ids)
	for _, r := range byID {
		if len(r.Attempts) < 2 {
			r.Attempts = nil
		}
	}
	return err
}

// Attempts are all tries at a job, as they stand beside its result: none where
// there was only one. Their messages may be cut.
func (s *Store) Attempts(ctx context.Context, id job.ID) ([]job.AttemptRecord, error) {
	r := &job.Result{Job: id}
	err := s.withTries(ctx, []*job.Result{r})
	return r.Attempts, err
}

// results runs a query for resultColumns.
func (s *Store) results(ctx context.Context, act, sql string, args ...any) ([]*job.Result, error) {
	all, err := collect(ctx, s, act, scanResult, sql, args...)
	if err == nil {
		err = s.withTries(ctx, all)
	}
	return all, err
}

// Result returns what a job gave; ErrNotFound if the tenant has no such job or
// it has not ended.
func (s *Store) Result(ctx context.Context, tenant string, id job.ID) (*job.Result, error) {
	r, err := one(ctx, s, "read result", scanResult, resultSQL, tenant, [16]byte(id))
	if err == nil {
		err = s.withTries(ctx, []*job.Result{r})
	}
	return r, err
}

// BatchResults returns up to limit results of a batch in the order of their
// jobs' ids, those after the given id; the zero ID starts at the first.
func (s *Store) BatchResults(ctx context.Context, tenant, batch string, after job.ID, limit int) ([]*job.Result, error) {
	return s.results(ctx, "read results of batch", batchResultsSQL, tenant, batch, [16]byte(after), limit)
}
