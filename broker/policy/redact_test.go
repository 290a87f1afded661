package policy_test

import (
	"strings"
	"testing"

	"airlock/broker/policy"
	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

func TestKept(t *testing.T) {
	t.Parallel()
	r := &policy.Rule{Redact: []string{"pin", "card"}}
	for name, c := range map[string]struct{ doc, want string }{
		"nothing to hide":  {`{"a": 1, "b": [ 1e400 ]}`, `{"a": 1, "b": [ 1e400 ]}`},
		"a member":         {`{"pin": 1234, "a": 1}`, `{"pin":"[redacted]","a":1}`},
		"an object":        {`{"pin": {"pin": 1, "x": [2]}}`, `{"pin":"[redacted]"}`},
		"deep":             {`[{"a": [{"card": "4000"}]}]`, `[{"a":[{"card":"[redacted]"}]}]`},
		"another case":     {`{"PIN": 1, "Card": 2}`, `{"PIN":"[redacted]","Card":"[redacted]"}`},
		"an escaped name":  {`{"p\u0069n": 1}`, `{"pin":"[redacted]"}`},
		"a dict's pairs":   {`{"$airlock": "dict", "items": [["pin", 1], [2, 3]]}`, `{"$airlock":"dict","items":[["pin","[redacted]"],[2,3]]}`},
		"a longer name":    {`{"pins": 1}`, `{"pins": 1}`},
		"a number's text":  {`{"n": 12345678901234567890.10, "pin": 1}`, `{"n":12345678901234567890.10,"pin":"[redacted]"}`},
		"a text":           {`"pin"`, `"pin"`},
		"an empty array":   {`{"a": [], "pin": null}`, `{"a":[],"pin":"[redacted]"}`},
		"not JSON":         {`{"pin": 12`, `"[redacted]"`},
		"nothing":          {``, ``},
		"a document twice": {`{"a": {"pin": 1}, "b": {"pin": 2}}`, `{"a":{"pin":"[redacted]"},"b":{"pin":"[redacted]"}}`},
	} {
		if got := string(r.Kept(jsontext.Value(c.doc))); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	for name, none := range map[string]*policy.Rule{"no rule": nil, "no fields": {}} {
		if got := string(none.Kept(jsontext.Value(`{"pin": 1}`))); got != `{"pin": 1}` {
			t.Errorf("%s: got %s, want what came", name, got)
		}
	}
}

// A call that no rule covers was meant for one, perhaps.
func TestWhatNoRuleCoversIsRedactedByAll(t *testing.T) {
	t.Parallel()
	p := &policy.Policy{Rules: []policy.Rule{
		{Tenant: "a", Namespace: "bank", Name: "pay", Redact: []string{"pin"}},
		{Tenant: "b", Namespace: "shop", Name: "buy", Redact: []string{"card"}},
	}}
	if got := string(p.For("a", "bank", "pya").Kept(jsontext.Value(`{"pin":1,"card":2}`))); strings.ContainsAny(got, "12") {
		t.Errorf("got %s, want neither value", got)
	}
}

func FuzzKept(f *testing.F) {
	f.Add(`{"pin": 1}`, "pin")
	f.Add(`{"$airlock":"dict","items":[["pin",[1]]]}`, "PIN")
	f.Fuzz(func(t *testing.T, doc, field string) {
		if job.CheckJSON([]byte(doc)) != nil || field == "" {
			return
		}
		kept := (&policy.Rule{Redact: []string{field}}).Kept(jsontext.Value(doc))
		if err := job.CheckJSON(kept); err != nil {
			t.Fatalf("%s became %s: %v", doc, kept, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(rule(`, "calls": 1`))
	f.Add(rule(`, "arguments": {"type": "object"}`))
	f.Fuzz(func(t *testing.T, file string) {
		p, err := policy.Parse([]byte(file))
		if err != nil {
			return
		}
		again, err := policy.Parse([]byte(p.Text()))
		if err != nil || again.Digest() != p.Digest() {
			t.Fatalf("%s: its own text %s gives %v, another digest or an error", file, p.Text(), err)
		}
	})
}
