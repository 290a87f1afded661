package gateway

import (
	"context"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/queue"
)

// toolsTime bounds the wait for a worker that knows the tools.
const toolsTime = 10 * time.Second

// Tools are those that a tenant's guests may be granted.
type Tools struct {
	Tools []Tool `json:"tools"`
}

// Tool is one of them, and how the tenant's calls of the last day went.
type Tool struct {
	Namespace    string         `json:"namespace"`
	Name         string         `json:"name"`
	Description  string         `json:"description,omitzero"`
	InputSchema  jsontext.Value `json:"input_schema,omitzero" doc:"There when schemas are asked for."`
	OutputSchema jsontext.Value `json:"output_schema,omitzero" doc:"There when schemas are asked for."`
	ReadOnly     bool           `json:"read_only" doc:"As its provider says."`
	Idempotent   bool           `json:"idempotent" doc:"As its provider says."`
	SchemaDigest string         `json:"schema_digest"`
	Providers    int            `json:"providers"`
	Approval     bool           `json:"approval,omitzero" doc:"Its calls wait for a person."`
	Calls        int            `json:"calls"`
	Errors       int            `json:"errors"`
	P50          job.Duration   `json:"p50,omitzero"`
	P99          job.Duration   `json:"p99,omitzero"`
}

// toolsQuestion is what workers answer: their verb tools.
type toolsQuestion struct {
	Namespace string `json:"namespace,omitzero"`
	Schemas   bool   `json:"schemas,omitzero"`
}

const verbTools = "tools"

func (g *Gateway) getTools(w http.ResponseWriter, r *request) error {
	schemas, err := queryBool(r, "schemas")
	if err != nil {
		return err
	}
	namespace := r.URL.Query().Get("namespace")
	if namespace != "" && !job.ValidToolName(namespace) {
		return problemf(CodeBadRequest, "namespace: %q is no namespace's name", job.Printable(namespace, 80))
	}
	tools, err := askTools(r, g.cfg.Queue, toolsQuestion{namespace, schemas})
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, tools)
}

// askTools asks any worker.
func askTools(r *request, q *queue.Queue, question toolsQuestion) (Tools, error) {
	ctx, cancel := context.WithTimeout(r.Context(), toolsTime)
	defer cancel()
	tools := Tools{Tools: []Tool{}}
	err := q.Ask(ctx, r.who.tenant, verbTools, question, &tools)
	return tools, err
}

// getArtifact serves a file that a guest brought back. It is the guest's: a
// browser is to save it, and neither to guess what it is nor to show it.
func (g *Gateway) getArtifact(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	name := r.PathValue("path")
	content, err := g.cfg.Store.Artifact(r.Context(), r.who.tenant, id, name)
	if err != nil {
		return err
	}
	disposition := mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)})
	if disposition == "" {
		disposition = "attachment"
	}
	h := w.Header()
	h.Set("Content-Type", mediaBytes)
	h.Set("Content-Disposition", disposition)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(content) // the client has left
	return nil
}
