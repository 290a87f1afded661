package main

import (
	"context"
	"fmt"
	"time"

	"airlock/job"
)

// approvalsCmd lists the calls that wait for a person.
type approvalsCmd struct {
	Call string `arg:"" optional:"" help:"Show this call alone, with all of its arguments: JOB/ATTEMPT/SEQ, or as the list names it."`
	All  bool   `help:"List those that were decided, too, newest first; the last 1,000."`
}

// approvalsRequest is the request of the verb.
type approvalsRequest struct {
	All  bool          `json:"all,omitzero"`
	Call *job.Decision `json:"call,omitzero"`
}

// Run implements the command.
func (c *approvalsCmd) Run(ctx context.Context, a *app) error {
	request := approvalsRequest{All: c.All}
	if c.Call != "" {
		named, err := namedCall(c.Call)
		if err != nil {
			return err
		}
		request.Call = &named
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var answer struct {
		Approvals []job.Approval `json:"approvals"`
	}
	if err := s.ask(ctx, "approvals", request, &answer); err != nil {
		return err
	}
	if c.Call != "" && !a.flags.JSON && len(answer.Approvals) == 1 {
		return a.printApproval(answer.Approvals[0])
	}
	return list(a, answer.Approvals, "no call waits for approval", newGrid("call", "tool", "state", "asked", "until", "arguments", "decision"), addApproval)
}

// namedCall reads the name of a call into a decision that decides nothing.
func namedCall(name string) (job.Decision, error) {
	ref, tail, err := job.ParseCall(name)
	if err != nil {
		return job.Decision{}, usageError("%v", err)
	}
	return job.Decision{CallRef: ref, Tail: tail}, nil
}

func addApproval(g grid, p job.Approval) {
	g.add(p.Short(), p.Namespace+"."+p.Name, p.State, p.Asked, p.Expires, p.Arguments, decisionOf(p))
}

// decisionOf is who decided, and why.
func decisionOf(p job.Approval) string {
	if p.By == "" {
		return ""
	}
	if p.Reason == "" {
		return p.By
	}
	return p.By + ": " + p.Reason
}

// printApproval prints one request with all that a decision needs.
func (a *app) printApproval(p job.Approval) error {
	text := fmt.Sprintf("call       %s\ntool       %s\nstate      %s\nasked      %s\nuntil      %s\n",
		p.CallRef, job.Printable(p.Namespace+"."+p.Name, maxToolName), p.State, when(p.Asked), when(p.Expires))
	if p.By != "" {
		text += fmt.Sprintf("decided    %s by %s\n", when(p.Decided), job.Printable(decisionOf(p), job.MaxApprover+job.MaxReason))
	}
	if err := a.stdout.text(text + "arguments  "); err != nil {
		return err
	}
	return a.stdout.document(p.Arguments)
}

// maxToolName is that of a namespace, a dot and a name.
const maxToolName = 2*64 + 1

// approveCmd decides about one call.
type approveCmd struct {
	Call   string `arg:"" help:"The call: JOB/ATTEMPT/SEQ, or as 'submit approvals' names it."`
	Deny   bool   `help:"Refuse the call rather than let it through."`
	Reason string `placeholder:"TEXT" help:"Why. The code whose call is denied is told."`
	By     string `placeholder:"NAME" help:"Who decides, for the record; your user and host unless given."`
}

// Help is the long text of submit approve --help.
func (*approveCmd) Help() string {
	return `A decision is final: to decide the same again does nothing, and to decide otherwise is an error, as it is to decide about
a call that nobody waits for any more. Where the NATS server has users, this takes the login of the tenant's approver.`
}

// Run implements the command.
func (c *approveCmd) Run(ctx context.Context, a *app) error {
	decision, err := namedCall(c.Call)
	if err != nil {
		return err
	}
	decision.Deny, decision.Reason, decision.By = c.Deny, c.Reason, c.By
	if decision.By == "" {
		decision.By = whoami()
	}
	if err := decision.Check(); err != nil {
		return usageError("%v", err)
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	limited, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	var now job.Approval
	if err := s.Decide(limited, s.tenant, decision, &now); err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			return fmt.Errorf("no answer from the workers within %s: %w", s.patience, err)
		}
		return err
	}
	if a.flags.JSON {
		return a.stdout.document(now)
	}
	return a.stdout.text(fmt.Sprintf("%s  %s.%s %s after %s\n", now.Short(), job.Printable(now.Namespace, 64), job.Printable(now.Name, 64),
		now.State, now.Decided.Sub(now.Asked).Round(time.Second)))
}
