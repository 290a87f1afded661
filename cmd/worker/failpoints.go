package main

import (
	"context"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"airlock/broker"
	"airlock/worker/failpoint"
)

// armFailpoints has the worker fail where a test's environment says.
func (p *pool) armFailpoints(context.Context) (err error) {
	p.fail, err = failpoint.Parse(os.Getenv(failpoint.Env), p.log)
	return err
}

// tools are what calls go through: the catalogue itself, but for a test that
// wants the worker to fail in the middle of a call.
func (p *pool) tools() broker.Tools {
	if !p.fail.Armed(failpoint.InCall) {
		return p.catalogue
	}
	return failingTools{Tools: p.catalogue, nc: p.nc, fail: p.fail}
}

type failingTools struct {
	broker.Tools
	nc   *nats.Conn
	fail *failpoint.Points
}

// sendPatience bounds the wait until a request has left; the test is about
// what happens after.
const sendPatience = 2 * time.Second

// Call fails when the request has left this process.
func (t failingTools) Call(tool *broker.Tool, r broker.Request) (<-chan broker.Answer, func(), error) {
	answers, forget, err := t.Tools.Call(tool, r)
	if err == nil {
		_ = t.nc.FlushTimeout(sendPatience)
		t.fail.At(failpoint.InCall)
	}
	return answers, forget, err
}
