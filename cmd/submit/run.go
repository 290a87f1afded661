package main

import (
	"context"
	"io"
	"runtime/debug"
	"slices"

	"github.com/alecthomas/kong"
)

// app is what every command works with.
type app struct {
	flags  *cli
	stdin  io.Reader
	stdout output
	stderr output
	talk   *talk
	// guestArgs is what followed "--".
	guestArgs []string
}

// run does what args say and returns the exit code. The end of ctx is the
// user's first Ctrl-C.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var flags cli
	left := false
	parser, err := newParser(&flags, env, stdout, stderr, func(int) { left = true })
	if err != nil {
		panic(err) // the tags of cli are wrong, which every test shows
	}
	a := &app{flags: &flags, stdin: interruptible{ctx, stdin}, stdout: newOutput(stdout), stderr: newOutput(stderr)}
	a.talk = &talk{out: stderr}
	args, a.guestArgs = splitArgs(args)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	switch {
	case left: // --help or --version, already printed
		return codeOK
	case err != nil:
		return a.end(ctx, usageError("%v (submit --help lists everything)", err))
	}
	a.talk.quiet = flags.Quiet
	parsed.BindTo(ctx, (*context.Context)(nil))
	return a.end(ctx, parsed.Run(a))
}

func newParser(flags *cli, env []string, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(flags,
		kong.Name("submit"), kong.Description(description),
		kong.Writers(stdout, stderr), kong.Exit(exit),
		kong.Resolvers(envResolver(env)), kong.ValueFormatter(helpWithTwin),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 110, NoExpandSubcommands: true}),
		kong.Vars{"version": version()},
	)
}

// splitArgs parts the command line at the first "--": what follows is the
// guest's.
func splitArgs(args []string) (ours, guest []string) {
	if at := slices.Index(args, "--"); at >= 0 {
		return args[:at], args[at+1:]
	}
	return args, nil
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "submit (unknown version)"
	}
	return "submit " + info.Main.Version
}
