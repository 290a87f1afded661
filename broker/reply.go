package broker

import (
	"encoding/base64"
	"strconv"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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
		Code: j.Code, Vars: j.Vars, Args: j.Args, Env: j.Env, Namespace: j.Namespace,
		Limits: jobLimits{Result: j.Limits.Result, Frame: MaxFrame, Parallel: b.cfg.Parallel},
	}}
	if len(j.Collect) > 0 {
		frame.Params.Collect, frame.Params.Limits.Artifacts = j.Collect, b.cfg.MaxArtifacts
	}
	for _, f := range j.Files {
		content := base64.StdEncoding.EncodeToString(f.Content)
		frame.Params.Files = append(frame.Params.Files, jobFile{Path: f.Path, Base64: content})
	}
	body, err := json.Marshal(frame, json.Deterministic(true))
	if err != nil || len(tools) == 0 {
		return body, err
	}
	list, err := listed(tools, false)
	if err != nil {
		return nil, err
	}
	// The list is spliced in before both closing braces: it may be the most of
	// the frame, and has been checked.
	body = append(append(body[:len(body)-2], `,"tools":`...), list...)
	return append(body, "}}"...), nil
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
