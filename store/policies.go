package store

import (
	"context"
	"time"
)

// PolicyTaken records that a worker took a policy for tools at a time, and the
// policy with it. The digest is the hex SHA-256 of the text. Repeating it is
// harmless.
func (s *Store) PolicyTaken(ctx context.Context, worker string, at time.Time, digest, text string) error {
	_, err := s.exec(ctx, "record policy", `
		WITH kept AS (
		    INSERT INTO policies (digest, policy, first_at)
		    VALUES ($1, $2, $3)
		    ON CONFLICT (digest) DO NOTHING)
		INSERT INTO policy_changes (worker, at, digest)
		VALUES ($4, $3, $1)
		ON CONFLICT (worker, at) DO NOTHING`,
		digest, text, at, textColumn(worker))
	return err
}
