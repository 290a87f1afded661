package backendtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ReportVariable names the directory that Run writes its report to, as
// BACKEND.json; without it there is none.
const ReportVariable = "AIRLOCK_CONTAINMENT"

// Report is what a run of the suite found out about a backend's walls.
type Report struct {
	Backend string `json:"backend"`
	Version string `json:"version"`
	// Control says that the backend isolates nothing, so that attacks must
	// get through.
	Control bool   `json:"control,omitzero"`
	Kernel  string `json:"kernel"`
	Cgroup  string `json:"cgroup,omitzero"`
	Told    []Told `json:"told"`
}

// Told is what became of a row in one story or attack.
type Told struct {
	Row string `json:"row"`
	// By is the story, and after a slash the attack.
	By      string  `json:"by"`
	Verdict Verdict `json:"verdict"`
	// Why is said of all but what was held or got through.
	Why string `json:"why,omitzero"`
}

// Verdict is one of a closed set.
type Verdict string

// The verdicts.
const (
	// Held: it was tried and contained.
	Held Verdict = "held"
	// Failed: it was not.
	Failed Verdict = "failed"
	// Through: it got through where there is no wall, which shows that the
	// attack is one.
	Through Verdict = "through"
	// Blind: it cannot be shown to get through without a wall.
	Blind Verdict = "blind"
	// Skipped: it was not tried.
	Skipped Verdict = "skipped"
	// Lacking: no guest of the backend can try it.
	Lacking Verdict = "lacking"
)

// recorder keeps what becomes of the rows.
type recorder struct {
	mu   sync.Mutex
	told []Told // guarded by mu
}

func (r *recorder) record(rows, by string, verdict Verdict, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range rowsOf(rows) {
		r.told = append(r.told, Told{Row: row, By: by, Verdict: verdict, Why: why})
	}
}

func (s *suite) recordUntold(st story, verdict Verdict, why string) {
	s.record(st.rows, st.name, verdict, why)
	for _, a := range st.attacks {
		s.record(a.rows, by(st, a), verdict, why)
	}
}

func (s *suite) recordStory(st story, held bool) {
	verdict := Failed
	if held {
		verdict = Held
	}
	s.record(st.rows, st.name, verdict, "")
}

func (s *suite) recordAttack(st story, a attack, became, missing string) {
	verdict, why := Held, ""
	switch {
	case s.walled() && (became == through || became == ""):
		verdict = Failed
	case s.walled():
	case a.blind != "":
		verdict, why = Blind, a.blind
	case missing != "":
		verdict, why = Blind, missing
	case became == through:
		verdict = Through
	default:
		verdict = Failed
	}
	s.record(a.rows, by(st, a), verdict, why)
}

func by(st story, a attack) string { return st.name + " / " + a.name }

// report writes what was recorded, in an order that does not change.
func (s *suite) report(t testing.TB) {
	dir := os.Getenv(ReportVariable)
	if dir == "" || s.Unrecorded {
		return
	}
	slices.SortFunc(s.told, compareTold)
	r := Report{
		Backend: s.Name, Version: s.caps.Version, Control: !s.walled(),
		Kernel: kernelOf(s.caps.Isolated.Kernel), Cgroup: s.caps.Isolated.Cgroup, Told: s.told,
	}
	doc, err := json.Marshal(r, jsontext.WithIndent("\t"))
	if err != nil {
		t.Errorf("report: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, s.Name+".json"), append(doc, '\n'), 0o644); err != nil {
		t.Errorf("report: %v", err)
	}
}

func compareTold(a, b Told) int {
	if c := strings.Compare(a.Row, b.Row); c != 0 {
		return c
	}
	return strings.Compare(a.By, b.By)
}

// kernelOf keeps what matters of a kernel's version: 6.18.
func kernelOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// Acted lists the rows that stories and attacks of this build act out, with
// what acts out each.
func Acted() []Told {
	var r recorder
	for _, st := range slices.Concat(lonely(), stories()) {
		r.record(st.rows, st.name, "", "")
		for _, a := range st.attacks {
			r.record(a.rows, by(st, a), "", "")
		}
	}
	slices.SortFunc(r.told, compareTold)
	return r.told
}
