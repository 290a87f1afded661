package broker_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
)

// What has not changed is not checked again: the tools stay the very same.
func TestARoundChecksOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	c, answers := newCatalogue(), announcing(t, 5000, "")
	c.Hear(answers)
	before := c.Offers("")
	if len(before) != 5000 || len(c.Refused()) != 0 {
		t.Fatalf("got %d tools and refusals %v, want 5000 and none", len(before), c.Refused())
	}
	answers[3] = bytes.Replace(answers[3], []byte("Reads"), []byte("Shows"), 1)
	c.Hear(append(answers, answers[4])) // and another instance of a service
	again := 0
	for i, o := range c.Offers("") {
		if o.Tool != before[i].Tool {
			again++
		}
		if want := 1 + map[bool]int{true: 1}[o.Namespace == "ns4"]; o.Providers != want {
			t.Fatalf("%s.%s: got %d providers, want %d", o.Namespace, o.Name, o.Providers, want)
		}
	}
	if again != 1 {
		t.Errorf("got %d tools checked again, want the one that changed", again)
	}
	for round := range 3 {
		if n := len(c.Offers("ns3")); n != 500 {
			t.Errorf("round %d without: got %d tools, want 500", round, n)
		}
		c.Hear(answers[4:])
		if o := c.Offers("ns3"); len(o) > 0 && o[0].Providers != 0 {
			t.Errorf("round %d without: got %d providers, want none", round, o[0].Providers)
		}
	}
	if n := len(c.Offers("ns3")); n != 0 {
		t.Errorf("got %d tools that nobody announces any more, want none", n)
	}
}

// An answer that came before is not read again: reading one costs a hundred
// times what this allows.
func TestARoundWithoutNewsIsNotRead(t *testing.T) {
	c, answers := newCatalogue(), announcing(t, 5000, "")
	c.Hear(answers)
	if allocs := testing.AllocsPerRun(5, func() { c.Hear(answers) }); allocs > 2*5000 {
		t.Errorf("got %.0f allocations, want one or two a tool", allocs)
	}
}

// However much is announced, so much is known; the rest is refused by name.
func TestMoreToolsThanAreKnown(t *testing.T) {
	t.Parallel()
	c := newCatalogue()
	c.Hear(announcing(t, 10_500, ""))
	refused := c.Refused()
	if n := len(c.Offers("")); n != 10_000 || len(refused) != 500 {
		t.Fatalf("got %d tools and %d refusals, want 10000 and 500", n, len(refused))
	}
	for _, no := range refused {
		if no.Reason != "there are 10000 tools already, which is as many as are known" {
			t.Fatalf("got %+v, want it to say why", no)
		}
	}
	// A flood of what is no tool is cut too.
	var flood [][]byte
	for s := range 5 {
		var endpoints []map[string]string
		for i := range 10_000 {
			endpoints = append(endpoints, map[string]string{"subject": fmt.Sprintf("tools.x.%d.%d", s, i)})
		}
		answer, err := json.Marshal(map[string]any{"id": fmt.Sprint(s), "endpoints": endpoints})
		if err != nil {
			t.Fatal(err)
		}
		flood = append(flood, answer)
	}
	c.Hear(append(flood, []byte("{}{}")))
	if n := len(c.Refused()); n != 10_000 {
		t.Errorf("got %d refusals listed, want 10000", n)
	}
	c.Hear([][]byte{[]byte(`{"id":"x","endpoints":[]}`), []byte("{}{}")})
	if got := c.Refused(); len(got) != 1 || got[0].Subject != "" || got[0].Reason == "" {
		t.Errorf("got %+v, want the announcement that cannot be read", got)
	}
}
