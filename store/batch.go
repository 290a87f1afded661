package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"airlock/job"
)

const (
	// maxBatch bounds one transaction's rows: past a few hundred the gain is
	// nil and the wait of the first caller grows.
	maxBatch = 128
	// maxBatchBytes bounds what one transaction sends.
	maxBatchBytes = 8 << 20
	// company is how many writes wait for no others: by then each has an eighth
	// of what the transaction costs beside them.
	company = 8
	// maxTransient is how often a transaction that lost a deadlock is run
	// again.
	maxTransient = 5
)

// committer turns writes of one kind that come at the same time into one
// transaction: what arrives while one is under way makes the next. It waits for
// company only as long as every caller allows, so that one in a hurry waits for a
// round trip and no more.
type committer[T any] struct {
	store  *Store
	act    string
	commit func(ctx context.Context, items []T) error // all or nothing
	size   func(T) int
	wake   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	pending []*waiter[T] // guarded by mu
	closed  bool         // guarded by mu
}

type waiter[T any] struct {
	item T
	due  time.Time // when it is to be written at the latest
	err  error
	done chan struct{}
}

// newCommitter starts the goroutine that close waits for. commit either does
// all items or returns an error and has done none; it is then run again with
// fewer, so it must not count on being called once an item.
func newCommitter[T any](s *Store, act string, commit func(context.Context, []T) error, size func(T) int) *committer[T] {
	c := &committer[T]{
		store: s, act: act, commit: commit, size: size,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go c.run()
	return c
}

// do hands the item in and waits for its transaction, which others may join for
// as long as linger. If ctx ends before the item was taken up nothing is written;
// afterwards do waits for the outcome.
func (c *committer[T]) do(ctx context.Context, item T, linger time.Duration) error {
	w := &waiter[T]{item: item, due: time.Now().Add(linger), done: make(chan struct{})}
	if err := c.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	if c.withdraw(w) {
		return fmt.Errorf("%s: %w", c.act, context.Cause(ctx))
	}
	<-w.done
	return w.err
}

func (c *committer[T]) enqueue(w *waiter[T]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("%s: %w", c.act, ErrClosed)
	}
	c.pending = append(c.pending, w)
	c.signal()
	return nil
}

func (c *committer[T]) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// withdraw takes the waiter out of the queue, unless it has left it already.
func (c *committer[T]) withdraw(w *waiter[T]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.pending {
		if other == w {
			c.pending = append(c.pending[:i], c.pending[i+1:]...)
			return true
		}
	}
	return false
}

// close lets what is queued be written and waits for it.
func (c *committer[T]) close() {
	c.mu.Lock()
	c.closed = true
	c.signal()
	c.mu.Unlock()
	<-c.done
}

func (c *committer[T]) run() {
	defer close(c.done)
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		batch, due, closed := c.take()
		if len(batch) == 0 {
			if closed {
				return
			}
			if !due.IsZero() {
				alarm.Reset(time.Until(due))
			}
			select {
			case <-c.wake:
			case <-alarm.C:
			}
			continue
		}
		c.settle(batch)
		for _, w := range batch {
			close(w.done)
		}
	}
}

// take removes the longest head of the queue that fits one transaction, or
// nothing while all that is there may wait until due.
func (c *committer[T]) take() (batch []*waiter[T], due time.Time, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if due = c.due(); time.Now().Before(due) {
		return nil, due, false
	}
	n, total := 0, 0
	for n < len(c.pending) && n < maxBatch && (n == 0 || total < maxBatchBytes) {
		total += c.size(c.pending[n].item)
		n++
	}
	batch = append(batch, c.pending[:n]...)
	c.pending = append(c.pending[:0:0], c.pending[n:]...)
	return batch, time.Time{}, c.closed
}

// due is when the next transaction begins: at once, which is the zero time, if
// nobody can come any more or enough have. The caller holds mu.
func (c *committer[T]) due() (due time.Time) {
	if c.closed || len(c.pending) >= company {
		return due
	}
	for _, w := range c.pending {
		if due.IsZero() || w.due.Before(due) {
			due = w.due
		}
	}
	return due
}

// settle gives every waiter its error: it halves a batch that the database
// refuses until the refused rows stand alone.
func (c *committer[T]) settle(batch []*waiter[T]) {
	err := c.try(batch)
	if err == nil {
		return
	}
	if len(batch) > 1 && !isUnreachable(err) {
		half := len(batch) / 2
		c.settle(batch[:half])
		c.settle(batch[half:])
		return
	}
	for _, w := range batch {
		w.err = translate(c.act, err)
	}
}

// slowestSend is how many bytes reach the database in a second at least, or its
// connection counts as hanging.
const slowestSend = 1 << 20

// patience bounds a transaction. What is large may take longer: the leases of
// those who wait go on meanwhile.
func (c *committer[T]) patience(items []T) time.Duration {
	total := 0
	for _, item := range items {
		total += c.size(item)
	}
	return statementTimeout + time.Duration(total)*time.Second/slowestSend
}

// try runs one transaction, again if it lost against another or never reached
// the server.
func (c *committer[T]) try(batch []*waiter[T]) error {
	items := make([]T, len(batch))
	for i, w := range batch {
		items[i] = w.item
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.patience(items))
	defer cancel()
	for try := 1; ; try++ {
		err := c.commit(ctx, items)
		if err == nil {
			return nil
		}
		c.store.noteLoss(err)
		again := isTransient(err) || pgconn.SafeToRetry(err)
		if !again || try >= maxTransient || ctx.Err() != nil {
			return err
		}
	}
}

// dontWaitSQL begins a transaction whose commit does not wait for the disk. Only
// a crash of the server, not of a worker, can take it back, and not once a later
// commit has waited.
const dontWaitSQL = `SELECT set_config('synchronous_commit', 'off', true)`

// sendBatch runs the batch as one transaction in one round trip: Postgres
// treats all statements up to the pipeline's sync as one.
func (s *Store) sendBatch(ctx context.Context, batch *pgx.Batch) error {
	return s.pool.SendBatch(ctx, batch).Close()
}

// sortByJob puts items in the order in which every transaction of this package
// locks rows of jobs, so that two of them do not deadlock.
func sortByJob[T any](items []T, id func(T) job.ID) {
	slices.SortStableFunc(items, func(a, b T) int {
		x, y := id(a), id(b)
		return bytes.Compare(x[:], y[:])
	})
}
