package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"airlock/job"
	"airlock/queue"
)

// runCmd runs one job.
type runCmd struct {
	Script string `arg:"" optional:"" help:"File with the Python code, or - for standard input."`
	Code   string `placeholder:"TEXT" help:"The Python code itself, in place of a file."`
	jobFlags
	artifactFlag
	Park   bool `help:"Queue the job even if no live worker can run it now."`
	NoWait bool `help:"Print the job's id and leave."`
}

// Help is the long text of submit run --help.
func (*runCmd) Help() string {
	return `What the guest wrote to stdout is printed byte for byte; then, on a line of its own, the value as JSON
unless it is null. What it wrote to stderr goes to stderr, followed by the error with its traceback. With --json
one JSON document holds all of it. What follows -- are the guest's arguments (sys.argv[1:]).

Ctrl-C cancels the job and waits a moment for its result; a second Ctrl-C leaves at once. A job that was there
before, under the same --key, goes on.`
}

// Run implements the command.
func (c *runCmd) Run(ctx context.Context, a *app) error {
	code, err := c.code(a)
	if err != nil {
		return err
	}
	j, err := c.job(a, code)
	if err != nil {
		return err
	}
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
	receipt, err := s.submit(ctx, j, c.Park)
	if ctx.Err() != nil && err != nil {
		return a.withdraw(ctx, s, j.ID)
	}
	if err != nil {
		return err
	}
	if c.NoWait {
		return a.printReceipt(ctx, s, j, receipt)
	}
	if receipt.Known {
		a.talk.say("this key's job is %s; waiting for its result", receipt.Job)
	}
	j.ID = receipt.Job
	result, err := s.awaitAloud(ctx, j, receipt)
	if ctx.Err() != nil {
		return a.abandon(ctx, s, receipt)
	}
	if err != nil {
		return err
	}
	return a.deliver(ctx, s, dir, result)
}

func (c *runCmd) code(a *app) (string, error) {
	switch {
	case c.Code != "" && c.Script != "":
		return "", usageError("give a file or --code, not both")
	case c.Code != "":
		return c.Code, nil
	case c.Script == "":
		return "", usageError("give a file, --code TEXT, or - for standard input")
	case c.Script == "-" && c.Stdin == "-":
		return "", usageError("standard input cannot be both the code and --stdin")
	}
	code, err := a.readInput(c.Script, job.MaxCode)
	if err != nil {
		return "", usageError("read the code: %w", err)
	}
	// Python drops the mark from a file, but not from a string.
	return string(bytes.TrimPrefix(code, []byte("\xef\xbb\xbf"))), nil
}

// printReceipt prints the job's id and, as far as that can be had, where it
// stands.
func (a *app) printReceipt(ctx context.Context, s *session, j *job.Job, r queue.Receipt) error {
	standing, known := s.standing(ctx, j)
	if !a.flags.JSON {
		if known && standing.Ahead > 0 {
			a.talk.say("%s", describeStanding(standing))
		}
		return a.stdout.text(r.Job.String() + "\n")
	}
	receipt := struct {
		Job   job.ID `json:"job"`
		Lane  string `json:"lane"`
		Known bool   `json:"known"`
		// Ahead and Wait are absent when they are not known.
		Ahead *int          `json:"ahead,omitzero"`
		Wait  *job.Duration `json:"estimated_wait,omitzero"`
	}{Job: r.Job, Lane: r.Lane, Known: r.Known}
	if known {
		receipt.Ahead = &standing.Ahead
		if wait, known := standing.Wait(); known {
			rounded := job.Duration(wait.Round(time.Millisecond))
			receipt.Wait = &rounded
		}
	}
	return a.stdout.document(receipt)
}

// farewell is how long an interrupted command goes on to leave things tidy.
const farewell = 5 * time.Second

// withdraw cancels a job of which it is not known whether the queue took it.
func (a *app) withdraw(ctx context.Context, s *session, id job.ID) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	a.talk.say("interrupted")
	if err := s.Cancel(last, s.tenant, queue.CancelTarget{Job: id}); err != nil {
		return &exitError{codeInterrupted, fmt.Errorf("job %s may have been submitted: %w", id, err)}
	}
	return exitWith(codeInterrupted)
}

// abandon cancels the job that the user no longer wants and prints what it
// gave so far, if that comes soon. A job that somebody submitted before under
// the same key is left alone.
func (a *app) abandon(ctx context.Context, s *session, r queue.Receipt) error {
	if r.Known {
		a.talk.say("interrupted; job %s was there before and goes on", r.Job)
		return exitWith(codeInterrupted)
	}
	a.talk.say("interrupted; cancelling job %s (again to leave at once)", r.Job)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := s.Cancel(last, s.tenant, queue.CancelTarget{Job: r.Job}); err != nil {
		return &exitError{codeInterrupted, err}
	}
	// The workers end a job that waits at once when asked; a job that runs
	// was reached by Cancel, so that an error here changes nothing.
	_ = s.ask(last, "cancel", idRequest{r.Job}, &job.Cancelled{})
	result, err := s.await(last, r)
	if err != nil {
		return &exitError{codeInterrupted, errors.New("the job has not ended yet; it is cancelled all the same")}
	}
	if err := a.printResult(result); err != nil && codeOf(err) != codeFailed {
		return err
	}
	return exitWith(codeInterrupted)
}
