package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"airlock/job"
)

// referenceServer is one of npm's official MCP servers, which dev/mcp.sh
// installs.
func referenceServer(t *testing.T) []string {
	t.Helper()
	require(t, "mcp", "node")
	dir := os.Getenv("AIRLOCK_MCP")
	if dir == "" {
		dir = filepath.Join("..", "bin", "mcp")
	}
	script, err := filepath.Abs(filepath.Join(dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"))
	if err == nil {
		_, err = os.Stat(script)
	}
	if err != nil {
		missing(t, "mcp", "run dev/mcp.sh first: "+err.Error())
	}
	return []string{"node", script, "stdio"}
}

// exampleServer builds the SDK's own example.
func exampleServer(t *testing.T) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "everything")
	build := exec.Command("go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/examples/server/everything")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	return []string{program}
}

// bridged serves the MCP servers to the shared worker until the test ends.
func bridged(t *testing.T, servers ...map[string]any) {
	t.Helper()
	env := standaloneEnv(t)
	raw, err := json.Marshal(map[string]any{"servers": servers})
	file := filepath.Join(t.TempDir(), "servers.json")
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	talk, serving := &transcript{}, &transcript{}
	cmd := exec.Command(binary(t, "toolbridge"), "--config", file)
	cmd.Env = append(os.Environ(), "AIRLOCK_NATS="+env["AIRLOCK_NATS"])
	cmd.Stdout, cmd.Stderr = serving, talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("toolbridge: got %v, want a good end\n%s", err, talk)
		}
	})
	until(t, 2*time.Minute, "toolbridge serves", func() bool {
		return strings.Count(talk.String(), `"message":"serving"`) == len(servers)
	})
}

func TestAJobCallsToolsOfMCPServers(t *testing.T) {
	t.Parallel()
	bridged(t,
		map[string]any{"namespace": "every", "command": referenceServer(t)},
		map[string]any{"namespace": "example", "command": exampleServer(t),
			"tools": []string{"greet", "greet (structured)"}, "rename": map[string]string{"greet (structured)": "structured"}},
	)
	until(t, time.Minute, "the worker knows both", func() bool {
		r := runJob(t, "await tools.call('every', 'echo', {'message': 'x'}); await greet('x')", "--tools", "every.*", "--tools", "example.*")
		return r.Status == job.StatusOK
	})
	const code = `
total = await tools.call("every", "get-sum", {"a": 2, "b": 40})
structured = await tools.call("every", "get-structured-content", {"location": "Chicago"})
image = await tools.call("every", "get-tiny-image", {})
env = await tools.call("every", "get-env", {})
try:
    await tools.call("every", "get-sum", {"a": "x", "b": 1})
    wrong = None
except ToolError as e:
    wrong = e.code
return [
    total, sorted(structured), [p["data"][1:4] for p in image if p["type"] == "image"] == [b"PNG"], "AIRLOCK" in env, wrong,
    await greet("you"), await tools.example.structured(name="you"),
]
`
	r := runJob(t, code, "--tools", "every.*", "--tools", "example.*", "--wall", "60s", "--tool-time", "60s")
	const want = `["The sum of 2 and 40 is 42.",["conditions","humidity","temperature"],true,false,"bad_arguments","Hi you",{"message":"Hi you"}]`
	if string(r.Value) != want {
		t.Errorf("got %s (%+v), want %s", r.Value, r.Error, want)
	}
}
