package backendtest

import (
	"testing"

	"github.com/go-json-experiment/json"
)

// attack is one thing that a guest tries. Behind a wall it must not get
// through; where there is no wall it must.
type attack struct {
	name string
	// rows are the IDs of what it acts out, apart by spaces.
	rows string
	// needs is what the host must have for the attack to get through where
	// there is no wall; nil is nothing.
	needs need
	// blind says why it cannot be shown to get through; "" means it can.
	blind string
}

// need says what the host lacks for an attack, or "".
type need func() string

func (n need) missing() string {
	if n == nil {
		return ""
	}
	return n()
}

// through is what a guest reports of an attack that worked.
const through = "got through"

// open says what the backend is known not to contain of the rows.
func (s *suite) open(rows string) string {
	for _, id := range rowsOf(rows) {
		if why := Rows()[id].Open[s.Name]; why != "" {
			return why
		}
	}
	return ""
}

// judge compares what the guest reports with the story's attacks, each of
// which it must have tried.
func (s *suite) judge(t *testing.T, st story, g *seen) {
	t.Helper()
	var tried map[string]string
	doc := returned(t, g)
	if doc == nil {
		return
	}
	if err := json.Unmarshal(doc, &tried); err != nil {
		t.Errorf("got value %s, want an object of attacks: %v", excerpt(doc), err)
		return
	}
	for _, a := range st.attacks {
		became, ok := tried[a.name]
		delete(tried, a.name)
		missing := a.needs.missing()
		s.recordAttack(st, a, became, missing)
		switch {
		case !ok:
			t.Errorf("%s: was not tried", a.name)
		case s.walled() && s.open(a.rows) != "":
			if became != through {
				t.Errorf("%s: got %q, but a row says that %s does not hold it: the row is out of date", a.name, became, s.Name)
			}
		case s.walled() && became == through:
			t.Errorf("%s: %s", a.name, became)
		case s.walled():
			t.Logf("%s: %s", a.name, became)
		case a.blind == "" && missing == "" && became != through:
			t.Errorf("%s: got %q where there is no wall, want %q: this check proves nothing", a.name, became, through)
		case missing != "":
			t.Logf("%s: no control: %s", a.name, missing)
		}
	}
	for name := range tried {
		t.Errorf("%s: the guest tried what the story does not list", name)
	}
}
