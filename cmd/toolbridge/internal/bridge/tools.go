package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"airlock/broker/provider"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// theirTool is a tool as its server describes it.
type theirTool struct {
	Name         string         `json:"name"`
	Title        string         `json:"title"`
	Description  string         `json:"description"`
	InputSchema  jsontext.Value `json:"inputSchema"`
	OutputSchema jsontext.Value `json:"outputSchema"`
	Annotations  struct {
		ReadOnly   bool `json:"readOnlyHint"`
		Idempotent bool `json:"idempotentHint"`
	} `json:"annotations"`
}

// maxTheirs bounds the tools of one server.
const maxTheirs = 2000

// Listed is a tool that is served: Name is ours, Original the server's.
type Listed struct {
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	Original    string `json:"original"`
	Server      int    `json:"server"` // its place in the configuration
	Description string `json:"description"`
	ReadOnly    bool   `json:"read_only"`
	Idempotent  bool   `json:"idempotent"`
}

// wants reports whether the configuration lets the tool be served.
func (s *Server) wants(theirs string) bool { return s.Tools == nil || slices.Contains(s.Tools, theirs) }

// replaced are the characters in names of tools elsewhere that stand for _ here.
var replaced = strings.NewReplacer(".", "_", "/", "_", ":", "_", " ", "_")

// nameOf is what the server's tool is called here.
func (s *Server) nameOf(theirs string) (string, error) {
	ours := cmp.Or(s.Rename[theirs], replaced.Replace(theirs))
	if !job.ValidToolName(ours) {
		return "", errors.New("cannot be the name of a tool here; give it one by rename, or leave it out by tools")
	}
	return ours, nil
}

// offered makes tools of what the server lists. What cannot be served is left
// out, and said in the error, which comes with the others.
func (u *upstream) offered(theirs []theirTool) ([]offer, error) {
	var offers []offer
	var problems []error
	seen := map[string]bool{}
	for _, t := range theirs {
		if !u.server.wants(t.Name) || seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		o, err := u.offer(t)
		if err != nil {
			problems = append(problems, fmt.Errorf("tool %q: %w", job.Printable(t.Name, 80), err))
			continue
		}
		offers = append(offers, o)
	}
	for _, name := range u.server.Tools {
		if !seen[name] {
			problems = append(problems, fmt.Errorf("tool %q: the server has none of this name", job.Printable(name, 80)))
		}
	}
	return offers, errors.Join(problems...)
}

// offer is a tool as it is served, and how its server calls it.
type offer struct {
	provider.Tool
	theirs string
}

func (u *upstream) offer(t theirTool) (offer, error) {
	name, err := u.server.nameOf(t.Name)
	if err != nil {
		return offer{}, err
	}
	if t.InputSchema.Kind() != '{' {
		t.InputSchema = jsontext.Value(`{"type":"object"}`)
	}
	if t.OutputSchema.Kind() != '{' {
		t.OutputSchema = nil
	}
	tool := provider.Tool{
		Name: name, Description: job.PrintableLines(cmp.Or(t.Description, t.Title), provider.MaxDescription-len("…")),
		InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
	}
	if u.server.TrustHints {
		tool.ReadOnly, tool.Idempotent = t.Annotations.ReadOnly, t.Annotations.Idempotent
	}
	tool.Handler = u.handler(t.Name, tool.ReadOnly || tool.Idempotent)
	_, err = provider.NewResponder(provider.Namespace{Name: u.server.Namespace, Tools: []provider.Tool{tool}})
	return offer{tool, t.Name}, err
}

// same reports whether two sets look the same to workers.
func same(a, b []offer) bool {
	return slices.EqualFunc(a, b, func(a, b offer) bool {
		return a.Name == b.Name && a.theirs == b.theirs && a.Description == b.Description &&
			a.ReadOnly == b.ReadOnly && a.Idempotent == b.Idempotent &&
			string(a.InputSchema) == string(b.InputSchema) && string(a.OutputSchema) == string(b.OutputSchema)
	})
}
