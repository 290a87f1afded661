package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"airlock/job"
)

// statusCmd shows where one job stands.
type statusCmd struct {
	Job job.ID `arg:"" help:"The job's id."`
}

// Run implements the command.
func (c *statusCmd) Run(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var record job.Record
	if err := s.askJob(ctx, "status", c.Job, &record); err != nil {
		return err
	}
	if a.flags.JSON {
		return a.stdout.document(record)
	}
	return a.printRecord(record)
}

func (a *app) printRecord(r job.Record) error {
	g := newGrid()
	for _, fact := range []struct {
		name  string
		value any
	}{
		{"job", r.ID}, {"state", r.State}, {"status", r.Status}, {"key", r.Key}, {"tenant", r.Tenant},
		{"batch", r.Batch}, {"labels", r.Labels}, {"lane", r.Lane}, {"priority", r.Priority},
		{"submitted", r.Submitted}, {"not before", r.NotBefore}, {"deadline", r.Deadline}, {"finished", r.Finished},
		{"cancel requested", yes(r.CancelRequested)},
		{"failures", fmt.Sprintf("%d of %d", r.Failures, r.MaxAttempts)}, {"generation", r.Generation},
	} {
		if text := cell(fact.value); text != "" {
			g.add(fact.name, text)
		}
	}
	if err := a.printGrid(g, ""); err != nil || len(r.Attempts) == 0 {
		return err
	}
	attempts := newGrid("attempt", "outcome", "status", "worker", "backend", "started", "took", "calls", "error")
	for _, t := range r.Attempts {
		attempts.add(t.Number, t.Outcome, t.Status, t.Worker, t.Backend, t.Started, took(t), t.ToolCalls, errorText(t.Error))
	}
	if err := a.stdout.text("\n" + attempts.Render() + "\n"); err != nil || len(r.Artifacts) == 0 {
		return err
	}
	files := newGrid("artifact", "size", "not kept for")
	for _, x := range r.Artifacts {
		files.add(x.Path, x.Size, x.Reason)
	}
	return a.stdout.text("\n" + files.Render() + "\n")
}

func took(t job.AttemptRecord) time.Duration {
	if t.Ended.IsZero() {
		return 0
	}
	return t.Ended.Sub(t.Started)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func errorText(e *job.Error) string {
	if e == nil {
		return ""
	}
	return strings.Trim(e.Type+": "+e.Message, ": ")
}

// resultCmd prints a stored result.
type resultCmd struct {
	Job job.ID `arg:"" help:"The job's id."`
	artifactFlag
}

// Help is the long text of submit result --help.
func (*resultCmd) Help() string {
	return "It prints what submit run would have printed, and ends with the same exit code."
}

// Run implements the command.
func (c *resultCmd) Run(ctx context.Context, a *app) error {
	dir, err := openArtifacts(c.Artifacts)
	if err != nil {
		return err
	}
	defer dir.close()
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var result job.Result
	if err := s.ask(ctx, "result", idRequest{c.Job}, &result); err != nil {
		return err
	}
	return a.deliver(ctx, s, dir, &result)
}

// historyCmd lists jobs.
type historyCmd struct {
	Batch  string     `placeholder:"NAME" help:"Only jobs of this batch."`
	Status job.Status `placeholder:"STATUS" help:"Only jobs that ended so: ok, guest_error, timeout, …"`
	Since  ago        `placeholder:"TIME" help:"Only jobs submitted since: RFC 3339, or a span back from now such as 24h."`
	Limit  int        `placeholder:"N" default:"100" help:"At most so many."`
}

// pageSize is how many records one answer holds at most.
const pageSize = 1000

// Run implements the command.
func (c *historyCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 {
		return usageError("--limit: want 1 or more")
	}
	if c.Batch != "" && !job.ValidName(c.Batch) {
		return usageError("--batch: %q is no batch's name", c.Batch)
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	filter := job.Filter{Batch: c.Batch, Status: c.Status, Since: c.Since.Time}
	p := a.recordPrinter("no such jobs")
	for left := c.Limit; left > 0; {
		filter.Limit = min(left, pageSize)
		var page struct {
			Jobs []job.Record `json:"jobs"`
		}
		if err := s.ask(ctx, "history", filter, &page); err != nil {
			return err
		}
		if err := p.add(page.Jobs); err != nil {
			return err
		}
		if left -= len(page.Jobs); len(page.Jobs) < filter.Limit {
			break
		}
		filter.Before = page.Jobs[len(page.Jobs)-1].ID
	}
	return p.finish()
}

// ago is a time in the past as the command line gives it.
type ago struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *ago) UnmarshalText(text []byte) error {
	if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
		t.Time = at
		return nil
	}
	span, err := time.ParseDuration(string(text))
	if err != nil || span < 0 {
		return fmt.Errorf("%q is neither a time such as 2030-01-31T12:00:00Z nor a span such as 24h", text)
	}
	t.Time = time.Now().Add(-span).Truncate(time.Millisecond)
	return nil
}

// deadCmd lists the jobs that Airlock gave up on.
type deadCmd struct {
	Limit int `placeholder:"N" default:"100" help:"At most so many, up to 1000."`
}

// Run implements the command.
func (c *deadCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Limit > pageSize {
		return usageError("--limit: want 1 to %d", pageSize)
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var dead struct {
		Jobs []job.Record `json:"jobs"`
	}
	if err := s.ask(ctx, "dead", struct {
		Limit int `json:"limit"`
	}{c.Limit}, &dead); err != nil {
		return err
	}
	p := a.recordPrinter("no dead jobs")
	if err := p.add(dead.Jobs); err != nil {
		return err
	}
	return p.finish()
}

// recordPrinter prints records as JSON lines at once, or as one table at the
// end.
type recordPrinter struct {
	a    *app
	g    grid
	none string
}

func (a *app) recordPrinter(none string) recordPrinter {
	return recordPrinter{a, newGrid("job", "standing", "batch", "submitted", "took", "tries", "backend", "worker", "error"), none}
}

func (p recordPrinter) add(records []job.Record) error {
	for _, r := range records {
		if p.a.flags.JSON {
			if err := p.a.stdout.document(r); err != nil {
				return err
			}
			continue
		}
		p.g.add(recordRow(r)...)
	}
	return nil
}

func (p recordPrinter) finish() error {
	if p.a.flags.JSON {
		return nil
	}
	return p.a.printGrid(p.g, p.none)
}

func recordRow(r job.Record) []any {
	var took time.Duration
	if !r.Finished.IsZero() {
		took = r.Finished.Sub(r.Submitted)
	}
	return []any{r.ID, standing(r), r.Batch, r.Submitted, took, r.Attempt, r.Backend, r.Worker, errorText(r.Error)}
}
