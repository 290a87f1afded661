package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"airlock/cmd/toolbridge/internal/bridge"
)

// TestMain makes this binary an MCP server too.
func TestMain(m *testing.M) {
	if os.Getenv("TOOLBRIDGE_TEST_SERVER") == "" {
		os.Exit(m.Run())
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	type in struct{}
	mcp.AddTool(server, &mcp.Tool{Name: "a.b", Description: "red \x1b[31malert"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	if server.Run(context.Background(), &mcp.StdioTransport{}) != nil {
		os.Exit(1)
	}
}

// configFile holds servers that are this binary.
func configFile(t *testing.T, namespaces ...string) string {
	t.Helper()
	var cfg struct {
		Servers []map[string]any `json:"servers"`
	}
	for _, n := range namespaces {
		cfg.Servers = append(cfg.Servers, map[string]any{
			"namespace": n, "command": []string{os.Args[0]}, "env": map[string]string{"TOOLBRIDGE_TEST_SERVER": "1"},
		})
	}
	raw, err := json.Marshal(cfg)
	path := filepath.Join(t.TempDir(), "servers.json")
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheck(t *testing.T) {
	t.Parallel()
	file := configFile(t, "x", "w")
	var out, talk bytes.Buffer
	if code := run(t.Context(), []string{"--config", file, "--check", "--json"}, &out, &talk); code != exitOK {
		t.Fatalf("got exit code %d, want 0: %s", code, talk.String())
	}
	var tools []bridge.Listed
	if err := json.Unmarshal(out.Bytes(), &tools, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if len(tools) != 2 || tools[0].Namespace != "w" || tools[1].Name != "a_b" || tools[1].Original != "a.b" || tools[1].Server != 0 {
		t.Errorf("got %+v, want w.a_b and x.a_b", tools)
	}
	out.Reset()
	if code := run(t.Context(), []string{"--config", file, "--check"}, &out, &talk); code != exitOK {
		t.Fatalf("got exit code %d, want 0: %s", code, talk.String())
	}
	if text := out.String(); !strings.Contains(text, "x.a_b") || strings.Contains(text, "\x1b") || !strings.Contains(text, `red \x1b[31malert`) {
		t.Errorf("got %q, want the tools, and what servers say made printable", text)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	file := configFile(t, "x", "x")
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"servers":[{"x":1}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no configuration", []string{"--check"}, exitUsage, "--config"},
		{"a bad one", []string{"--check", "--config", bad}, exitUsage, "servers"},
		{"no NATS", []string{"--config", file}, exitUsage, "--nats"},
		{"no such flag", []string{"--confg", file}, exitUsage, "--confg"},
		{"two of one name", []string{"--check", "--config", file}, exitInternal, "x.a_b is a tool of servers["},
		{"NATS is not there", []string{"--config", file, "--nats", "nats://127.0.0.1:1", "--connect-timeout", "10ms"}, exitInternal, "is --nats right"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var talk bytes.Buffer
			if code := run(t.Context(), tc.args, io.Discard, &talk); code != tc.code || !strings.Contains(talk.String(), tc.want) {
				t.Errorf("got exit code %d and %q, want %d and %q", code, talk.String(), tc.code, tc.want)
			}
		})
	}
}

func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&config{}, kong.DefaultEnvars("AIRLOCK"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &out, io.Discard); code != exitOK {
		t.Fatalf("got exit code %d, want 0", code)
	}
	help := strings.Join(strings.Fields(out.String()), " ")
	for _, flag := range parser.Model.Flags {
		twin := "AIRLOCK_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if flag.Name != "help" && (!strings.Contains(help, "--"+flag.Name) || !strings.Contains(help, "$"+twin) || flag.Help == "") {
			t.Errorf("--%s, its help or its twin %s is not in\n%s", flag.Name, twin, help)
		}
	}
}
