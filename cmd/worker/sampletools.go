package main

import (
	"context"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"airlock/broker/provider"
)

// sampleToolsCommand serves the sample tools as a provider of its own.
type sampleToolsCommand struct {
	natsFlags
	Check bool `help:"Ask whether somebody serves the sample tools, and leave: exit code 0 is yes."`
	JSON  bool `name:"json" help:"Print JSON."`
}

func (c *sampleToolsCommand) run(ctx context.Context, stdout, stderr io.Writer) int {
	ctx, stop := untilSignalled(ctx)
	defer stop()
	if c.Check {
		return told(c.check(ctx, stdout), "sample-tools", stderr)
	}
	return told(c.serve(ctx, stdout, stderr), "sample-tools", stderr)
}

func (c *sampleToolsCommand) serve(ctx context.Context, stdout, stderr io.Writer) error {
	log := commandLog(stderr)
	nc, err := c.connect(ctx, "airlock sample tools", log)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := c.say(stdout, "serving"); err != nil {
		return err
	}
	tools := provider.Math()
	tools.Log = log
	return provider.Serve(ctx, nc, tools)
}

// check asks for a service that answers under the sample tools' name.
func (c *sampleToolsCommand) check(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	nc, err := c.connect(ctx, "airlock check of sample tools", zerolog.Nop())
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := provider.Ping(ctx, nc, provider.Math().Name); err != nil {
		return err
	}
	return c.say(stdout, "served")
}

func (c *sampleToolsCommand) say(stdout io.Writer, state string) error {
	if c.JSON {
		return json.MarshalWrite(stdout, map[string]string{"state": state, "namespace": provider.Math().Name})
	}
	_, err := fmt.Fprintln(stdout, state, provider.Math().Name)
	return err
}
