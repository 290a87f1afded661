package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"airlock/job"
)

// toolsCmd lists the tools that providers offer.
type toolsCmd struct {
	Namespace string `arg:"" optional:"" help:"Only the tools of this namespace."`
	Since     ago    `placeholder:"TIME" default:"24h" help:"Sum up the calls of your jobs submitted since, of the newest 20,000 at most: RFC 3339, or a span back from now such as 24h."`
	Refused   bool   `help:"List what providers announce that is no tool, and why."`
}

// Help is the long text of submit tools --help.
func (*toolsCmd) Help() string {
	return `The list is what one worker's catalogue has, as far as its operator's rules let your tenant see it. Calls, times and
errors are those of your tenant's jobs; errors count the calls that a provider did not answer, or answered with an
error. With --json there is one tool a line, with its schemas.`
}

// Run implements the command.
func (c *toolsCmd) Run(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var answer job.ToolList
	request := job.ToolsQuery{Namespace: c.Namespace, Since: c.Since.Time, Schemas: a.flags.JSON, Refused: c.Refused}
	if err := s.ask(ctx, "tools", request, &answer); err != nil {
		return err
	}
	if c.Refused {
		return list(a, c.in(answer.Refused), "nothing was refused", newGrid("subject", "providers", "reason"),
			func(g grid, r job.RefusedTool) { g.add(r.Subject, r.Providers, r.Reason) })
	}
	return list(a, answer.Tools, "no provider offers a tool", toolGrid(), addTool)
}

func toolGrid() grid {
	return newGrid("tool", "description", "providers", "kind", "calls", "p50", "p99", "errors", "breaker")
}

// in are the refusals of the namespace that was asked for.
func (c *toolsCmd) in(all []job.RefusedTool) []job.RefusedTool {
	if c.Namespace == "" {
		return all
	}
	var own []job.RefusedTool
	for _, r := range all {
		if strings.HasPrefix(r.Subject, "tools."+c.Namespace+".") {
			own = append(own, r)
		}
	}
	return own
}

func addTool(g grid, t job.ListedTool) {
	g.add(t.Namespace+"."+t.Name, t.Description, t.Providers, kindOf(t), t.Calls,
		time.Duration(t.P50), time.Duration(t.P99), errorRate(t), t.Breaker)
}

// kindOf is what the provider says of the tool's effects, and whether its calls
// wait for a person.
func kindOf(t job.ListedTool) string {
	var words []string
	if t.ReadOnly {
		words = append(words, "read-only")
	}
	if t.Idempotent {
		words = append(words, "idempotent")
	}
	if t.Approval {
		words = append(words, "asks a person")
	}
	return strings.Join(words, ", ")
}

// errorRate is empty where nothing was called.
func errorRate(t job.ListedTool) string {
	if t.Calls == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(t.Errors)/float64(t.Calls))
}
