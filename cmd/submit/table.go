package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"airlock/job"
)

// maxCell bounds a cell: a table is for reading, --json for the whole.
const maxCell = 60

// grid is a table whose cells are made harmless.
type grid struct{ table.Writer }

func newGrid(header ...any) grid {
	w := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	w.SetStyle(style)
	if len(header) > 0 {
		w.AppendHeader(header)
	}
	return grid{w}
}

// add appends a row. Every cell may hold foreign text.
func (g grid) add(cells ...any) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = cell(c)
	}
	g.AppendRow(row)
}

func cell(value any) string {
	switch v := value.(type) {
	case time.Time:
		return when(v)
	case time.Duration:
		return short(v)
	case map[string]string:
		return cell(listed(v))
	}
	return job.Printable(fmt.Sprint(value), maxCell)
}

func (a *app) printGrid(g grid, none string) error {
	if g.Length() == 0 {
		a.talk.say("%s", none)
		return nil
	}
	return a.stdout.text(g.Render() + "\n")
}

// list prints items as JSON lines, or as a table of the rows that add makes.
func list[T any](a *app, items []T, none string, g grid, add func(grid, T)) error {
	for _, item := range items {
		if !a.flags.JSON {
			add(g, item)
			continue
		}
		if err := a.stdout.document(item); err != nil {
			return err
		}
	}
	if a.flags.JSON {
		return nil
	}
	return a.printGrid(g, none)
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// short is a duration to three digits or so.
func short(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// listed is k=v pairs in order.
func listed(pairs map[string]string) string {
	parts := make([]string, 0, len(pairs))
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		parts = append(parts, name+"="+pairs[name])
	}
	return strings.Join(parts, " ")
}

// standing is a record's status where it has one, else its state.
func standing(r job.Record) string {
	if r.State == job.StateDead {
		return string(job.StateDead)
	}
	return cmp.Or(string(r.Status), string(r.State))
}
