package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jedib0t/go-pretty/v6/table"

	"airlock/job"
)

// show prints how the jobs ended and returns how many ended otherwise than
// they should.
func show(out io.Writer, examples []example, results []*job.Result) int {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"job", "status", "value or error", "calls", "duration", "backend", ""})
	wrong := 0
	for i, e := range examples {
		r, verdict := results[i], "as it should"
		if why := e.Want.unmet(r); why != "" {
			verdict = "WRONG: " + why
			wrong++
		}
		took := (r.Usage.Wall + r.Usage.ToolWait).Std().Round(time.Millisecond)
		t.AppendRow(table.Row{e.Name, r.Status, valueOrError(r), r.ToolCalls, took, r.Backend, verdict})
	}
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: 48}})
	fmt.Fprintln(out, t.Render())
	return wrong
}

func valueOrError(r *job.Result) string {
	if r.Error != nil {
		return job.Printable(r.Error.Type+": "+r.Error.Message, 120)
	}
	if r.StdoutTruncated {
		return fmt.Sprintf("%d of %d bytes of output kept", len(r.Stdout), r.StdoutBytes)
	}
	return job.Printable(string(r.Value), 160)
}

// showAudit reads the audit trail of a job from Postgres.
func showAudit(ctx context.Context, out io.Writer, url string, id job.ID) error {
	const query = `
SELECT seq, namespace || '.' || name AS tool, arguments, state, answer, extract(epoch FROM duration)::float8 * 1000 AS ms
FROM tool_call_history
WHERE job = $1
ORDER BY attempt, seq`
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("read the audit trail: %w", err)
	}
	defer db.Close(ctx)
	rows, err := db.Query(ctx, query, id.String())
	if err != nil {
		return fmt.Errorf("read the audit trail: %w", err)
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"seq", "tool", "arguments", "state", "answer", "ms"})
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return err
		}
		t.AppendRow(values)
	}
	fmt.Fprintf(out, "\nThe audit trail of the first job, by SQL:%s\n%s\n", query, t.Render())
	return rows.Err()
}
