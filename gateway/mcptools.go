package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"airlock/job"
	"airlock/store"
)

const mcpInstructions = "run_python runs Python in a fresh sandbox without network: each call begins with nothing of the one before. " +
	"Give a value back with return at the top level, or as the last expression; await works there too. " +
	"list_tools says which tools of the operator's the code may be granted and call."

// maxMCPText is how much of each stream a model is shown. The structured part
// has all that was kept.
const maxMCPText = 32 << 10

// mcpTools are what agents may call.
func (g *Gateway) mcpTools() []mcpTool {
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	return []mcpTool{
		{scope: store.ScopeSubmit, call: g.runPython, tool: &mcp.Tool{
			Name: "run_python", Title: "Run Python", InputSchema: jsontext.Value(runPythonSchema),
			Description: "Run Python code in a fresh sandbox and wait for what came of it: value, stdout, stderr and error. There is no network, and nothing is kept between runs.",
		}},
		{scope: store.ScopeRead, call: g.getRun, tool: &mcp.Tool{
			Name: "get_run", Title: "Look at a run", Annotations: readOnly, InputSchema: jsontext.Value(getRunSchema),
			Description: "What came of a run, by its id: for one that had not ended when run_python came back.",
		}},
		{scope: store.ScopeRead, call: g.listTools, tool: &mcp.Tool{
			Name: "list_tools", Title: "List the tools for code", Annotations: readOnly, InputSchema: jsontext.Value(listToolsSchema),
			Description: "The tools that code may be granted by run_python's argument tools, with their schemas.",
		}},
	}
}

const (
	runPythonSchema = `{"type": "object", "required": ["code"], "additionalProperties": false, "properties": {
 "code": {"type": "string", "description": "Python source. The value is what is returned at the top level, else the last expression. Tools are async functions: await add(a=1, b=2)."},
 "files": {"type": "object", "description": "Files to put under /workspace, by path: their text, or {\"base64\": \"…\"}.",
  "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["base64"], "properties": {"base64": {"type": "string"}}}]}},
 "tools": {"type": "array", "description": "Tools that the code may call, such as math.add, or math.* for all of a namespace; list_tools has them.", "items": {"type": "string"}},
 "limits": {"type": "object", "description": "Times such as 10s, sizes such as 256MiB.", "additionalProperties": false, "properties": {
  "wall": {"type": "string"}, "cpu": {"type": "string"}, "memory": {"type": "string"}, "output": {"type": "string"}, "disk": {"type": "string"}, "result": {"type": "string"},
  "processes": {"type": "integer"}, "tool_calls": {"type": "integer"}, "tool_time": {"type": "string"}}}}}`
	getRunSchema    = `{"type": "object", "required": ["id"], "additionalProperties": false, "properties": {"id": {"type": "string", "description": "The run's id."}}}`
	listToolsSchema = `{"type": "object", "additionalProperties": false, "properties": {"namespace": {"type": "string", "description": "Only those of this namespace."}}}`
)

// Run is a job as agents see it.
type Run struct {
	ID     job.ID `json:"id"`
	Status string `json:"status"`
	// Value is the guest's word.
	Value     jsontext.Value `json:"value,omitzero"`
	Lossy     bool           `json:"lossy,omitzero"`
	Error     *job.Error     `json:"error,omitzero"`
	Stdout    string         `json:"stdout"`
	Stderr    string         `json:"stderr"`
	Truncated bool           `json:"truncated,omitzero"`
	ExitCode  *int           `json:"exit_code,omitzero"`
	ToolCalls int            `json:"tool_calls,omitzero"`

	failed bool
}

func (g *Gateway) runPython(ctx context.Context, tenant string, arguments []byte) (*mcp.CallToolResult, error) {
	var in struct {
		Code   string               `json:"code"`
		Files  map[string]job.Bytes `json:"files,omitzero"`
		Tools  []string             `json:"tools,omitzero"`
		Limits job.Limits           `json:"limits,omitzero"`
	}
	if err := job.DecodeStrict(arguments, &in); err != nil {
		return nil, badArguments(err)
	}
	j := &job.Job{Code: in.Code, Batch: mcpBatch, Limits: in.Limits}
	for _, path := range slices.Sorted(maps.Keys(in.Files)) {
		j.Files = append(j.Files, job.File{Path: path, Content: in.Files[path]})
	}
	for _, tool := range in.Tools {
		namespace, name, ok := strings.Cut(tool, ".")
		if !ok {
			return nil, &job.FieldError{Field: "tools", Reason: "want a namespace and a name, such as math.add or math.*"}
		}
		j.Tools = append(j.Tools, job.Grant{Namespace: namespace, Name: name})
	}
	if err := adopt(j, tenant); err != nil {
		return nil, err
	}
	receipt, err := g.runOne(ctx, j, options{wait: maxWait, leash: true})
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case receipt.Result == nil:
		return tellRun(Run{ID: receipt.ID, Status: "running"})
	}
	return tellRun(runOf(receipt.Result))
}

func (g *Gateway) getRun(ctx context.Context, tenant string, arguments []byte) (*mcp.CallToolResult, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := job.DecodeStrict(arguments, &in); err != nil {
		return nil, badArguments(err)
	}
	id, err := job.ParseID(in.ID)
	if err != nil {
		return nil, problemf(CodeNotFound, "%q is no run's id", job.Printable(in.ID, 80))
	}
	record, err := settled(ctx, id, func() (job.Record, error) { return g.cfg.Store.Job(ctx, tenant, id) })
	if err != nil {
		return nil, err
	}
	if !record.State.Ended() {
		return tellRun(Run{ID: id, Status: string(record.State)})
	}
	result, err := g.cfg.Store.Result(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return tellRun(runOf(result))
}

func runOf(r *job.Result) Run {
	return Run{
		ID: r.Job, Status: string(r.Status), Value: r.Value, Lossy: r.Lossy, Error: r.Error, Stdout: text(r.Stdout), Stderr: text(r.Stderr),
		Truncated: r.StdoutTruncated || r.StderrTruncated, ExitCode: r.ExitCode, ToolCalls: r.ToolCalls, failed: r.Status != job.StatusOK,
	}
}

// tellRun shows a run. The text may come onto a terminal, so that nothing in it
// commands one.
func tellRun(run Run) (*mcp.CallToolResult, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "run %s: %s\n", run.ID, run.Status)
	show := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&out, "%s:\n%s\n", name, strings.TrimSuffix(job.PrintableLines(text, maxMCPText), "\n"))
		}
	}
	show("value", string(run.Value))
	show("stdout", run.Stdout)
	show("stderr", run.Stderr)
	if run.Error != nil {
		show("error", run.Error.Type+": "+run.Error.Message)
		show("traceback", run.Error.Traceback)
	}
	result, err := structured(run, strings.TrimSuffix(out.String(), "\n"))
	if err == nil {
		result.IsError = run.failed
	}
	return result, err
}

func (g *Gateway) listTools(ctx context.Context, tenant string, arguments []byte) (*mcp.CallToolResult, error) {
	var in struct {
		Namespace string `json:"namespace,omitzero"`
	}
	if err := job.DecodeStrict(arguments, &in); err != nil {
		return nil, badArguments(err)
	}
	list, err := g.toolsOf(ctx, tenant, job.ToolsQuery{Namespace: in.Namespace, Schemas: true})
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d tools\n", len(list.Tools))
	for _, t := range list.Tools {
		fmt.Fprintf(&out, "%s.%s: %s\n", job.Printable(t.Namespace, 64), job.Printable(t.Name, 64), job.Printable(t.Description, 500))
		if len(t.InputSchema) > 0 {
			fmt.Fprintf(&out, "  arguments: %s\n", job.Printable(string(t.InputSchema), 2000))
		}
	}
	return structured(list, strings.TrimSuffix(out.String(), "\n"))
}
