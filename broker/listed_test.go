package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"airlock/broker"
	"airlock/broker/brokertest"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// plainTool is a tool of the job frame as PROTOCOL.md has it.
type plainTool struct {
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema,omitzero"`
}

// The tools of a job frame are put together from parts that were encoded
// before: they are, to the byte, what it gives to encode them all.
func TestToolsOfTheJobFrameAreThoseOfPlainEncoding(t *testing.T) {
	t.Parallel()
	const room = 1 << 20 // PROTOCOL.md: descriptions and schemas of one frame
	tools := &brokertest.Tools{}
	var want []plainTool
	left := room
	add := func(name, description, schema string) {
		spec := broker.ToolSpec{
			Namespace: "odd", Name: name, Description: description,
			OutputSchema: []byte(`{"type":"string","description":"of no use for binding"}`),
		}
		if schema != "" {
			spec.InputSchema = []byte(schema)
		}
		tools.AddSpec(t, spec, nil)
		plain := plainTool{Namespace: "odd", Name: name}
		if size := len(description) + len(schema); size <= left {
			left -= size
			plain.Description, plain.InputSchema = description, jsontext.Value(spec.InputSchema)
		}
		want = append(want, plain)
	}
	add("a_bare", "", "")
	add("b_described", `}} "quoted" \ </script> & ä 🍸`, "")
	add("c_schema", "", `{"type":"object","description":"}}","properties":{"\"tools\":[]":true}}`)
	add("d_spaced", "spaces and lines", "{ \"type\" :\t\"object\"\n}")
	for i := range 20 {
		add(fmt.Sprintf("e_long%02d", i), strings.Repeat("}", 1000), `{"type":"object","description":"`+strings.Repeat("x", room/18)+`"}`)
	}
	add("f_after", "has room again", `{"type":"object"}`)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}

	b := begin(t, setup{tools: tools, grants: "odd.*", edits: []func(*job.Job){func(j *job.Job) { j.Code = `}}"` }}})
	frame := b.Hello()
	var parsed struct {
		Params struct {
			Code  string         `json:"code"`
			Tools jsontext.Value `json:"tools"`
		} `json:"params"`
	}
	if err := json.Unmarshal([]byte(frame), &parsed); err != nil {
		t.Fatalf("got a job frame that is no strict JSON: %v", err)
	}
	if got := string(parsed.Params.Tools); got != string(text) {
		at := 0
		for at < min(len(got), len(text)) && got[at] == text[at] {
			at++
		}
		t.Errorf("got tools that differ from byte %d on: %.200q, want %.200q", at, got[max(0, at-40):], text[max(0, at-40):])
	}
	if parsed.Params.Code != `}}"` {
		t.Errorf("got code %q, want the job's", parsed.Params.Code)
	}
	b.end(t)
}
