package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// The generated part of a page stands between these lines.
const (
	beginMark = "<!-- begin: written by make bench-page, do not edit -->"
	endMark   = "<!-- end -->"
)

func (s section) table() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(s.head)
	t.AppendRows(s.rows)
	return t
}

// about says what was measured and how.
func (r *report) about() []string {
	lines := r.Machine.lines()
	how := "a whole run"
	if r.Quick {
		how = "a quick run"
	}
	how += fmt.Sprintf(", scale %g", r.Scale)
	if r.Parts != "" {
		how += ", parts " + r.Parts
	}
	if r.Only != "" {
		how += ", only " + r.Only
	}
	return append(lines, how)
}

// text is what a run prints.
func (r *report) text() string {
	lines := r.about()
	if why := r.Machine.warning(); why != "" {
		lines = append(lines, why)
	}
	for _, s := range r.sections() {
		lines = append(lines, "", s.title, s.table().Render())
		if s.note != "" {
			lines = append(lines, s.note)
		}
	}
	return strings.Join(append(append(lines, ""), r.Notes...), "\n")
}

// markdown is the same for a page.
func (r *report) markdown() string {
	var b strings.Builder
	for _, line := range r.about() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	if why := r.Machine.warning(); why != "" {
		fmt.Fprintf(&b, "- **%s**\n", why)
	}
	for _, s := range r.sections() {
		fmt.Fprintf(&b, "\n### %s\n\n", s.title)
		if s.note != "" {
			fmt.Fprintf(&b, "%s\n\n", s.note)
		}
		fmt.Fprintln(&b, s.table().RenderMarkdown())
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n### Not measured\n\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", note)
	}
	return b.String()
}

// writePage puts the report between the marks of a page; "" is none.
func (r *report) writePage(path string) error {
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, _, tail, err := cutPage(string(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(head+r.markdown()+tail), 0o644)
}

// cutPage takes the generated part out of a page; head ends with the line of
// its begin, tail begins with that of its end.
func cutPage(page string) (head, generated, tail string, err error) {
	from := strings.Index(page, beginMark+"\n")
	to := strings.Index(page, endMark)
	if from < 0 || to < from {
		return "", "", "", fmt.Errorf("it has no lines %q and %q, in this order", beginMark, endMark)
	}
	from += len(beginMark) + 1
	return page[:from], page[from:to], page[to:], nil
}
