package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	"airlock/backends/internal/frame"
	"airlock/job"

	"github.com/go-json-experiment/json"
)

// The ends that the suite itself brings about, as causes.
var (
	errPatience = errors.New("patience of the test is over")
	errEnough   = errors.New("the story has seen enough")
)

// namespace is that of the tools which a story gives its guest.
const namespace = "host"

// host is the worker's end of a guest's channel, as far as stories need it.
type host struct {
	job    frame.JobParams
	tools  map[string]tool
	served atomic.Int32

	// What the guest said. Read them when Run has returned.
	python string
	result *frame.Result
	files  []job.Artifact
	breach error

	// collection takes the files that come back, by the broker's own rules.
	collection *job.Collection
}

// serve holds the conversation until the guest's end closes, and returns an
// error for a guest that breaks the protocol.
func (h *host) serve(ctx context.Context, channel io.ReadWriteCloser) error {
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	if err := h.greet(channel); err != nil {
		return h.end(ctx, err)
	}
	for {
		var r frame.Request
		if err := frame.Read(channel, &r); err != nil {
			return h.end(ctx, err)
		}
		if err := h.answer(channel, r); err != nil {
			return h.end(ctx, err)
		}
	}
}

// greet takes hello and answers it with the job.
func (h *host) greet(channel io.ReadWriter) error {
	var r frame.Request
	if err := frame.Read(channel, &r); err != nil {
		return err
	}
	var hello frame.Hello
	if err := job.DecodeStrict(r.Params, &hello); err != nil || r.Method != "hello" {
		return fmt.Errorf("first frame is %q: %v", r.Method, err)
	}
	h.python = hello.Python
	params := h.job
	for _, name := range slices.Sorted(maps.Keys(h.tools)) {
		params.Tools = append(params.Tools, frame.Tool{Namespace: namespace, Name: name})
	}
	return frame.Write(channel, frame.Job{Method: "job", Params: params})
}

func (h *host) answer(channel io.Writer, r frame.Request) error {
	switch {
	case r.Method == "artifact" && r.ID == nil && h.result == nil && h.collection != nil:
		return h.keep(r)
	case r.ID == nil:
		return fmt.Errorf("%q without an id", r.Method)
	case r.Method == "result" && h.result == nil:
		if err := h.endCollection(); err != nil {
			return err
		}
		h.result = &frame.Result{}
		if err := job.DecodeStrict(r.Params, h.result); err != nil {
			return err
		}
		return frame.Write(channel, frame.Reply{ID: *r.ID, OK: true})
	case r.Method == "call_tool":
		return h.call(channel, r)
	}
	return fmt.Errorf("frame %q out of order", r.Method)
}

// keep takes a piece of a file.
func (h *host) keep(r frame.Request) error {
	var a frame.Artifact
	if err := job.DecodeStrict(r.Params, &a); err != nil {
		return err
	}
	return h.collection.Add(job.Piece{
		Path: a.Path, Data: a.Base64, More: a.More, Refused: job.Reason(a.Refused), Size: job.Size(a.Size),
	})
}

func (h *host) endCollection() (err error) {
	if h.collection != nil {
		h.files, err = h.collection.End()
	}
	return err
}

func (h *host) call(channel io.Writer, r frame.Request) error {
	var call frame.Call
	if err := job.DecodeStrict(r.Params, &call); err != nil {
		return err
	}
	answer, ok := h.tools[call.Name]
	if !ok || call.Namespace != namespace {
		return frame.Write(channel, frame.Reply{ID: *r.ID, Error: &frame.Refusal{Code: "not_granted", Message: "no such tool"}})
	}
	value, err := json.Marshal(answer(call.Arguments), json.Deterministic(true))
	if err != nil {
		return err
	}
	return frame.Write(channel, frame.Reply{ID: *r.ID, OK: true, Value: value})
}

// end tells a guest that is gone from one that broke the protocol.
func (h *host) end(ctx context.Context, err error) error {
	if ctx.Err() != nil || gone(err) {
		return nil
	}
	h.breach = err
	return err
}
