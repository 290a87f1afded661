package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"airlock/job"
)

// auditCmd has the commands about the audit.
type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Recompute the hash chains of recorded tool calls, and name the rows that were changed, removed or added."`
}

// auditVerifyCmd verifies the audit of a job, a batch, or all jobs of a time.
type auditVerifyCmd struct {
	Target string `arg:"" optional:"" placeholder:"JOB|BATCH" help:"A job's id or a batch's name."`
	Since  ago    `placeholder:"TIME" help:"Only jobs submitted since: RFC 3339, or a span back from now such as 24h."`
}

// Help is the long text of submit audit verify --help.
func (*auditVerifyCmd) Help() string {
	return `The workers recompute the chains from what Postgres holds and compare each with the head beside its attempt's
result. An attempt whose worker died has no head: it is counted as unsealed, and its rows are held against each other.
Who may write Postgres without the workers could make a chain and its head anew; a copy of the heads elsewhere shows that.

Exit codes: 0 all fits, 1 something was changed, removed or added, 4 it could not be verified.`
}

const (
	// auditPatience is how long one part of a verification may take: what one
	// attempt can have sent is read and hashed in seconds, however slow others
	// make it.
	auditPatience = 90 * time.Second
	auditReport   = 5 * time.Second
)

// Run implements the command.
func (c *auditVerifyCmd) Run(ctx context.Context, a *app) error {
	scope, err := c.scope()
	if err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	s.patience = max(s.patience, auditPatience)
	progress := &auditProgress{talk: a.talk, last: time.Now()}
	total, err := s.verify(ctx, scope, progress.tell)
	if isNotFound(err) {
		return usageError("%s is not known", c.Target)
	}
	if err != nil {
		return err
	}
	if err := a.printAudit(total); err != nil {
		return err
	}
	if total.Faulty > 0 {
		return exitWith(codeFailed)
	}
	return nil
}

func (c *auditVerifyCmd) scope() (job.AuditScope, error) {
	switch {
	case c.Target == "" && c.Since.IsZero():
		return job.AuditScope{}, usageError("name a job or a batch, or give --since TIME")
	case c.Target != "" && !c.Since.IsZero():
		return job.AuditScope{}, usageError("give a job or a batch, or --since, not both")
	case c.Target == "":
		return job.AuditScope{Since: c.Since.Time}, nil
	}
	if id, err := job.ParseID(c.Target); err == nil {
		return job.AuditScope{ID: id}, nil
	}
	if job.ValidName(c.Target) {
		return job.AuditScope{Batch: c.Target}, nil
	}
	return job.AuditScope{}, usageError("%q is neither a job's id nor a batch's name", c.Target)
}

// verify asks for one part after the other.
func (s *session) verify(ctx context.Context, scope job.AuditScope, told func(job.Audit)) (total job.Audit, err error) {
	for {
		var part job.Audit
		if err := s.ask(ctx, "audit", scope, &part); err != nil {
			return total, err
		}
		total.Jobs += part.Jobs
		total.Attempts += part.Attempts
		total.Unsealed += part.Unsealed
		total.Calls += part.Calls
		total.Faulty += part.Faulty
		total.Faults = append(total.Faults, part.Faults...)
		if part.Next.IsZero() {
			return total, nil
		}
		scope.After = part.Next
		told(total)
	}
}

// auditProgress tells now and then how far a long verification is.
type auditProgress struct {
	talk *talk
	last time.Time
}

func (p *auditProgress) tell(so job.Audit) {
	if time.Since(p.last) < auditReport {
		return
	}
	p.last = time.Now()
	p.talk.say("verified so far: %s", auditCounts(so))
}

func auditCounts(a job.Audit) string {
	text := fmt.Sprintf("%d jobs, %d attempts, %d calls", a.Jobs, a.Attempts, a.Calls)
	if a.Unsealed > 0 {
		text += fmt.Sprintf(", %d attempts unsealed", a.Unsealed)
	}
	return text + fmt.Sprintf(", %d faults", a.Faulty)
}

func (a *app) printAudit(total job.Audit) error {
	if a.flags.JSON {
		return a.stdout.document(total)
	}
	var text strings.Builder
	for _, f := range total.Faults {
		fmt.Fprintf(&text, "%s attempt %d: %s: %s\n", f.Job, f.Attempt, f.Kind, job.Printable(f.What, maxTalk))
	}
	if more := total.Faulty - len(total.Faults); more > 0 {
		fmt.Fprintf(&text, "and %d more, of attempts that are named above\n", more)
	}
	return a.stdout.text(text.String() + auditCounts(total) + "\n")
}
