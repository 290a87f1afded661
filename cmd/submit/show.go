package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"airlock/job"
)

// printResult prints a result and turns its status into the exit code.
func (a *app) printResult(r *job.Result) error {
	print := a.printPlain
	if a.flags.JSON {
		print = func(r *job.Result) error { return a.stdout.document(r) }
	}
	if err := print(r); err != nil {
		return err
	}
	return exitWith(statusCode(r.Status))
}

// deliver writes the files that came back, and prints the rest.
func (a *app) deliver(ctx context.Context, s *session, dir *artifactDir, r *job.Result) error {
	unwritten := s.bring(ctx, dir, r, "")
	err := a.printResult(r)
	a.remarkFiles(r, dir != nil)
	if unwritten != nil {
		return unwritten
	}
	return err
}

// remarkFiles says which files did not come back, and where the others are.
func (a *app) remarkFiles(r *job.Result, written bool) {
	kept := 0
	for _, x := range r.Artifacts {
		if x.Reason == "" {
			kept++
			continue
		}
		a.talk.say("%s was not brought back: %s", job.Printable(x.Path, job.MaxPath), job.Printable(string(x.Reason), 40))
	}
	if kept > 0 && !written && !a.flags.JSON {
		a.talk.say("%d files came back: `submit result %s --artifacts DIR` writes them", kept, r.Job)
	}
}

func statusCode(s job.Status) int {
	switch s {
	case job.StatusOK:
		return codeOK
	case job.StatusInfraError:
		return codeAirlock
	}
	return codeFailed
}

func (a *app) printPlain(r *job.Result) error {
	if err := a.stdout.guest(r.Stdout); err != nil {
		return err
	}
	if err := a.printValue(r); err != nil {
		return err
	}
	if err := a.stderr.guest(r.Stderr); err != nil {
		return err
	}
	if n := len(r.Stderr); n > 0 && r.Stderr[n-1] != '\n' {
		if err := a.stderr.text("\n"); err != nil {
			return err
		}
	}
	if err := a.printError(r.Error); err != nil {
		return err
	}
	a.remark(r)
	return nil
}

// printValue prints the value on a line of its own.
func (a *app) printValue(r *job.Result) error {
	if len(r.Value) == 0 || r.Value.Kind() == 'n' {
		return nil
	}
	if n := len(r.Stdout); n > 0 && r.Stdout[n-1] != '\n' {
		if err := a.stdout.text("\n"); err != nil {
			return err
		}
	}
	return a.stdout.document(r.Value)
}

// printError prints what the guest said of its exception. It is text for
// people wherever it goes, so it is always made harmless.
func (a *app) printError(e *job.Error) error {
	if e == nil {
		return nil
	}
	text := strings.TrimRight(e.Traceback, "\n")
	last := strings.TrimRight(e.Type+": "+e.Message, ": ")
	if !strings.HasSuffix(text, last) {
		text = strings.TrimLeft(text+"\n"+last, "\n")
	}
	return a.stderr.text(job.PrintableLines(text, math.MaxInt) + "\n")
}

// remark says what the output does not show.
func (a *app) remark(r *job.Result) {
	if r.Status != job.StatusOK {
		a.talk.fault("job %s ended as %s%s", r.Job, r.Status, onAttempt(r))
	}
	for _, t := range r.Attempts {
		if t.Number != r.Attempt {
			a.talk.say("attempt %d %s on %s, worker %s%s", t.Number, t.Outcome, t.Backend, job.Printable(t.Worker, 100), cause(t))
		}
	}
	for _, stream := range []struct {
		name string
		cut  bool
		kept int
		all  int64
	}{
		{"stdout", r.StdoutTruncated, len(r.Stdout), r.StdoutBytes},
		{"stderr", r.StderrTruncated, len(r.Stderr), r.StderrBytes},
	} {
		if stream.cut {
			a.talk.say("%s was cut: %d of %d bytes were kept", stream.name, stream.kept, stream.all)
		}
	}
	if r.Lossy {
		a.talk.say("parts of the value are only its repr")
	}
	for _, e := range r.Events {
		a.talk.say("%s", strings.TrimSpace(fmt.Sprintf("%s ×%d %s", e.Kind, max(e.Count, 1), e.Note)))
	}
}

// cause is how an attempt ended, and why.
func cause(t job.AttemptRecord) string {
	if t.Status == "" {
		return ""
	}
	text := ": " + string(t.Status)
	if why := errorText(t.Error); why != "" {
		text += " (" + job.Printable(why, 300) + ")"
	}
	return text
}

func onAttempt(r *job.Result) string {
	if r.Attempt == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d, backend %s)", r.Attempt, r.Backend)
}
