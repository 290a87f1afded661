package store

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"airlock/job"
)

// HistorySQL are the queries of queries.go, by the names of their constants.
var HistorySQL = map[string]string{
	"jobSQL": jobSQL, "attemptsSQL": attemptsSQL, "triesSQL": triesSQL, "batchCountSQL": batchCountSQL, "resultSQL": resultSQL,
	"batchResultsSQL": batchResultsSQL, "callsSQL": callsSQL, "knownSQL": knownSQL, "artifactSQL": artifactSQL, "factsSQL": factsSQL,
}

// HistoryQuery is the text of History's query.
func HistoryQuery(f job.Filter) string {
	sql, _ := historyQuery("", f)
	return sql
}

// Explain runs a query as the store does, with the plan that it keeps, and
// returns the plan and what it cost. Args are SQL.
func (s *Store) Explain(ctx context.Context, sql string, args []string) (plan string, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Conn().PgConn().Exec(ctx, "PREPARE explained AS "+sql).ReadAll(); err != nil {
			return err
		}
		results, err := tx.Conn().PgConn().Exec(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained ("+strings.Join(args, ", ")+")").ReadAll()
		if err != nil {
			return err
		}
		plan = string(results[0].Rows[0][0])
		_, err = tx.Conn().PgConn().Exec(ctx, "DEALLOCATE explained").ReadAll()
		return err
	})
	return plan, err
}

// UnannouncedSQL is the statement of Unannounced, for a look at its plan.
const UnannouncedSQL = unannouncedSQL

// FinishPatience is how long the transaction of a result may take.
func FinishPatience(r *job.Result) time.Duration {
	c := committer[*finishItem]{size: (*finishItem).size}
	return c.patience([]*finishItem{{result: r}})
}

// Lingering is how many results wait to be committed.
func (s *Store) Lingering() int {
	s.finishes.mu.Lock()
	defer s.finishes.mu.Unlock()
	return len(s.finishes.pending)
}
