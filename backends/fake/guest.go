package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"airlock/backends"
	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Guest is the guest's end of one run, for a Script to play. Its methods fail
// soon after the guest's context ends, or the worker closes the channel. It is
// for one goroutine.
type Guest struct {
	// Task is what Run was given; a script writes to its Stdout and Stderr
	// as a guest would.
	Task    backends.Task
	channel net.Conn
	lastID  int64
}

// Call is one use of a tool.
type Call struct {
	Namespace string         `json:"namespace,omitzero"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments,omitzero"`
}

// Answer is what a call came to: a value, or an error's code and message.
type Answer struct {
	Value   jsontext.Value
	Code    string
	Message string
}

// Hello says hello and returns the code of the job that it is answered with.
func (g *Guest) Hello() (code string, err error) {
	hello := frame.Hello{Protocol: frame.Version, Python: Name}
	if err := g.send(nil, "hello", hello); err != nil {
		return "", err
	}
	var j frame.Job
	if err := frame.Read(g.channel, &j); err != nil {
		return "", fmt.Errorf("read job: %w", err)
	}
	if j.Method != "job" {
		return "", fmt.Errorf("hello was answered with %q, want job", job.Printable(j.Method, 40))
	}
	return j.Params.Code, nil
}

// Calls makes the calls in parallel and returns their answers in the same
// order.
func (g *Guest) Calls(calls []Call) ([]Answer, error) {
	first := g.lastID + 1
	g.lastID += int64(len(calls))
	sent := make(chan error, 1)
	// The worker may answer the first call before it has read the last one.
	go func() { sent <- g.sendCalls(first, calls) }()

	answers := make([]Answer, len(calls))
	err := g.readAnswers(first, answers)
	if err != nil {
		_ = g.channel.Close()
	}
	return answers, errors.Join(err, <-sent)
}

func (g *Guest) sendCalls(id int64, calls []Call) error {
	for i, c := range calls {
		params := frame.Call(c)
		if params.Arguments == nil {
			params.Arguments = jsontext.Value("{}")
		}
		request := id + int64(i)
		if err := g.send(&request, "call_tool", params); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guest) readAnswers(first int64, answers []Answer) error {
	for range answers {
		var r frame.Reply
		if err := frame.Read(g.channel, &r); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		at := r.ID - first
		if at < 0 || at >= int64(len(answers)) {
			return fmt.Errorf("answer to call %d, which was not made", r.ID)
		}
		answers[at] = Answer{Value: r.Value}
		if r.Error != nil {
			answers[at] = Answer{Code: r.Error.Code, Message: r.Error.Message}
		}
	}
	return nil
}

// Return sends the value as the result and waits until the worker has it.
func (g *Guest) Return(value jsontext.Value) error {
	return g.result(frame.Result{Value: value})
}

// Raise sends an exception as the result and waits until the worker has it.
func (g *Guest) Raise(e job.Error) error {
	return g.result(frame.Result{Error: &frame.Exception{Type: e.Type, Message: e.Message, Traceback: e.Traceback}})
}

func (g *Guest) result(r frame.Result) error {
	g.lastID++
	if err := g.send(&g.lastID, "result", r); err != nil {
		return err
	}
	var reply frame.Reply
	if err := frame.Read(g.channel, &reply); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read answer to result: %w", err)
	}
	return nil
}

// Write sends raw bytes on the channel, for guests that break the protocol.
func (g *Guest) Write(raw []byte) (int, error) { return g.channel.Write(raw) }

// Read receives raw bytes from the channel.
func (g *Guest) Read(buf []byte) (int, error) { return g.channel.Read(buf) }

// Sleep waits for d or until ctx ends.
func (g *Guest) Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (g *Guest) send(id *int64, method string, params any) error {
	doc, err := json.Marshal(params, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return frame.Write(g.channel, frame.Request{ID: id, Method: method, Params: doc})
}
