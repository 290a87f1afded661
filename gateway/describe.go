package gateway

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"airlock/job"
	"airlock/store"
)

// describe makes the description of the routes, as OpenAPI 3.1 and as a page.
func (g *Gateway) describe() (description, page []byte, err error) {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	for t, alias := range aliases {
		registry.RegisterTypeAlias(t, alias)
	}
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Airlock", Version: g.cfg.Version, Description: introduction},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			"token": {Type: "http", Scheme: "bearer", Description: "A token made by gateway token create."},
		}},
	}
	for _, rt := range g.routes {
		op, err := operation(registry, rt)
		if err != nil {
			return nil, nil, fmt.Errorf("describe %s %s: %w", rt.method, rt.path, err)
		}
		api.AddOperation(op)
	}
	if description, err = api.MarshalJSON(); err != nil {
		return nil, nil, fmt.Errorf("describe: %w", err)
	}
	if page, err = renderPage(g.routes, registry); err != nil {
		return nil, nil, fmt.Errorf("describe: %w", err)
	}
	return description, page, nil
}

const introduction = "Python that nobody trusts, run in sandboxes. Each request bears a token, which is bound to one tenant and to scopes. " +
	"Errors are problems of RFC 9457; their code is stable."

func operation(registry huma.Registry, rt route) (*huma.Operation, error) {
	op := &huma.Operation{
		Method: rt.method, Path: rt.shown(), OperationID: rt.name, Summary: rt.summary, Description: rt.text,
		Responses: map[string]*huma.Response{},
	}
	if rt.scope != "" {
		op.Security = []map[string][]string{{"token": {string(rt.scope)}}}
	}
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, &huma.Param{
			In: p.in, Name: p.name, Description: p.text, Required: p.in == "path", Schema: &huma.Schema{Type: p.kind},
		})
	}
	if rt.in != nil {
		media, err := mediaType(registry, *rt.in)
		if err != nil {
			return nil, err
		}
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{rt.in.media: media}}
	}
	for status, c := range rt.out {
		if c.of == nil { // an answer without a body
			op.Responses[strconv.Itoa(status)] = &huma.Response{Description: c.text}
			continue
		}
		media, err := mediaType(registry, c)
		if err != nil {
			return nil, err
		}
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: c.text, Content: map[string]*huma.MediaType{c.media: media}}
	}
	for status, codes := range byStatus(rt.problems) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: fmt.Sprintf("%s: %s", http.StatusText(status), codes),
			Content: map[string]*huma.MediaType{
				"application/problem+json": {Schema: registry.Schema(reflect.TypeFor[Problem](), true, "Problem")},
			},
		}
	}
	return op, nil
}

func mediaType(registry huma.Registry, c content) (*huma.MediaType, error) {
	t := reflect.TypeOf(c.of)
	m := &huma.MediaType{Schema: registry.Schema(t, true, t.Name())}
	if c.example == "" {
		return m, nil
	}
	if c.media != mediaJSON {
		m.Example = c.example
		return m, nil
	}
	if err := json.Unmarshal([]byte(c.example), &m.Example); err != nil {
		return nil, fmt.Errorf("example: %w", err)
	}
	return m, nil
}

// byStatus says which codes come with each status.
func byStatus(codes []Code) map[int]string {
	sorted := slices.Sorted(slices.Values(codes))
	by := map[int]string{}
	for _, code := range slices.Compact(sorted) {
		if status := statuses[code]; by[status] == "" {
			by[status] = string(code)
		} else {
			by[status] += ", " + string(code)
		}
	}
	return by
}

// aliases say how types look in JSON that write themselves.
var aliases = map[reflect.Type]reflect.Type{
	reflect.TypeFor[job.ID]():         reflect.TypeFor[idSchema](),
	reflect.TypeFor[job.Duration]():   reflect.TypeFor[durationSchema](),
	reflect.TypeFor[job.Size]():       reflect.TypeFor[sizeSchema](),
	reflect.TypeFor[job.Bytes]():      reflect.TypeFor[bytesSchema](),
	reflect.TypeFor[jsontext.Value](): reflect.TypeFor[anySchema](),
	reflect.TypeFor[job.Status]():     reflect.TypeFor[statusSchema](),
	reflect.TypeFor[job.Priority]():   reflect.TypeFor[prioritySchema](),
	reflect.TypeFor[job.Isolation]():  reflect.TypeFor[isolationSchema](),
	reflect.TypeFor[store.Scope]():    reflect.TypeFor[scopeSchema](),
}

type (
	idSchema        struct{}
	durationSchema  struct{}
	sizeSchema      struct{}
	bytesSchema     struct{}
	anySchema       struct{}
	statusSchema    struct{}
	prioritySchema  struct{}
	isolationSchema struct{}
	scopeSchema     struct{}
)

func (idSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "uuid", Description: "A UUID of version 7."}
}

func (durationSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "Seconds as a number, or a text with a unit.", Examples: []any{"1.5s", 30},
		OneOf: []*huma.Schema{{Type: "string"}, {Type: "number"}}}
}

func (sizeSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "Bytes as a number, or a text with a unit.", Examples: []any{"256MiB", 1048576},
		OneOf: []*huma.Schema{{Type: "string"}, {Type: "integer"}}}
}

func (bytesSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "A text, or what is none as base64.", OneOf: []*huma.Schema{
		{Type: "string"},
		{Type: "object", Required: []string{"base64"}, Properties: map[string]*huma.Schema{"base64": {Type: "string", ContentEncoding: "base64"}}},
	}}
}

func (anySchema) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Description: "Any JSON."} }

func (statusSchema) Schema(huma.Registry) *huma.Schema    { return enum(job.Statuses()) }
func (prioritySchema) Schema(huma.Registry) *huma.Schema  { return enum(job.Priorities()) }
func (isolationSchema) Schema(huma.Registry) *huma.Schema { return enum(job.Isolations()) }
func (scopeSchema) Schema(huma.Registry) *huma.Schema     { return enum(store.Scopes()) }

func enum[T ~string](values []T) *huma.Schema {
	s := &huma.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}
