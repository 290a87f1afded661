package backendtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// intro is the page's head; what follows is made of the rows and the reports.
const intro = `# What guests were seen to be kept from

*Made by ` + "`make containment`" + ` from real runs; a test fails when this page and the
code's table of rows differ. Nothing is called held that was not tried.*

Each row is a kind of misbehaviour. Guests act it out in the stories of
[backendtest](backendtest), on every backend of Linux, and on ` + "`local`" + `, which has
no wall: there an attack must get through, since a check that cannot fail proves
nothing. The other rows are proved by tests of the host that need no guest.

| word | means |
|---|---|
| held | every story and attack that names the row, of those that a guest of the backend can act out, was tried and contained |
| held in part | the rest was not told of the backend there; the reason is below the table |
| not held | at least one was not; the reason is below the table |
| n/a | the row does not apply to the backend, or none of its guests can try it; the reason is below the table |
| not tried | the host of the run lacks what it takes |
| gets through | without a wall at least one of the attacks gets through |
| not shown | without a wall it would harm the host, or the host lacks what it takes |

`

// Render makes the page. Reports are its columns, those of backends first.
func Render(reports []Report) string {
	reports = slices.Clone(reports)
	slices.SortStableFunc(reports, func(a, b Report) int {
		return cmp.Or(compareBool(a.Control, b.Control), strings.Compare(a.Column(), b.Column()))
	})
	var page strings.Builder
	page.WriteString(intro)
	summarise(&page, reports)
	for _, g := range Groups() {
		renderGroup(&page, g, reports)
	}
	return page.String()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Column names a report's column: the backend and the kernel it ran on.
func (r Report) Column() string {
	return fmt.Sprintf("%s, Linux %s, cgroup %s", r.Backend, r.Kernel, cmp.Or(r.Cgroup, "none"))
}

// Tally counts the rows that guests acted out.
func (r Report) Tally() (held, tried int) {
	for id := range r.rows() {
		switch r.cell(Rows()[id]) {
		case "held":
			held++
			tried++
		case "not held", "held in part":
			tried++
		}
	}
	return held, tried
}

func (r Report) rows() map[string][]Told {
	rows := map[string][]Told{}
	for _, t := range r.Told {
		rows[t.Row] = append(rows[t.Row], t)
	}
	return rows
}

func summarise(page *strings.Builder, reports []Report) {
	page.WriteString("| backend | version | rows held, of those tried |\n|---|---|---|\n")
	for _, r := range reports {
		if held, tried := r.Tally(); !r.Control {
			fmt.Fprintf(page, "| %s | %s | %d of %d |\n", r.Column(), r.Version, held, tried)
		}
	}
}

func renderGroup(page *strings.Builder, g Group, reports []Report) {
	fmt.Fprintf(page, "\n## %s: %s\n\n| row | the guest |", g.ID, g.Title)
	for _, r := range reports {
		heading := r.Column()
		if r.Control {
			heading = "no wall (" + heading + ")"
		}
		fmt.Fprintf(page, " %s |", heading)
	}
	page.WriteString(" tests of the host |\n|---|---|" + strings.Repeat("---|", len(reports)+1) + "\n")
	var notes []string
	for _, row := range g.Rows {
		fmt.Fprintf(page, "| %s | %s |", row.ID, row.Guest)
		for _, r := range reports {
			fmt.Fprintf(page, " %s |", r.cell(row))
		}
		fmt.Fprintf(page, " %s |\n", strings.Join(row.Tests, ", "))
		notes = append(notes, row.notes(reports)...)
	}
	if len(notes) > 0 {
		page.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	}
}

// cell is the word for a row on the report's backend.
func (r Report) cell(row Row) string {
	told := r.rows()[row.ID]
	has := func(v Verdict) bool {
		return slices.ContainsFunc(told, func(t Told) bool { return t.Verdict == v })
	}
	switch {
	case row.Moot != "" || row.MootOn[r.Backend] != "":
		return "n/a"
	case len(told) == 0 && len(row.Tests) > 0:
		return ""
	case has(Failed):
		return "not held"
	case has(Through):
		return "gets through"
	case has(Held) && r.Control:
		return "not shown"
	case has(Held) && has(Skipped):
		return "held in part"
	case has(Held):
		return "held"
	case has(Lacking) && !has(Skipped):
		return "n/a"
	case has(Blind):
		return "not shown"
	}
	return "not tried"
}

// notes say why a row is not simply held.
func (row Row) notes(reports []Report) []string {
	var notes []string
	add := func(format string, args ...any) {
		notes = append(notes, "- "+row.ID+": "+fmt.Sprintf(format, args...))
	}
	if row.Moot != "" {
		add("does not apply: %s.", row.Moot)
	}
	for _, backend := range slices.Sorted(maps.Keys(row.MootOn)) {
		add("does not apply to %s: %s.", backend, row.MootOn[backend])
	}
	for _, backend := range slices.Sorted(maps.Keys(row.Open)) {
		add("**not held by %s**: %s.", backend, row.Open[backend])
	}
	for _, r := range reports {
		if why := r.whyNot(row); why != "" {
			add("%s: %s.", r.Backend, why)
		}
	}
	return notes
}

// whyNot says why a row was not tried, or not shown to be an attack.
func (r Report) whyNot(row Row) string {
	switch r.cell(row) {
	case "not tried", "not shown", "held in part", "held", "n/a":
	default:
		return ""
	}
	if row.Moot != "" || row.MootOn[r.Backend] != "" {
		return "" // said of the row
	}
	var why []string
	for _, t := range r.rows()[row.ID] {
		if t.Why != "" && !slices.Contains(why, t.Why) {
			why = append(why, t.Why)
		}
	}
	return strings.Join(why, "; ")
}
