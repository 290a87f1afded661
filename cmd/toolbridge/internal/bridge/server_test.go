package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"airlock/cmd/toolbridge/internal/bridge"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// kindVariable makes this test binary an MCP server at its standard input and
// output.
const kindVariable = "BRIDGE_TEST_SERVER"

func TestMain(m *testing.M) {
	switch kind := os.Getenv(kindVariable); kind {
	case "":
		os.Exit(m.Run())
	case "dies":
		fmt.Fprintln(os.Stderr, "no way \x1b[31mto begin")
		os.Exit(3)
	case "bridge":
		holdBridge()
	default:
		serveStdio(kind)
	}
}

// holdBridge runs a server that does not end with its input, says so, and waits.
func holdBridge() {
	cfg := &bridge.Config{Servers: []bridge.Server{local("n", "stays")}}
	if _, err := bridge.Open(context.Background(), cfg, bridge.Options{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	select {}
}

func serveStdio(kind string) {
	if kind == "noisy" {
		fmt.Println("listening\n[1]\n{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\"}")
	}
	if err := newServer(kind).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if kind == "stays" {
		select {} // whatever its input says
	}
}

type greeting struct {
	Zed  string `json:"zed" jsonschema:"whom to greet"`
	Able int    `json:"able,omitempty" jsonschema:"how often"`
}

type greeted struct {
	Text string `json:"text"`
}

// newServer is a server of the SDK's, in the manner of its examples.
func newServer(kind string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	hints := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "greet", Description: "Say hi.", Annotations: hints},
		func(_ context.Context, _ *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, greeted, error) {
			return nil, greeted{"Hi " + in.Zed}, nil
		})
	if kind == "one" {
		return server
	}
	// The SDK would check and encode what these take and give.
	raw := func(name string, handle func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: jsontext.Value(`{"type":"object","properties":{"zz":{},"aa":{}}}`)}, handle)
	}
	raw("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: jsontext.Value(r.Params.Arguments)}, nil
	})
	raw("sub.text", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return texts("one", "two"), nil
	})
	raw("image", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := texts("see:")
		result.Content = append(result.Content, &mcp.ImageContent{MIMEType: "image/png", Data: []byte{0, 255}})
		return result, nil
	})
	raw("nothing", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return texts(), nil })
	raw("fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := texts("no such file")
		result.IsError = true
		return result, nil
	})
	raw("refuse", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "not like this"}
	})
	raw("env", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return texts(os.Environ()...), nil
	})
	raw("pid", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return texts(strconv.Itoa(os.Getpid())), nil
	})
	raw("meta", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return texts(fmt.Sprint(r.Params.Meta["traceparent"])), nil
	})
	raw("die", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { os.Exit(7); return nil, nil })
	raw("say", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "red \x1b[31malert")
		return texts(), nil
	})
	raw("spawn", spawn)
	raw("slow", slow)
	raw("more", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		server.AddTool(&mcp.Tool{Name: "extra", InputSchema: jsontext.Value(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return texts("extra"), nil })
		server.RemoveTools("nothing")
		return texts(), nil
	})
	return server
}

func texts(all ...string) *mcp.CallToolResult {
	result := &mcp.CallToolResult{Content: []mcp.Content{}}
	for _, text := range all {
		result.Content = append(result.Content, &mcp.TextContent{Text: text})
	}
	return result
}

// spawn leaves a process behind that holds all of the server's descriptors.
func spawn(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	child := exec.Command("sleep", "1000")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return nil, err
	}
	return texts(strconv.Itoa(child.Process.Pid)), nil
}

// slow says by files that it has begun, and that it was told to end.
func slow(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	path := strings.Trim(string(r.Params.Arguments), `{}"`)
	path = path[strings.LastIndex(path, `"`)+1:]
	if err := os.WriteFile(path+".begun", nil, 0o600); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, errors.Join(ctx.Err(), os.WriteFile(path+".ended", nil, 0o600))
}
