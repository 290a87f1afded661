package bridge

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/broker/provider"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The codes of errors that come from a server.
const (
	// CodeTool is a tool's own word that it failed.
	CodeTool = "tool_error"
	// CodeServer is the server's: it did not run the tool.
	CodeServer = "server_error"
)

// callResult is what a tool answers.
type callResult struct {
	Content           []block        `json:"content"`
	StructuredContent jsontext.Value `json:"structuredContent"`
	IsError           bool           `json:"isError"`
	ResultType        string         `json:"resultType"`
}

// block is one piece of content of whatever type.
type block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	Data     string    `json:"data"`
	MIMEType string    `json:"mimeType"`
	URI      string    `json:"uri"`
	Name     string    `json:"name"`
	Resource *resource `json:"resource"`
}

type resource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     *string `json:"blob"`
}

// answer is what the guest gets of a result: its structured content, else its
// texts as one, else a list of its pieces, where data are bytes.
func (r *callResult) answer() (jsontext.Value, error) {
	switch {
	case r.ResultType == "input_required":
		return nil, provider.Errorf(CodeTool, "the tool asks its caller for more, which no guest can give")
	case r.IsError:
		return nil, provider.Errorf(CodeTool, "%s", cmp.Or(r.text(), "the tool failed and did not say why"))
	case r.StructuredContent != nil && r.StructuredContent.Kind() != 'n':
		return r.StructuredContent, nil
	case len(r.Content) == 0:
		return jsontext.Value("null"), nil
	case !slices.ContainsFunc(r.Content, func(b block) bool { return b.Type != "text" }):
		return encode(r.text())
	}
	pieces := make([]any, len(r.Content))
	for i, b := range r.Content {
		piece, err := b.piece()
		if err != nil {
			return nil, fmt.Errorf("content[%d]: %w", i, err)
		}
		pieces[i] = piece
	}
	return encode(pieces)
}

func encode(value any) (jsontext.Value, error) {
	body, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return body, nil
}

func (r *callResult) text() string {
	var texts []string
	for _, b := range r.Content {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// piece is a block as an object of the answer.
func (b block) piece() (map[string]any, error) {
	switch b.Type {
	case "text":
		return map[string]any{"type": "text", "text": b.Text}, nil
	case "image", "audio":
		data, err := bytesForm(b.Data)
		return map[string]any{"type": b.Type, "mime_type": b.MIMEType, "data": data}, err
	case "resource_link":
		return map[string]any{"type": b.Type, "uri": b.URI, "name": b.Name, "mime_type": b.MIMEType}, nil
	case "resource":
		return b.Resource.piece()
	}
	return nil, fmt.Errorf("type %q is not known", b.Type)
}

func (r *resource) piece() (map[string]any, error) {
	if r == nil || (r.Text == nil) == (r.Blob == nil) {
		return nil, errors.New("a resource has neither text nor blob, or both")
	}
	piece := map[string]any{"type": "resource", "uri": r.URI, "mime_type": r.MIMEType}
	if r.Text != nil {
		piece["text"] = *r.Text
		return piece, nil
	}
	data, err := bytesForm(*r.Blob)
	piece["data"] = data
	return piece, err
}

// bytesForm is the form in which bytes go to guests.
func bytesForm(text string) (any, error) {
	if _, err := base64.StdEncoding.DecodeString(text); err != nil {
		return nil, errors.New("data is not base64")
	}
	return map[string]string{"$airlock": "bytes", "base64": text}, nil
}
