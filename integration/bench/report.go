package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// report is all that one run measured.
type report struct {
	Machine machine `json:"machine"`
	// Quick, Scale, Parts and Only are the flags that the run had.
	Quick   bool      `json:"quick"`
	Scale   float64   `json:"scale"`
	Parts   string    `json:"parts,omitzero"`
	Only    string    `json:"only,omitzero"`
	Goals   []verdict `json:"goals"`
	Rows    []row     `json:"rows"`
	Weights []weight  `json:"weights"`
	Loads   []load    `json:"loads"`
	Trials  []trial   `json:"trials,omitzero"`
	// Notes say what is missing, and why.
	Notes []string `json:"notes"`
}

func (r *report) add(all ...row) { r.Rows = append(r.Rows, all...) }

func (r *report) absent(what, why string) {
	r.Notes = append(r.Notes, fmt.Sprintf("no rows for %s: %s", what, why))
}

func (r *report) byID() map[string]row {
	rows := map[string]row{}
	for _, row := range r.Rows {
		rows[row.ID] = row
	}
	return rows
}

// isOf reports whether the row's ID begins with one of the prefixes.
func (r row) isOf(prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(r.ID, p) })
}

// of are the rows of one curve.
func (r *report) of(prefix string) (rows []row) {
	for _, row := range r.Rows {
		if row.isOf([]string{prefix}) {
			rows = append(rows, row)
		}
	}
	return rows
}

// curves are the rows that have tables of their own.
var curves = []string{"scaling/", "sustained/", "output/", "calls/"}

// figures are all other rows.
func (r *report) figures() (rows []row) {
	for _, row := range r.Rows {
		if !row.isOf(curves) {
			rows = append(rows, row)
		}
	}
	return rows
}

func readReport(path string) (*report, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &report{}
	if err := json.Unmarshal(raw, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// writeJSON writes the figures, and beside them what benchstat reads.
func (r *report) writeJSON(path string) error {
	text, err := json.Marshal(r, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(benchPath(path), []byte(r.benchmarks()), 0o644)
}

// benchPath is where the figures go for benchstat.
func benchPath(path string) string { return strings.TrimSuffix(path, ".json") + ".txt" }

// benchmarks are the samples in the format of Go's benchmarks. The commit is
// left out: benchstat compares nothing across different facts.
func (r *report) benchmarks() string {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: airlock/integration/bench\ncpu: %s\n", before(r.Machine.System), after(r.Machine.System), r.Machine.CPU)
	b.WriteString("Unit jobs/s better=higher\nUnit p50-ns/op better=lower\nUnit p99-ns/op better=lower\n")
	for _, row := range r.Rows {
		for _, s := range row.Samples {
			fmt.Fprintf(&b, "Benchmark%s %d %.0f ns/op %.0f p50-ns/op %.0f p99-ns/op", benchName(row.ID), s.Jobs, s.Mean*1e6, s.P50*1e6, s.P99*1e6)
			if s.Rate > 0 {
				fmt.Fprintf(&b, " %.2f jobs/s", s.Rate)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func before(system string) string { s, _, _ := strings.Cut(system, "/"); return s }
func after(system string) string  { _, s, _ := strings.Cut(system, "/"); return s }

// benchName starts with a capital, without which it is no benchmark's.
func benchName(id string) string { return strings.ToUpper(id[:1]) + id[1:] }
