package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jedib0t/go-pretty/v6/table"
)

// machine is what was measured on.
type machine struct {
	Time   time.Time `json:"time"`
	CPU    string    `json:"cpu,omitzero"`
	Cores  int       `json:"cores"`
	System string    `json:"system"`
	Kernel string    `json:"kernel,omitzero"`
	Go     string    `json:"go"`
	Docker string    `json:"docker,omitzero"`
	// Load is that of the last minute before: figures of a busy machine say
	// nothing.
	Load string `json:"load,omitzero"`
}

// thisMachine asks Linux's proc; elsewhere those facts stay empty.
func thisMachine(ctx context.Context) machine {
	load, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	return machine{
		Time: time.Now().UTC().Truncate(time.Second), CPU: cpuModel(), Cores: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Go: runtime.Version(), Docker: engineVersion(ctx), Load: load,
	}
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func (m machine) String() string {
	s := fmt.Sprintf("%s, %d × %s, %s, kernel %s, %s", m.Time.Format(time.DateTime), m.Cores, orUnknown(m.CPU), m.System, orUnknown(m.Kernel), m.Go)
	if m.Docker != "" {
		s += ", engine " + m.Docker
	}
	return s + ", load " + orUnknown(m.Load)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// report is all that is printed.
type report struct {
	Machine machine  `json:"machine"`
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitzero"`
	// parts are where the rows of a part begin.
	parts []int
}

func (r *report) add(figures []*figure) {
	r.parts = append(r.parts, len(r.Rows))
	for _, f := range figures {
		r.Rows = append(r.Rows, f.row())
	}
}

// containerWork is the processor time that a container costs the engine,
// measured on an engine 20.10 with runc; see what backends/README.md says.
const containerWork = 0.125

// compare notes what the rows of this run say of each other.
func (r *report) compare() {
	rows := map[string]row{}
	for _, row := range r.Rows {
		rows[row.ID] = row
	}
	note := func(text string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(text, args...)) }
	if bare, ok := rows["bubblewrap_bare"]; ok {
		idle := rows["bubblewrap_idle"]
		note("bubblewrap over bwrap by hand, one after the other, p50: %+.2f ms (%.2f times)", idle.P50-bare.P50, idle.P50/bare.P50)
		note("bubblewrap with 2 slots against bwrap by hand, jobs/s: %.2f times", rows["bubblewrap_sustained"].Rate/bare.Rate)
	}
	if bare, ok := rows["docker_bare"]; ok {
		note("docker pooled against docker run by hand, p50: %.2f times as long; cold: %.2f times", rows["docker_pooled"].P50/bare.P50, rows["docker_cold"].P50/bare.P50)
		note("a pool hides how long a container takes to start, not the %.0f ms or so of processor time: %d processors give at most about %.0f containers/s",
			containerWork*1e3, r.Machine.Cores, float64(r.Machine.Cores)/containerWork)
	}
}

func (r *report) render() string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"what", "jobs", "p50 ms", "p99 ms", "start p50", "start p99", "jobs/s", "target"})
	for i, f := range r.Rows {
		if i > 0 && slices.Contains(r.parts, i) {
			t.AppendSeparator()
		}
		t.AppendRow(table.Row{
			f.Name, f.Jobs, number(&f.P50), number(&f.P99), number(f.StartP50), number(f.StartP99), fmt.Sprintf("%.1f", f.Rate), f.Target,
		})
	}
	lines := append([]string{r.Machine.String(), t.Render(), "start: from the claim of a job to its guest's first frame"}, r.Notes...)
	return strings.Join(lines, "\n")
}

// number is empty for one that was not measured.
func number(f *float64) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", *f)
}

func (r *report) writeJSON(path string) error {
	text, err := json.Marshal(r, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
