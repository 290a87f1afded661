package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"airlock/cmd/internal/secret"
	"airlock/cmd/toolbridge/internal/bridge"
)

// The exit codes of all commands.
const (
	exitOK       = 0
	exitUsage    = 2
	exitInternal = 4
)

// config is every knob of the command. Each flag has an env twin: AIRLOCK_ and
// its name in upper case.
type config struct {
	Config         string        `help:"JSON file that names the MCP servers; broker/PROVIDERS.md says what is in it." placeholder:"FILE"`
	Check          bool          `help:"Start the servers, list the tools that would be served, and leave; needs no NATS."`
	JSON           bool          `name:"json" help:"Print --check as JSON."`
	Nats           string        `help:"URL of the NATS server, such as nats://host:4222, or file: and the path of a file that holds it." placeholder:"URL"`
	ConnectTimeout time.Duration `help:"How long NATS is tried." default:"60s"`
	LogLevel       string        `help:"trace, debug, info, warn or error." default:"info" enum:"trace,debug,info,warn,error"`

	servers *bridge.Config
}

const description = "Serves the tools of MCP servers as NATS tools, which guests call like any other."

// parse reads flags, environment and the configuration. done is set when the
// command has nothing left to do: help was printed, or the error was.
func parse(args []string, stdout, stderr io.Writer) (cfg *config, code int, done bool) {
	cfg = &config{}
	exited := false
	parser, err := kong.New(cfg, kong.Name("toolbridge"), kong.Description(description), kong.DefaultEnvars("AIRLOCK"),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { exited = true }))
	if err != nil {
		fmt.Fprintln(stderr, "toolbridge:", err)
		return cfg, exitInternal, true
	}
	_, err = parser.Parse(args)
	if exited {
		return cfg, exitOK, true
	}
	if err == nil {
		err = cfg.complete()
	}
	if err != nil {
		fmt.Fprintf(stderr, "toolbridge: %v\nTry 'toolbridge --help'.\n", err)
		return cfg, exitUsage, true
	}
	return cfg, exitOK, false
}

// complete reads what is in files, and says what is wrong.
func (c *config) complete() (err error) {
	if c.Config == "" {
		return errors.New("give --config, the file that names the MCP servers")
	}
	if c.Nats, err = secret.Read(c.Nats); err != nil {
		return fmt.Errorf("--nats: %w", err)
	}
	if c.Nats == "" && !c.Check {
		return errors.New("give --nats, the server that the workers join, or --check")
	}
	c.servers, err = bridge.Load(c.Config)
	return err
}

func (c *config) level() zerolog.Level {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		return zerolog.InfoLevel // the enum of the flag allows no other word
	}
	return level
}
