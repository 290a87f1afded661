package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"airlock/backends/all"

	"github.com/alecthomas/kong"
)

// command is something worker does instead of working, named by the first
// argument: worker images. Without such a name it works.
type command struct {
	name string
	// help is one line.
	help string
	// knobs makes the command with its flags unset. Each flag has the same
	// env twin as those of the worker, so what both have means the same.
	knobs func() runner
}

// runner is a struct of flags for kong that knows what to do with them. Each
// has a JSON flag. run returns the exit code.
type runner interface {
	run(ctx context.Context, stdout, stderr io.Writer) int
}

// commands is the table of all of them; a new one is one more line.
func commands(self all.Self) []command {
	return []command{
		{"images", "List the images that guests can have here, or with --warm start a guest of each.", func() runner { return &imagesCommand{} }},
		{"doctor", "Look for facts of this host that weaken isolation, and say what to do about each.", func() runner { return &doctorCommand{self: self} }},
		{"health", "Say whether the worker of this host takes jobs; exit code 0 is yes.", func() runner { return &healthCommand{} }},
		{"migrate", "Bring the database to this program's schema.", func() runner { return &migrateCommand{} }},
		{"sample-tools", "Serve the sample tools, math.add and math.echo, or with --check ask for them.", func() runner { return &sampleToolsCommand{} }},
		{"nats-config", "Write the configuration of a NATS server: users and permissions by role.", func() runner { return &natsConfigCommand{} }},
	}
}

// lookUp finds the command that args name.
func lookUp(self all.Self, args []string) (command, bool) {
	for _, c := range commands(self) {
		if len(args) > 0 && args[0] == c.name {
			return c, true
		}
	}
	return command{}, false
}

// start parses the command's own arguments and runs it.
func (c command) start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	knobs := c.knobs()
	if code, done := parseInto(knobs, "worker "+c.name, c.help, args, stdout, stderr); done {
		return code
	}
	return knobs.run(ctx, stdout, stderr)
}

// checker is a struct of flags that finds more wrong with them than kong does.
type checker interface{ validate() error }

// parseInto reads flags and environment into knobs. done is set when nothing
// is left to do: help was printed, or the error was.
func parseInto(knobs any, name, description string, args []string, stdout, stderr io.Writer) (code int, done bool) {
	exited := false
	parser, err := kong.New(knobs,
		kong.Name(name),
		kong.Description(description),
		kong.DefaultEnvars("AIRLOCK"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { exited = true }),
	)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return exitInternal, true
	}
	_, err = parser.Parse(args)
	if exited {
		return exitOK, true
	}
	if c, ok := knobs.(checker); ok && err == nil {
		err = c.validate()
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\nTry '%s --help'.\n", name, err, name)
		return exitUsage, true
	}
	return exitOK, false
}

// description is what worker --help says above the flags.
func description() string {
	var b strings.Builder
	b.WriteString("Runs Airlock jobs in sandboxes. Join a pool with --nats and --postgres, or start everything here with --standalone.\n\n" +
		"These commands do something else; each has a --help:\n\n")
	// None of them is started.
	for _, c := range commands(all.Self{}) {
		fmt.Fprintf(&b, "    worker %-12s %s\n", c.name, c.help)
	}
	return b.String()
}
