package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// Spec returns a job as it was submitted; ErrNotFound if the tenant has no such
// job.
func (s *Store) Spec(ctx context.Context, tenant string, id job.ID) (*job.Job, error) {
	spec, err := one(ctx, s, "read job's spec", pgx.RowTo[[]byte], `
		SELECT spec FROM jobs WHERE tenant = $1 AND id = $2`, tenant, [16]byte(id))
	if err != nil {
		return nil, err
	}
	return job.Decode(spec)
}
