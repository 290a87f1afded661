package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"airlock/broker/provider"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// keepAlive and misses say when a server that is silent counts as dead.
	keepAlive = 30 * time.Second
	misses    = 3
	// maxTold bounds what a guest is told of an error.
	maxTold = 290
)

// session is one conversation with a server.
type session struct {
	mcp   *mcp.ClientSession
	began time.Time
	// ended is closed when the conversation has.
	ended chan struct{}
	child *child // nil for a server elsewhere
}

// connect starts the server, or reaches it, and greets it.
func (u *upstream) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, u.server.StartTimeout.Std(), fmt.Errorf("did not answer within %s (start_timeout)", u.server.StartTimeout))
	defer cancel()
	s := &session{began: time.Now(), ended: make(chan struct{})}
	transport, err := u.transport(s)
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "airlock-toolbridge", Version: "1"}, &mcp.ClientOptions{
		Capabilities:              &mcp.ClientCapabilities{},
		MultiRoundTrip:            &mcp.MultiRoundTripOptions{Disabled: true},
		Logger:                    slog.New(slog.DiscardHandler),
		KeepAlive:                 keepAlive,
		KeepAliveFailureThreshold: misses,
		ToolListChangedHandler:    func(context.Context, *mcp.ToolListChangedRequest) { u.noteChange() },
	})
	if s.mcp, err = client.Connect(ctx, transport, nil); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.stopChild()
		return nil, fmt.Errorf("greet the server: %w", err)
	}
	if s.child != nil {
		s.child.talk.greeted.Store(true)
	}
	go s.watch()
	return s, nil
}

// transport is the way to the server, which it starts if need be.
func (u *upstream) transport(s *session) (mcp.Transport, error) {
	if u.server.URL != "" {
		header, err := u.server.headers(u.opts.Lookup)
		if err != nil {
			return nil, err
		}
		return &mcp.StreamableClientTransport{Endpoint: u.server.URL, HTTPClient: newRemote(header), MaxEventSize: 2 * maxMessage}, nil
	}
	env, err := u.server.environment(u.opts.Lookup)
	if err != nil {
		return nil, err
	}
	if s.child, err = startChild(u.server.Command, u.server.Dir, env, u.log); err != nil {
		return nil, err
	}
	// What the SDK sees of a message carries its text once more.
	return &mcp.IOTransport{Reader: newLines(s.child.stdout, u.log), Writer: s.child.stdin, MaxLineLength: 4 * maxMessage}, nil
}

// watch ends the conversation when the server's process has ended: what it
// started may still hold its output.
func (s *session) watch() {
	defer close(s.ended)
	gone := make(chan struct{})
	go func() { defer close(gone); s.mcp.Wait() }() // why it ended is told by the next call
	if s.child != nil {
		select {
		case <-gone:
		case <-s.child.exited:
			s.child.stdout.Close()
		}
	}
	<-gone
}

// close ends the conversation and the server's process.
func (s *session) close() {
	if s.child != nil {
		s.child.stdin.Close()
	}
	s.mcp.Close() // fails only where nobody is left to hear of it
	s.stopChild()
	<-s.ended
}

func (s *session) stopChild() {
	if s.child != nil {
		s.child.stop()
	}
}

// list asks for all tools.
func (s *session) list(ctx context.Context) ([]theirTool, error) {
	var all []theirTool
	for cursor := ""; ; {
		result, err := s.mcp.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, fmt.Errorf("list its tools: %w", err)
		}
		var page struct {
			Tools []theirTool `json:"tools"`
		}
		if err := rawResult(result.Meta, &page); err != nil {
			return nil, fmt.Errorf("list its tools: %w", err)
		}
		all = append(all, page.Tools...)
		if len(all) > maxTheirs {
			return nil, fmt.Errorf("list its tools: there are more than %d", maxTheirs)
		}
		if cursor == result.NextCursor || result.NextCursor == "" {
			return all, nil
		}
		cursor = result.NextCursor
	}
}

// rawResult decodes the result's own text.
func rawResult(meta mcp.Meta, into any) error {
	raw, ok := meta[rawKey].(string)
	if !ok {
		return errors.New("the result is not an object")
	}
	return json.Unmarshal([]byte(raw), into)
}

// errBadResult says that a result is not what a tool gives.
var errBadResult = errors.New("decode the result")

// call makes one call. The context's end is told to the server.
func (s *session) call(ctx context.Context, name string, call provider.Call) (*callResult, error) {
	params := &mcp.CallToolParams{Name: name, Arguments: call.Arguments}
	if call.TraceParent != "" {
		params.Meta = mcp.Meta{"traceparent": call.TraceParent}
	}
	result, err := s.mcp.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	decoded := &callResult{}
	if err := rawResult(result.Meta, decoded); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadResult, err)
	}
	return decoded, nil
}

// handler answers calls of the server's tool. repeatable says that a call may
// be made again whatever became of it.
func (u *upstream) handler(name string, repeatable bool) func(context.Context, provider.Call) (any, error) {
	return func(ctx context.Context, call provider.Call) (any, error) {
		s := u.current()
		if s == nil {
			return nil, provider.Retryable(provider.Errorf(provider.CodeUnavailable, "the tool's server is being started again; the call was not made"))
		}
		ctx, cancel := context.WithTimeout(ctx, u.server.Timeout.Std())
		defer cancel()
		result, err := s.call(ctx, name, call)
		if err == nil {
			return result.answer()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, told(err, repeatable)
	}
}

// told is what a guest learns of a call that the server did not answer well.
func told(err error, repeatable bool) error {
	var theirs *jsonrpc.Error
	switch {
	case errors.Is(err, errBadResult):
		return err
	case !errors.As(err, &theirs):
		err = fmt.Errorf("%w: %w", provider.Errorf(provider.CodeUnavailable, "the tool's server ended or broke off during the call; the tool may still have acted"), err)
		if repeatable {
			return provider.Retryable(err)
		}
		return err
	case theirs.Code == jsonrpc.CodeInvalidParams:
		return provider.Errorf(provider.CodeBadArguments, "%s", job.Printable(theirs.Message, maxTold))
	}
	return provider.Errorf(CodeServer, "%s", job.Printable(theirs.Message, maxTold))
}
