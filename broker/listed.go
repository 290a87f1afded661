package broker

import (
	"bytes"
	"fmt"
	"sync"

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
	// binding the tools. It is the last field.
	OutputSchema jsontext.Value `json:"output_schema,omitzero"`
}

// described is a tool's entry, encoded when it is first listed: jobs list the
// same tools again and again, and to encode 5,000 of them takes 7 ms.
type described struct {
	once sync.Once
	// text is the entry without its closing brace. It begins with the names,
	// which are named bytes; the description and the schema end at brief.
	text         []byte
	named, brief int
	err          error
}

// entry is the tool's.
func (t *Tool) entry() *described {
	d := &t.described
	d.once.Do(func() {
		e := toolEntry{Namespace: t.Namespace, Name: t.Name}
		d.named = d.encode(e)
		e.Description, e.InputSchema = t.Description, t.InputSchema
		d.brief = d.encode(e)
		e.OutputSchema = t.OutputSchema
		d.encode(e)
	})
	return d
}

// encode makes e the text, and returns its length.
func (d *described) encode(e toolEntry) int {
	text, err := json.Marshal(e)
	if err != nil {
		d.err = fmt.Errorf("encode tool %s.%s: %w", e.Namespace, e.Name, err)
		return 0
	}
	d.text = bytes.TrimSuffix(text, []byte("}"))
	return len(d.text)
}

// maxToolText bounds the descriptions and schemas of one list, so that it fits
// a frame beside the largest job; and once more its output schemas.
const maxToolText = 1 << 20

// listed is the list of tools with as many descriptions and schemas as fit,
// and with outputs as many of the output schemas.
func listed(tools []*Tool, outputs bool) (jsontext.Value, error) {
	list, room, outputRoom := make([]byte, 1, sizeOf(tools)), maxToolText, maxToolText
	list[0] = '['
	for i, t := range tools {
		d := t.entry()
		if d.err != nil {
			return nil, d.err
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, d.text[:d.named]...)
		if size := len(t.Description) + len(t.InputSchema); size <= room {
			room -= size
			list = append(list, d.text[d.named:d.brief]...)
		}
		if outputRoom -= len(t.OutputSchema); outputs && outputRoom >= 0 {
			list = append(list, d.text[d.brief:]...)
		}
		list = append(list, '}')
	}
	return append(list, ']'), nil
}

// sizeOf is no less than the length of the list with everything.
func sizeOf(tools []*Tool) int {
	size := 2
	for _, t := range tools {
		size += len(t.entry().text) + 2
	}
	return size
}
