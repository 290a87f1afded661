package gateway

import (
	"context"
	"errors"
	"net/http"
	"path"
	"runtime/debug"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/store"
)

// route is one thing that can be asked for. It is served from here and
// described from here.
type route struct {
	method, path string
	// scope is what a token must have; none means that everybody may ask.
	scope store.Scope
	// name is the operation's in clients that are made from the description.
	name, summary, text string
	params              []param
	in                  *content
	out                 map[int]content
	problems            []Code
	serve               func(w http.ResponseWriter, r *request) error
}

// shown is the path as descriptions write it.
func (rt *route) shown() string { return strings.ReplaceAll(rt.path, "...}", "}") }

// param is one in the path, the query or the header.
type param struct {
	in, name, text string
	// kind is the type in JSON Schema.
	kind string
}

// content is a body: its type's zero value, and an example that a test sends.
type content struct {
	media   string
	of      any
	example string
	text    string
}

// request is one by somebody who is known and has the route's scope.
type request struct {
	*http.Request
	who   principal
	route *route
}

// The media types.
const (
	mediaJSON   = "application/json"
	mediaNDJSON = "application/x-ndjson"
	mediaEvents = "text/event-stream"
	mediaText   = "text/plain"
	mediaBytes  = "application/octet-stream"
)

func (g *Gateway) newMux() (*http.ServeMux, error) {
	mux := http.NewServeMux()
	for i := range g.routes {
		r := &g.routes[i]
		mux.Handle(r.method+" "+r.path, g.handler(r))
	}
	description, page, err := g.describe()
	if err != nil {
		return nil, err
	}
	mux.HandleFunc("GET /openapi.json", constant(mediaJSON, description))
	mux.HandleFunc("GET /docs", constant("text/html; charset=utf-8", page))
	mux.HandleFunc("GET /docs.css", constant("text/css; charset=utf-8", []byte(pageStyle)))
	mux.HandleFunc("/", g.unknown)
	return mux, nil
}

func constant(media string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(body) // the client has left
	}
}

// unknown tells a wrong path from a wrong method.
func (g *Gateway) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := g.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		problemf(CodeMethod, "%s is asked for with %s", job.Printable(r.URL.Path, 200), strings.Join(allowed, " or ")).write(w)
		return
	}
	problemf(CodeNotFound, "there is no %s: /docs lists what there is", job.Printable(r.URL.Path, 200)).write(w)
}

// exact answers paths that the mux would lead elsewhere by redirects that are
// no problem documents, such as /v1/jobs//events where an id was left out.
func exact(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := r.URL.EscapedPath()
		if clean := path.Clean(p); clean != p && clean+"/" != p {
			problemf(CodeNotFound, "there is no %s: a part of the path is empty or a dot", job.Printable(r.URL.Path, 200)).write(w)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = newPatientWriter(w, g.cfg.AnswerWait)
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if fault := recover(); fault != nil {
			if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(fault)
			}
			g.cfg.Log.Error().Interface("fault", fault).Bytes("stack", debug.Stack()).Msg("request panicked")
			problemf(CodeInternal, "an error of the gateway's own: its log says more").write(w)
		}
	}()
	g.front.ServeHTTP(w, r)
}

// handler asks who it is before the route is served.
func (g *Gateway) handler(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.admit(w, r, rt); err != nil {
			g.fail(w, r, err)
		}
	})
}

func (g *Gateway) admit(w http.ResponseWriter, r *http.Request, rt *route) error {
	if rt.scope == "" {
		return rt.serve(w, &request{Request: r, route: rt})
	}
	who, err := g.gate.enter(r)
	if err != nil {
		return err
	}
	if !who.may(rt.scope) {
		return problemf(CodeForbidden, "this token does not have the scope %s", rt.scope)
	}
	leave, err := g.tenants.enter(who.tenant)
	if err != nil {
		return err
	}
	defer leave()
	if err := rt.checkQuery(r); err != nil {
		return err
	}
	return rt.serve(w, &request{Request: r, who: who, route: rt})
}

// checkQuery refuses what would be ignored: a misspelt ?batch= lists the jobs of
// all batches.
func (rt *route) checkQuery(r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	known := map[string]bool{}
	for _, p := range rt.params {
		known[p.name] = known[p.name] || p.in == "query"
	}
	for name := range r.URL.Query() {
		if !known[name] {
			return problemf(CodeBadRequest, "there is no parameter %q here: /docs lists what there is", job.Printable(name, 80))
		}
	}
	return nil
}

func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // the client has left
	}
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		g.cfg.Log.Warn().Err(err).Str("path", job.Printable(r.URL.Path, 200)).Str("code", string(p.Code)).Msg("request not served")
	}
	p.write(w)
}

// answer sends v as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(true))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client has left
	return nil
}
