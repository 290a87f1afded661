package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"airlock/job"
	"airlock/store"
)

const (
	// maxMCP bounds a message: a job, and what is around it.
	maxMCP = job.MaxSpec + 64*job.KiB
	// mcpBatch is the batch of the jobs that agents run.
	mcpBatch = "mcp"
)

// MCPMessage is one message of JSON-RPC, as the Model Context Protocol has it.
type MCPMessage struct {
	JSONRPC string         `json:"jsonrpc" enum:"2.0"`
	ID      jsontext.Value `json:"id,omitzero" doc:"Of a request, and in its answer."`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   jsontext.Value `json:"error,omitzero"`
}

// mcpRoute is Airlock as an MCP server. It keeps no session, so that any
// gateway may answer the next request.
func (g *Gateway) mcpRoute() route {
	return route{
		method: post, path: "/mcp", scope: store.ScopeSubmit, name: "mcp", summary: "Airlock as an MCP server: a code interpreter for agents",
		text: "The Model Context Protocol's streamable HTTP, without sessions. Its tools are run_python, and, for tokens that may read too, get_run and list_tools. " +
			"A run is a job of the batch mcp; a client that leaves while it waits has it cancelled. What is no request is answered with 202.",
		in: &content{media: mediaJSON, of: MCPMessage{},
			example: `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_python", "arguments": {"code": "return 6 * 7"}}}`},
		out:      map[int]content{200: doc(MCPMessage{}, "The answer. How a tool's call went is within.")},
		problems: ofBodies, serve: g.serveMCP,
	}
}

// serveMCP answers one message. The SDK reads JSON less strictly than we do, so
// that it sees only what has been checked.
func (g *Gateway) serveMCP(w http.ResponseWriter, r *request) error {
	body, err := g.read(w, r, maxMCP, mediaJSON)
	if err != nil {
		return err
	}
	if err := job.CheckJSON(body); err != nil {
		return badBody(err)
	}
	// Several in one would get past the limits of their tenant.
	if jsontext.Value(bytes.TrimLeft(body, " \t\r\n")).Kind() != '{' {
		return problemf(CodeBadRequest, "the body is to be one message of JSON-RPC")
	}
	server := g.mcpServer(r)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: int64(maxMCP), PropagateRequestCancellation: true,
		// The gate has looked at the host of those who bear no token; behind a
		// proxy of this machine it is the proxy's name.
		DisableLocalhostProtection: true,
	})
	message := r.Request.Clone(r.Context())
	message.Body, message.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// Not every client says that it takes both; all take what they get, JSON.
	message.Header.Set("Accept", mediaJSON+", "+mediaEvents)
	handler.ServeHTTP(w, message)
	return nil
}

// mcpServer serves one request of its sender.
func (g *Gateway) mcpServer(r *request) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "airlock", Title: "Airlock", Version: g.cfg.Version}, &mcp.ServerOptions{
		Instructions: mcpInstructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for _, t := range g.mcpTools() {
		if r.who.may(t.scope) {
			server.AddTool(t.tool, g.mcpHandler(r, t))
		}
	}
	return server
}

// mcpTool is a tool that agents may call.
type mcpTool struct {
	tool  *mcp.Tool
	scope store.Scope
	call  func(ctx context.Context, tenant string, arguments []byte) (*mcp.CallToolResult, error)
}

// mcpHandler calls the tool for who asks. What went wrong is told to the agent,
// which may do better.
func (g *Gateway) mcpHandler(r *request, t mcpTool) mcp.ToolHandler {
	return func(ctx context.Context, call *mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
		// The SDK calls on a goroutine of its own, whose context does not end
		// with the request in all versions of the protocol.
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(r.Context(), stop)()
		defer func() {
			if fault := recover(); fault != nil {
				g.cfg.Log.Error().Interface("fault", fault).Bytes("stack", debug.Stack()).Msg("tool of MCP panicked")
				result, err = refusal(problemf(CodeInternal, "an error of the gateway's own: its log says more")), nil
			}
		}()
		arguments := []byte(call.Params.Arguments)
		if len(arguments) == 0 {
			arguments = []byte("{}")
		}
		result, err = t.call(ctx, r.who.tenant, arguments)
		if err == nil || ctx.Err() != nil {
			return result, err
		}
		p := problemOf(err)
		if p.Status >= http.StatusInternalServerError {
			g.cfg.Log.Warn().Err(err).Str("tool", t.tool.Name).Str("code", string(p.Code)).Msg("tool of MCP not served")
		}
		return refusal(p), nil
	}
}

// refusal tells an agent of a problem.
func refusal(p *Problem) *mcp.CallToolResult {
	text := p.Error()
	for _, detail := range p.Errors {
		text += "\n" + job.Printable(detail.Field+": "+detail.Reason, 500)
	}
	result, err := structured(map[string]*Problem{"problem": p}, text)
	if err != nil {
		result = &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	result.IsError = true
	return result
}

// structured is an answer as JSON for programs and as text for models.
func structured(v any, text string) (*mcp.CallToolResult, error) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: jsontext.Value(body)}, nil
}

// badArguments says what is wrong with a call's arguments.
func badArguments(err error) error {
	var field *job.FieldError
	if errors.As(err, &field) {
		return problemf(CodeBadRequest, "%s", field).with(FieldDetail{field.Field, field.Reason})
	}
	return err
}
