package frame

import "github.com/go-json-experiment/json/jsontext"

// Version is that of broker/PROTOCOL.md.
const Version = 1

// Request is a frame that a guest sends. Hello and artifact have no ID.
type Request struct {
	ID     *int64         `json:"id,omitzero"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params,omitzero"`
}

// Hello are the params of a guest's first frame.
type Hello struct {
	Protocol int    `json:"protocol"`
	Python   string `json:"python"`
	Token    string `json:"token,omitzero"`
}

// Job is the frame that answers hello.
type Job struct {
	Method string    `json:"method"`
	Params JobParams `json:"params"`
}

// JobParams are what a guest is to run.
type JobParams struct {
	Code      string            `json:"code"`
	Vars      jsontext.Value    `json:"vars,omitzero"`
	Args      []string          `json:"args,omitzero"`
	Env       map[string]string `json:"env,omitzero"`
	Files     []File            `json:"files,omitzero"`
	Collect   []string          `json:"collect,omitzero"`
	Namespace string            `json:"namespace,omitzero"`
	Tools     []Tool            `json:"tools,omitzero"`
	Limits    Limits            `json:"limits,omitzero"`
}

// File is written below the guest's /workspace.
type File struct {
	Path   string `json:"path"`
	Base64 string `json:"base64"`
}

// Tool is one that the guest may call.
type Tool struct {
	Namespace    string         `json:"namespace"`
	Name         string         `json:"name"`
	Description  string         `json:"description,omitzero"`
	InputSchema  jsontext.Value `json:"input_schema,omitzero"`
	OutputSchema jsontext.Value `json:"output_schema,omitzero"`
}

// Limits are those that the guest is told.
type Limits struct {
	Result    int64 `json:"result,omitzero"`
	Frame     int64 `json:"frame,omitzero"`
	Parallel  int   `json:"parallel,omitzero"`
	Artifacts int64 `json:"artifacts,omitzero"`
}

// Call are the params of call_tool.
type Call struct {
	Namespace string         `json:"namespace,omitzero"`
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

// Result are the params of result: exactly one of Value, Error and TooLarge.
type Result struct {
	Value     jsontext.Value `json:"value,omitzero"`
	Lossy     bool           `json:"lossy,omitzero"`
	Error     *Exception     `json:"error,omitzero"`
	TooLarge  int64          `json:"too_large,omitzero"`
	Unawaited []string       `json:"unawaited,omitzero"`
	LeftOut   int64          `json:"left_out,omitzero"`
}

// Artifact are the params of artifact: one of Base64 and Refused.
type Artifact struct {
	Path    string `json:"path"`
	Base64  []byte `json:"base64,omitzero"`
	More    bool   `json:"more,omitzero"`
	Refused string `json:"refused,omitzero"`
	Size    int64  `json:"size,omitzero"`
}

// Exception is what ended the guest's code.
type Exception struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitzero"`
}

// Reply answers a Request.
type Reply struct {
	ID    int64          `json:"id"`
	OK    bool           `json:"ok"`
	Value jsontext.Value `json:"value,omitzero"`
	Error *Refusal       `json:"error,omitzero"`
}

// Refusal is why a Request was not answered with a value.
type Refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Retryable says that the same call may go well later.
	Retryable bool `json:"retryable,omitzero"`
}
