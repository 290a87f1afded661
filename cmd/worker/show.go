package main

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"airlock/job"
)

// maxShown bounds a cell; JSON has the whole.
const maxShown = 500

// wideCell is where a last column, which gives reasons, is wrapped.
const wideCell = 60

// grid is a table whose cells are made harmless.
type grid struct{ table.Writer }

func newGrid(header ...any) grid {
	w := table.NewWriter()
	w.SetStyle(table.StyleLight)
	w.AppendHeader(header)
	g := grid{w}
	g.wrap(len(header))
	return g
}

// wrap bounds the width of these columns, and of no others.
func (g grid) wrap(columns ...int) {
	configs := []table.ColumnConfig{}
	for _, n := range columns {
		configs = append(configs, table.ColumnConfig{Number: n, WidthMax: wideCell, WidthMaxEnforcer: text.WrapSoft})
	}
	g.SetColumnConfigs(configs)
}

// add appends a row. Every cell may hold foreign text.
func (g grid) add(cells ...any) {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = job.Printable(fmt.Sprint(c), maxShown)
	}
	g.AppendRow(row)
}

// printJSON writes a value for machines and returns the exit code.
func printJSON(value any, who string, stdout, stderr io.Writer) int {
	if err := json.MarshalWrite(stdout, value, jsontext.WithIndent("  "), json.Deterministic(true)); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", who, err)
		return exitInternal
	}
	fmt.Fprintln(stdout)
	return exitOK
}
