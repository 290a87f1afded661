package broker

import (
	"encoding/base64"
	"strconv"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// toolEntry is how a tool is described to a guest.
type toolEntry struct {
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema,omitzero"`
	// OutputSchema is in the answer to list_tools only: it has no use for
	// binding the tools.
	OutputSchema jsontext.Value `json:"output_schema,omitzero"`
}

// maxToolText bounds the descriptions and schemas of one list, so that it fits
// a frame beside the largest job.
const maxToolText = 1 << 20

// listed is the list of tools with as many descriptions and schemas as fit.
func listed(tools []*Tool) []toolEntry {
	entries, room := []toolEntry{}, maxToolText
	for _, t := range tools {
		entry := toolEntry{Namespace: t.Namespace, Name: t.Name}
		if size := len(t.Description) + len(t.InputSchema); size <= room {
			room -= size
			entry.Description, entry.InputSchema = t.Description, t.InputSchema
		}
		entries = append(entries, entry)
	}
	return entries
}

// jobFrame is the worker's answer to hello.
type jobFrame struct {
	Method string    `json:"method"`
	Params jobParams `json:"params"`
}

type jobParams struct {
	Code      string            `json:"code"`
	Vars      jsontext.Value    `json:"vars,omitzero"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Files     []jobFile         `json:"files,omitempty"`
	Collect   []string          `json:"collect,omitempty"`
	Namespace string            `json:"namespace,omitzero"`
	Tools     []toolEntry       `json:"tools,omitempty"`
	Limits    jobLimits         `json:"limits"`
}

type jobFile struct {
	Path   string `json:"path"`
	Base64 string `json:"base64"`
}

type jobLimits struct {
	Result   job.Size `json:"result"`
	Frame    int      `json:"frame"`
	Parallel int      `json:"parallel"`
	// Artifacts is told to guests that collect.
	Artifacts job.Size `json:"artifacts,omitzero"`
}

// encodeJob is the body of the job frame.
func (b *Broker) encodeJob(j *job.Job, tools []*Tool) ([]byte, error) {
	frame := jobFrame{Method: "job", Params: jobParams{
		Code: j.Code, Vars: j.Vars, Args: j.Args, Env: j.Env, Namespace: j.Namespace, Tools: listed(tools),
		Limits: jobLimits{Result: j.Limits.Result, Frame: MaxFrame, Parallel: b.cfg.Parallel},
	}}
	if len(j.Collect) > 0 {
		frame.Params.Collect, frame.Params.Limits.Artifacts = j.Collect, b.cfg.MaxArtifacts
	}
	for _, f := range j.Files {
		content := base64.StdEncoding.EncodeToString(f.Content)
		frame.Params.Files = append(frame.Params.Files, jobFile{Path: f.Path, Base64: content})
	}
	return json.Marshal(frame, json.Deterministic(true))
}

// okReply is the body of a reply. value is JSON that has been checked, or nil
// for a reply without one.
func okReply(id uint64, value jsontext.Value) []byte {
	body := make([]byte, 0, len(value)+48)
	body = append(body, `{"id":`...)
	body = strconv.AppendUint(body, id, 10)
	body = append(body, `,"ok":true`...)
	if value != nil {
		body = append(append(body, `,"value":`...), value...)
	}
	return append(body, '}')
}

// errorReply is the body of a reply that refuses or reports a failure. tool is
// the one that was called, if there was one.
func errorReply(id uint64, why *refusal, tool *Tool) []byte {
	body := make([]byte, 0, len(why.message)+96)
	body = append(body, `{"id":`...)
	body = strconv.AppendUint(body, id, 10)
	body = append(body, `,"ok":false,"error":{"code":"`...)
	body = append(body, why.code...)
	body = append(body, `","message":`...)
	// The message is printable, hence valid UTF-8, which is all that
	// AppendQuote can refuse.
	body, _ = jsontext.AppendQuote(body, job.Printable(why.message, maxMessage))
	if why.retryableBy(tool) {
		body = append(body, `,"retryable":true`...)
	}
	return append(body, `}}`...)
}

// encodeTools is the value of a list_tools reply.
func encodeTools(tools []*Tool) (jsontext.Value, error) {
	entries, room := listed(tools), maxToolText
	for i, t := range tools {
		if room -= len(t.OutputSchema); room < 0 {
			break
		}
		entries[i].OutputSchema = t.OutputSchema
	}
	return json.Marshal(entries, json.Deterministic(true))
}
