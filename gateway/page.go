package gateway

import (
	"bytes"
	"html/template"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// renderPage makes the page of /docs. It needs nothing from elsewhere, and no
// script.
func renderPage(routes []route, registry huma.Registry) ([]byte, error) {
	var data struct {
		Introduction string
		Routes       []shownRoute
		Types        []shownType
		Codes        []shownCode
	}
	data.Introduction = introduction
	for _, rt := range routes {
		data.Routes = append(data.Routes, show(rt))
	}
	for name, schema := range registry.Map() {
		text, err := json.Marshal(schema, jsontext.WithIndent("  "))
		if err != nil {
			return nil, err
		}
		data.Types = append(data.Types, shownType{name, string(text)})
	}
	slices.SortFunc(data.Types, func(a, b shownType) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	for code, status := range statuses {
		data.Codes = append(data.Codes, shownCode{string(code), status, http.StatusText(status)})
	}
	slices.SortFunc(data.Codes, func(a, b shownCode) int {
		return bytes.Compare([]byte(a.Code), []byte(b.Code))
	})
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, data)
	return out.Bytes(), err
}

type (
	shownRoute struct {
		Method, Path, Name, Summary, Text, Scope, Example, Media string
		Params                                                   []shownParam
		Answers                                                  []shownAnswer
	}
	shownParam  struct{ In, Name, Kind, Text string }
	shownAnswer struct {
		Status      int
		Media, Text string
	}
	shownType struct{ Name, Schema string }
	shownCode struct {
		Code   string
		Status int
		Title  string
	}
)

func show(rt route) shownRoute {
	s := shownRoute{Method: rt.method, Path: rt.shown(), Name: rt.name, Summary: rt.summary, Text: rt.text, Scope: string(rt.scope)}
	for _, p := range rt.params {
		s.Params = append(s.Params, shownParam{p.in, p.name, p.kind, p.text})
	}
	if rt.in != nil {
		s.Example, s.Media = rt.in.example, rt.in.media
	}
	for status, c := range rt.out {
		s.Answers = append(s.Answers, shownAnswer{status, c.media, c.text})
	}
	for status, codes := range byStatus(rt.problems) {
		s.Answers = append(s.Answers, shownAnswer{status, "application/problem+json", codes})
	}
	slices.SortFunc(s.Answers, func(a, b shownAnswer) int { return a.Status - b.Status })
	return s
}

const pageStyle = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 2rem 1rem; }
h2 { border-bottom: 1px solid var(--line); padding-bottom: .3rem; margin-top: 2.5rem; }
h3 { margin-bottom: .2rem; }
code, pre { font: 14px/1.5 ui-monospace, monospace; }
pre { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; padding: .7rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
.method { display: inline-block; min-width: 4.2rem; font-weight: 600; }
.muted { opacity: .7; }
`

var pageTemplate = template.Must(template.New("docs").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Airlock over HTTP</title>
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<h1>Airlock over HTTP</h1>
<p>{{.Introduction}} The same for machines: <a href="/openapi.json">openapi.json</a>.</p>
<nav><ul>
{{- range .Routes}}
<li><a href="#{{.Name}}"><code>{{.Method}} {{.Path}}</code></a> <span class="muted">{{.Summary}}</span></li>
{{- end}}
</ul></nav>
<h2>Routes</h2>
{{- range .Routes}}
<section id="{{.Name}}">
<h3><code><span class="method">{{.Method}}</span> {{.Path}}</code></h3>
<p>{{.Summary}}. {{.Text}} <span class="muted">{{if .Scope}}Scope: {{.Scope}}.{{else}}Asks for no token.{{end}}</span></p>
{{- if .Params}}
<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>
{{- range .Params}}<tr><td><code>{{.Name}}</code></td><td>{{.In}}</td><td>{{.Kind}}</td><td>{{.Text}}</td></tr>{{end}}
</table>
{{- end}}
{{- if .Example}}
<p>A body, <code>{{.Media}}</code>:</p>
<pre>{{.Example}}</pre>
{{- end}}
<table><tr><th>answer</th><th></th><th></th></tr>
{{- range .Answers}}<tr><td>{{.Status}}</td><td><code>{{.Media}}</code></td><td>{{.Text}}</td></tr>{{end}}
</table>
</section>
{{- end}}
<h2>Problems</h2>
<table><tr><th>code</th><th>status</th><th></th></tr>
{{- range .Codes}}<tr><td><code>{{.Code}}</code></td><td>{{.Status}}</td><td>{{.Title}}</td></tr>{{end}}
</table>
<h2>Types</h2>
{{- range .Types}}
<details><summary><code>{{.Name}}</code></summary><pre>{{.Schema}}</pre></details>
{{- end}}
</body>
</html>
`))
