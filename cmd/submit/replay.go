package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"airlock/job"
)

// replayCmd runs an ended job again without its providers.
type replayCmd struct {
	Job  job.ID `arg:"" help:"The job's id."`
	Park bool   `help:"Queue the job even if no live worker can run it now."`
}

// Help is the long text of submit replay --help.
func (*replayCmd) Help() string {
	return `A new job with the same code, inputs, limits and requirements runs on a worker. Its tool calls are answered from
the record of the attempt that ended the old job, matched by tool, arguments and how many equal ones came before; no
provider is contacted, and a call that is not recorded is refused with the code diverged. The label replay_of names
the old job. Told is that both are equal (calls, status, value, error, stdout), or the first thing that differs.

Exit codes: 0 equal, 1 different, 4 it could not be replayed.`
}

// labelReplayOf shows in the history what a job is.
const labelReplayOf = "replay_of"

// Run implements the command.
func (c *replayCmd) Run(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	j, err := s.replayOf(ctx, c.Job)
	if err != nil {
		return err
	}
	receipt, err := s.submit(ctx, j, c.Park)
	if ctx.Err() != nil && err != nil {
		return a.withdraw(ctx, s, j.ID)
	}
	if err != nil {
		return err
	}
	result, err := s.awaitAloud(ctx, j, receipt)
	if ctx.Err() != nil {
		return a.abandon(ctx, s, receipt)
	}
	if err != nil {
		return err
	}
	if result.Status == job.StatusInfraError {
		return &exitError{codeAirlock, fmt.Errorf("the replay %s failed by Airlock's own fault: %s", result.Job, errorText(result.Error))}
	}
	var outcome job.Replay
	s.patience = max(s.patience, auditPatience)
	if err := s.ask(ctx, "divergence", replayRequest{c.Job, j.ID}, &outcome); err != nil {
		return err
	}
	return a.printReplay(outcome)
}

// replayRequest asks how a replay went.
type replayRequest struct {
	ID     job.ID `json:"id"`
	Replay job.ID `json:"replay"`
}

// replayOf is the job that replays another, which must have ended by running.
func (s *session) replayOf(ctx context.Context, id job.ID) (*job.Job, error) {
	var j job.Job
	if err := s.askJob(ctx, "spec", id, &j); err != nil {
		return nil, err
	}
	result, err := s.stored(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, usageError("job %s has not ended", id)
	case result.Attempt == 0 || result.Status == job.StatusInfraError:
		return nil, usageError("job %s ended as %s without an end of its code to compare with", id, result.Status)
	}
	j.ID, j.Key, j.Batch, j.ReplayOf = job.ID{}, "", "", id
	j.NotBefore, j.Deadline, j.RetryOn, j.OnRetry = time.Time{}, time.Time{}, nil, ""
	labels := maps.Clone(j.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if len(labels) < job.MaxLabels {
		labels[labelReplayOf] = id.String()
	}
	j.Labels = labels
	return complete(&j)
}

func (a *app) printReplay(r job.Replay) error {
	if a.flags.JSON {
		if err := a.stdout.document(r); err != nil {
			return err
		}
	} else if err := a.stdout.text(replayText(r)); err != nil {
		return err
	}
	if !r.Equal {
		return exitWith(codeFailed)
	}
	return nil
}

func replayText(r job.Replay) string {
	if r.Equal {
		return fmt.Sprintf("equal: %d calls; the replay is job %s\n", r.Calls, r.Replay)
	}
	d := r.Divergence
	var text strings.Builder
	fmt.Fprintf(&text, "diverged: %s; the replay is job %s\n", diverged(d), r.Replay)
	for _, side := range []struct {
		name string
		text job.Bytes
	}{{"before", d.Before}, {"after", d.After}} {
		if side.text != nil {
			fmt.Fprintf(&text, "  %-7s %s\n", side.name+":", job.Printable(string(side.text), maxTalk))
		}
	}
	return text.String()
}

// diverged says what differs first.
func diverged(d *job.Divergence) string {
	tool := job.Printable(d.Tool, 200)
	switch d.Kind {
	case "arguments":
		return fmt.Sprintf("call %d of %s (call %d before) has other arguments", d.ReplaySeq, tool, d.Seq)
	case "extra":
		return fmt.Sprintf("call %d of %s was not made before", d.ReplaySeq, tool)
	case "missing":
		return fmt.Sprintf("call %d of %s was not made again", d.Seq, tool)
	case "answer":
		return fmt.Sprintf("call %d of %s (call %d before) was answered otherwise", d.ReplaySeq, tool, d.Seq)
	}
	return "another " + job.Printable(d.Kind, 40)
}
