package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"airlock/job"
)

// maxCell bounds a cell: a table is for reading, --json for the whole.
const maxCell = 60

// grid is a table whose cells are made harmless. It is laid out by hand: lists
// have thousands of rows, and the library of tables takes 20 ms for 5,000.
type grid struct{ *gridRows }

type gridRows struct {
	rows   [][]string // the header is the first, if there is one
	header bool
	widths []int // of the columns
}

func newGrid(header ...any) grid {
	g := grid{&gridRows{}}
	if len(header) > 0 {
		g.add(header...)
		g.header = true
		for i, name := range g.rows[0] {
			g.rows[0][i] = strings.ToUpper(name)
		}
	}
	return g
}

// add appends a row. Every cell may hold foreign text.
func (g grid) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = cell(c)
		if i == len(g.widths) {
			g.widths = append(g.widths, 0)
		}
		g.widths[i] = max(g.widths[i], width(row[i]))
	}
	g.rows = append(g.rows, row)
}

// Length is the number of rows below the header.
func (g grid) Length() int {
	if g.header {
		return len(g.rows) - 1
	}
	return len(g.rows)
}

// Render is the table without its last line feed.
func (g grid) Render() string {
	var out strings.Builder
	for i, row := range g.rows {
		if i > 0 {
			out.WriteByte('\n')
		}
		for column, most := range g.widths {
			value := ""
			if column < len(row) {
				value = row[column]
			}
			out.WriteByte(' ')
			out.WriteString(value)
			for range most - width(value) + 1 {
				out.WriteByte(' ')
			}
		}
	}
	return out.String()
}

// width is how many places of a line s takes.
func width(s string) int {
	places := len(s)
	for _, r := range s {
		if r >= utf8.RuneSelf {
			places += text.RuneWidth(r) - utf8.RuneLen(r)
		}
	}
	return places
}

func cell(value any) string {
	switch v := value.(type) {
	case string:
		return job.Printable(v, maxCell)
	case int:
		return strconv.Itoa(v)
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
