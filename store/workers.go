package store

import (
	"context"
	"fmt"
	"time"

	"airlock/job"
)

// WorkerRecord is how a worker describes itself.
type WorkerRecord struct {
	ID       string
	Host     string
	Version  string
	Started  time.Time
	Slots    int
	Draining bool
	Labels   map[string]string
	Offers   []job.Offer
}

// WorkerSeen records that a worker is there, and what it offers. Workers call
// it now and then; who is alive at this moment is told by the queue.
func (s *Store) WorkerSeen(ctx context.Context, w WorkerRecord) error {
	labels, err := encodeLossy(w.Labels)
	if err != nil {
		return fmt.Errorf("record worker: %w", err)
	}
	offers, err := encodeLossy(w.Offers)
	if err != nil {
		return fmt.Errorf("record worker: %w", err)
	}
	_, err = s.exec(ctx, "record worker", `
		INSERT INTO workers (id, host, version, slots, draining, labels, offers, started_at, seen_at)
		VALUES ($1, $2, $3, $4, $5, coalesce($6::jsonb, '{}'), coalesce($7::jsonb, '[]'), $8, now())
		ON CONFLICT (id) DO UPDATE SET
		    host = excluded.host, version = excluded.version, slots = excluded.slots, draining = excluded.draining,
		    labels = excluded.labels, offers = excluded.offers, seen_at = excluded.seen_at`,
		textColumn(w.ID), textColumn(w.Host), textColumn(w.Version), w.Slots, w.Draining,
		jsonbColumn(labels), jsonbColumn(offers), w.Started)
	return err
}
