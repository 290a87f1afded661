package gateway

import (
	"context"
	"mime"
	"net/http"
	"path"
	"time"

	"airlock/job"
)

// toolsTime bounds the wait for a worker that knows the tools.
const toolsTime = 10 * time.Second

func (g *Gateway) getTools(w http.ResponseWriter, r *request) error {
	schemas, err := queryBool(r, "schemas")
	if err != nil {
		return err
	}
	namespace := r.URL.Query().Get("namespace")
	if namespace != "" && !job.ValidToolName(namespace) {
		return problemf(CodeBadRequest, "namespace: %q is no namespace's name", job.Printable(namespace, 80))
	}
	tools, err := g.toolsOf(r.Context(), r.who.tenant, job.ToolsQuery{Namespace: namespace, Schemas: schemas})
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, tools)
}

// toolsOf asks any worker, which leaves out what the operator's rules deny to
// the tenant.
func (g *Gateway) toolsOf(ctx context.Context, tenant string, query job.ToolsQuery) (job.ToolList, error) {
	ctx, cancel := context.WithTimeout(ctx, toolsTime)
	defer cancel()
	var list job.ToolList
	err := g.cfg.Queue.Ask(ctx, tenant, "tools", query, &list)
	return list, err
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
