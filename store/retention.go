package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"airlock/job"
)

const (
	// MinRetain is the least that any history is kept: a result must still be
	// there for who was away over night.
	MinRetain = 24 * time.Hour

	// lockTries is how often tables are asked for that are in use, each time
	// for 100 ms at most, in which claims wait behind the request.
	lockTries = 5
	lockAgain = time.Second
	// retireChunk bounds what one transaction deletes row by row.
	retireChunk = 5000

	codeLockBusy = "55P03"
	codeRetired  = "AL001" // of airlock_refuse_retired
	keptKeys     = "keys"
)

// Retire drops the months of history of which all is older than keep, oldest
// first, and returns what it did to each. A month stays whole while a job of it
// has not ended, or ended within keep. Jobs outside of all months that are
// older, and ended before, are deleted one by one.
//
// Dead jobs go with their month; their input is no longer there to be requeued.
// Messages of a job that was dropped are refused from then on: its Claim is
// Ended. Keys are free again.
//
// The database's owner may want more kept than keep, in table retention; that
// is an error. So is less than MinRetain.
func (s *Store) Retire(ctx context.Context, keep time.Duration) (job.Retired, error) {
	var done job.Retired
	if keep < MinRetain {
		return done, fmt.Errorf("retire history: %s is less than %s", keep, MinRetain)
	}
	cutoff, err := one(ctx, s, "read the time", pgx.RowTo[time.Time], `SELECT now() - $1::interval`, keep)
	if err != nil {
		return done, err
	}
	months, err := s.months(ctx, cutoff)
	if err != nil {
		return done, err
	}
	for _, month := range months {
		m, err := s.retireMonth(ctx, month, cutoff)
		if err != nil {
			return done, err
		}
		done.Months = append(done.Months, m)
	}
	done.Strays, err = s.untilNone(ctx, "delete strays", `SELECT airlock_drop_strays($1, $2)`, cutoff, retireChunk)
	return done, err
}

// months are the first moments of the months that lie before the cutoff.
func (s *Store) months(ctx context.Context, cutoff time.Time) ([]time.Time, error) {
	names, err := collect(ctx, s, "list months", pgx.RowTo[string], `
		SELECT substr(c.relname, length('jobs_') + 1)
		FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'jobs'::regclass AND c.relname <> 'jobs_default'
		ORDER BY c.relname`)
	if err != nil {
		return nil, err
	}
	var months []time.Time
	for _, name := range names {
		first, err := time.Parse("2006_01", name)
		if err != nil {
			s.log.Warn().Str("partition", "jobs_"+name).Msg("partition is no month and is left alone")
			continue
		}
		if !first.AddDate(0, 1, 0).After(cutoff) {
			months = append(months, first)
		}
	}
	return months, nil
}

func (s *Store) retireMonth(ctx context.Context, month, cutoff time.Time) (job.RetiredMonth, error) {
	for {
		m := job.RetiredMonth{Name: month.Format("2006-01")}
		err := s.whenFree(ctx, func() (err error) {
			m, err = s.dropMonth(ctx, month, cutoff)
			return err
		})
		if isCode(err, codeLockBusy) {
			m.Kept = job.KeptBusy
			return m, nil
		}
		if err != nil || m.Kept != keptKeys {
			return m, err
		}
		_, err = s.untilNone(ctx, "forget keys", `SELECT airlock_forget_keys($3, $1, $2)`, cutoff, retireChunk, month)
		if err != nil {
			return m, err
		}
	}
}

func (s *Store) dropMonth(ctx context.Context, month, cutoff time.Time) (job.RetiredMonth, error) {
	return one(ctx, s, "drop month", func(row pgx.CollectableRow) (job.RetiredMonth, error) {
		m := job.RetiredMonth{Name: month.Format("2006-01")}
		var kept *string
		var bytes int64
		err := row.Scan(&kept, &m.Jobs, &m.Dead, &bytes)
		m.Kept, m.Bytes = deref(kept), job.Size(bytes)
		return m, err
	}, `SELECT kept, jobs, dead, bytes FROM airlock_drop_month($1, $2)`, month, cutoff)
}

// untilNone repeats a function that does up to args[1] at a time.
func (s *Store) untilNone(ctx context.Context, act, sql string, args ...any) (total int, err error) {
	for {
		n, err := one(ctx, s, act, pgx.RowTo[int], sql, args...)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}

// whenFree repeats an act that gave up because tables are in use.
func (s *Store) whenFree(ctx context.Context, act func() error) error {
	for try := 1; ; try++ {
		err := act()
		if !isCode(err, codeLockBusy) || try == lockTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockAgain):
		}
	}
}

func isCode(err error, code string) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == code
}

// EnsurePartitions makes the partitions of the month that holds now and of the
// next, and moves there what the default partitions have of them. While their
// tables are in use it tries for some seconds.
func (s *Store) EnsurePartitions(ctx context.Context, now time.Time) error {
	first := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, month := range []time.Time{first, first.AddDate(0, 1, 0)} {
		err := s.whenFree(ctx, func() error {
			_, err := s.exec(ctx, "add partition", `SELECT airlock_add_month($1)`, month)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
