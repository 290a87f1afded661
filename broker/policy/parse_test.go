package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"airlock/broker/policy"
	"airlock/job"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// rule is a file with one rule for everything, and these members more.
func rule(members string) string {
	return `{"rules": [{"tenant": "*", "namespace": "*", "name": "*"` + members + `}]}`
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := policy.Parse([]byte(rule(`, "arguments": {"type": "object"}, "timeout": "90s",
		"rate": {"per_second": 2.5, "burst": 4}, "concurrency": 3, "calls": 9, "bytes": "1MiB", "retries": 2,
		"breaker": {"failures": 5, "pause": "10s"}, "cache": "1m", "redact": ["pin"], "approve": true, "approve_within": "2h"`)))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	want := []policy.Rule{{
		Tenant: "*", Namespace: "*", Name: "*",
		Arguments: []byte(`{"type": "object"}`), Timeout: job.Duration(90 * time.Second), Rate: policy.Rate{PerSecond: 2.5, Burst: 4},
		Concurrency: 3, Calls: 9, Bytes: 1 << 20, Retries: 2, Breaker: policy.Breaker{Failures: 5, Pause: job.Duration(10 * time.Second)},
		Cache: job.Duration(time.Minute), Redact: []string{"pin"}, Approve: true, ApproveWithin: job.Duration(2 * time.Hour),
	}}
	if diff := cmp.Diff(want, got.Rules, cmpopts.IgnoreUnexported(policy.Rule{})); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	two := func(first, second string) string { return `{"rules": [` + first + `,` + second + `]}` }
	one := func(tenant, namespace, name string) string {
		return fmt.Sprintf(`{"tenant": %q, "namespace": %q, "name": %q}`, tenant, namespace, name)
	}
	for name, c := range map[string]struct{ file, want string }{
		"nothing":                   {``, "JSON"},
		"no object":                 {`[]`, "array"},
		"no rules":                  {`{}`, "rules: there are none"},
		"no rule":                   {`{"rules": []}`, "rules: there are none"},
		"two documents":             {rule(``) + `{}`, ""},
		"a key twice":               {rule(`, "calls": 1, "calls": 2`), "calls"},
		"an unknown field":          {rule(`, "call": 1`), "rules[0].call: unknown field"},
		"another case":              {rule(`, "Calls": 1`), "rules[0].Calls: unknown field"},
		"a field of another type":   {rule(`, "calls": "one"`), "rules[0].calls"},
		"no tenant":                 {`{"rules": [{"namespace": "a", "name": "b"}]}`, "rules[0].tenant"},
		"a pattern":                 {`{"rules": [` + one("a", "bank*", "pay") + `]}`, "rules[0].namespace"},
		"a name with a dot":         {`{"rules": [` + one("a", "bank", "pay.now") + `]}`, "rules[0].name"},
		"a tenant that is none":     {`{"rules": [` + one("a b", "bank", "pay") + `]}`, "rules[0].tenant"},
		"the same rule again":       {two(one("a", "b", "c"), one("a", "b", "c")), "rules[1]: can never match"},
		"hidden by a wider one":     {two(one("*", "b", "*"), one("a", "b", "c")), "rules[1]: can never match, since rules[0]"},
		"after everything":          {two(one("*", "*", "*"), one("*", "b", "*")), "rules[1]: can never match"},
		"negative calls":            {rule(`, "calls": -1`), "rules[0].calls"},
		"no calls":                  {rule(`, "calls": 0`), "rules[0].calls: 0 sets nothing"},
		"negative bytes":            {rule(`, "bytes": "-1KiB"`), "rules[0].bytes"},
		"negative concurrency":      {rule(`, "concurrency": -1`), "rules[0].concurrency"},
		"negative retries":          {rule(`, "retries": -1`), "rules[0].retries"},
		"many retries":              {rule(`, "retries": 11`), "rules[0].retries"},
		"a negative timeout":        {rule(`, "timeout": "-1s"`), "rules[0].timeout"},
		"a long timeout":            {rule(`, "timeout": "16m"`), "rules[0].timeout"},
		"no timeout":                {rule(`, "timeout": null`), "rules[0].timeout"},
		"a rate of nothing":         {rule(`, "rate": {"per_second": 0}`), "rules[0].rate"},
		"a burst without a rate":    {rule(`, "rate": {"per_second": 0, "burst": 2}`), "rules[0].rate.per_second"},
		"a negative rate":           {rule(`, "rate": {"per_second": -1}`), "rules[0].rate.per_second"},
		"a negative burst":          {rule(`, "rate": {"per_second": 1, "burst": -1}`), "rules[0].rate.burst"},
		"a pause without failures":  {rule(`, "breaker": {"failures": 0, "pause": "1s"}`), "rules[0].breaker.failures"},
		"negative failures":         {rule(`, "breaker": {"failures": -1}`), "rules[0].breaker.failures"},
		"a long cache":              {rule(`, "cache": "25h"`), "rules[0].cache"},
		"a field without a name":    {rule(`, "redact": ["pin", ""]`), "rules[0].redact[1]"},
		"a field twice":             {rule(`, "redact": ["pin", "PIN"]`), "rules[0].redact[1]"},
		"a patience without person": {rule(`, "approve_within": "1h"`), "rules[0].approve_within"},
		"no schema":                 {rule(`, "arguments": []`), "rules[0].arguments"},
		"a schema of no type":       {rule(`, "arguments": {"type": "objekt"}`), "rules[0].arguments"},
		"a keyword that is none":    {rule(`, "arguments": {"properties": {"amount": {"maxmum": 100}}}`), "/properties/amount/maxmum: is not enforced"},
		"a keyword in a list":       {rule(`, "arguments": {"allOf": [{"items": {"format": "email"}}]}`), "/allOf/0/items/format"},
		"a schema without end":      {rule(`, "arguments": {"$ref": "#"}`), "rules[0].arguments"},
		"a schema from elsewhere":   {rule(`, "arguments": {"$ref": "http://127.0.0.1/s"}`), "rules[0].arguments"},
		"denies, and says how":      {rule(`, "deny": true, "calls": 3`), "rules[0].calls: has no effect"},
		"too many rules":            {`{"rules": [` + strings.Repeat(one("a", "b", "c")+",", policy.MaxRules) + one("a", "b", "c") + `]}`, "the maximum is 1000"},
		"too long":                  {rule(``) + strings.Repeat(" ", policy.MaxFile), "the maximum is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := policy.Parse([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// Two files that say the same have one digest, and what may mean another
// number has another.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(file string) string {
		t.Helper()
		p, err := policy.Parse([]byte(file))
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		return p.Digest()
	}
	base := digest(rule(`, "calls": 7, "arguments": {"maximum": 9007199254740993, "type": "object"}`))
	same := digest(`{"rules": [{"calls": 7, "name": "*", "namespace": "\u002a",
		"arguments": {"type": "object",   "maximum": 9007199254740993}, "tenant": "*"}]}`)
	other := digest(rule(`, "calls": 7, "arguments": {"maximum": 9007199254740992, "type": "object"}`))
	if len(base) != 64 || base != same || base == other {
		t.Errorf("got digests %s, %s and %s, want two of the same and another", base, same, other)
	}
	if (*policy.Policy)(nil).Digest() != "" {
		t.Error("no policy has a digest")
	}
}

// The examples of the operator's page are files that a worker takes.
func TestExamplesOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "POLICY.md"))
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) < 3 {
		t.Fatalf("got %d examples, want 3 or more", len(examples))
	}
	for _, example := range examples {
		path := filepath.Join(t.TempDir(), "policy.json")
		if err := os.WriteFile(path, []byte(example[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := policy.Load(path); err != nil {
			t.Errorf("example %s: %v", example[1], err)
		}
	}
	for _, field := range []string{"tenant", "namespace", "name", "deny", "arguments", "timeout", "rate", "concurrency", "calls",
		"bytes", "retries", "breaker", "cache", "redact", "approve", "approve_within"} {
		if !regexp.MustCompile("(?m)^\\|.* ?`" + field + "`.*\\|$").Match(page) {
			t.Errorf("the page's table lacks %s", field)
		}
	}
}
