package main

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
)

// callCmd tries a tool by hand.
type callCmd struct {
	Tool      string       `arg:"" help:"The tool: NAMESPACE.NAME."`
	Arguments string       `arg:"" optional:"" default:"{}" help:"Its arguments: a JSON object, or - for standard input."`
	ToolTime  job.Duration `placeholder:"TIME" help:"How long the call may take. Default 60s."`
	requireFlags
	Park bool `help:"Queue the job even if no live worker can run it now."`
}

// Help is the long text of submit call --help.
func (*callCmd) Help() string {
	return `The call is made by a job that does nothing else: the same rules hold for it, and it is in the history (with the label
tool_call) and the audit as any other. The answer is printed as JSON; a call that fails prints its code and message, and
exits with 1. With --json the job's result is printed.`
}

// callLabel names the jobs that callCmd makes.
const callLabel = "tool_call"

// callCode is all that such a job runs. What is to be called comes as
// variables, so that no name and no argument becomes code.
const callCode = `return await tools.call(call["namespace"], call["name"], call["arguments"])
`

// Run implements the command.
func (c *callCmd) Run(ctx context.Context, a *app) error {
	j, err := c.job(a)
	if err != nil {
		return err
	}
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
	result, err := s.awaitAloud(ctx, j, receipt)
	if ctx.Err() != nil {
		return a.abandon(ctx, s, receipt)
	}
	if err != nil {
		return err
	}
	return a.printCall(result)
}

func (c *callCmd) job(a *app) (*job.Job, error) {
	namespace, name, ok := strings.Cut(c.Tool, ".")
	if !ok || !job.ValidToolName(namespace) || !job.ValidToolName(name) {
		return nil, usageError("%q is not NAMESPACE.NAME, as `submit tools` lists them", job.Printable(c.Tool, 140))
	}
	arguments, err := c.arguments(a)
	if err != nil {
		return nil, err
	}
	vars, err := json.Marshal(map[string]any{"call": map[string]any{"namespace": namespace, "name": name, "arguments": arguments}}, json.Deterministic(true))
	if err != nil {
		return nil, usageError("the arguments: %v", err)
	}
	j := &job.Job{
		Tenant: a.flags.Tenant, Code: callCode, Vars: vars, Tools: []job.Grant{{Namespace: namespace, Name: name}},
		Labels: map[string]string{callLabel: namespace + "." + name}, Limits: job.Limits{ToolCalls: 1, ToolTime: c.ToolTime},
		// A call that may have been made is not made again unasked.
		MaxAttempts: 1,
	}
	if err := c.requirement(a, j); err != nil {
		return nil, err
	}
	return complete(j)
}

func (c *callCmd) arguments(a *app) (jsontext.Value, error) {
	doc := []byte(c.Arguments)
	if c.Arguments == "-" {
		var err error
		if doc, err = readAtMost(a.stdin, job.MaxVars); err != nil {
			return nil, usageError("the arguments: %v", err)
		}
	}
	if err := job.CheckJSON(doc); err != nil {
		return nil, usageError("the arguments: %v", err)
	}
	if kind := jsontext.Value(doc).Kind(); kind != '{' {
		return nil, usageError(`the arguments are no JSON object, such as '{"a": 1}'`)
	}
	return doc, nil
}

// printCall prints what the tool gave, null included, or why it did not.
func (a *app) printCall(r *job.Result) error {
	switch {
	case a.flags.JSON:
		return a.printResult(r)
	case r.Status == job.StatusOK:
		if err := a.stdout.document(r.Value); err != nil {
			return err
		}
	case r.Error != nil:
		a.talk.fault("%s", job.PrintableLines(strings.TrimLeft(r.Error.Type+": "+r.Error.Message, ": "), 4<<10))
		a.talk.say("job %s, attempt %d: `submit calls %s` shows the record", r.Job, r.Attempt, r.Job)
	default:
		a.talk.fault("job %s ended as %s", r.Job, r.Status)
	}
	return exitWith(statusCode(r.Status))
}
