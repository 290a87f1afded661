package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"airlock/broker"

	"github.com/go-json-experiment/json/jsontext"
)

func toolWith(schema string) (*broker.Tool, error) {
	return broker.NewTool(broker.ToolSpec{Namespace: "n", Name: "t", InputSchema: jsontext.Value(schema)})
}

func TestCheckArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		schema, arguments string
		ok                bool
	}{
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":2512292042121000001}`, true},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":1` + strings.Repeat("0", 4000) + `}`, true},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":1e400}`, true},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":1.5}`, false},
		{`{"properties":{"n":{"type":"integer","maximum":9007199254740992}}}`, `{"n":9007199254740993}`, false},
		{`{"properties":{"n":{"maximum":10}}}`, `{"n":1` + strings.Repeat("0", 4000) + `}`, false},
		{`{"properties":{"n":{"minimum":0}}}`, `{"n":-1` + strings.Repeat("0", 4000) + `}`, false},
		{`{"properties":{"n":{"type":"string","maxLength":2}}}`, `{"n":"äöü"}`, false},
		{`{"properties":{"n":{"enum":[1,"a",null]}}}`, `{"n":1.0}`, true},
		{`{"properties":{"n":{"enum":[1,"a",null]}}}`, `{"n":2}`, false},
		{`{"$defs":{"p":{"type":"object","required":["x"]}},"properties":{"p":{"$ref":"#/$defs/p"}}}`, `{"p":{}}`, false},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"p":{"type":"null"}},"properties":{"p":{"$ref":"#/definitions/p"}}}`, `{"p":null}`, true},
		{`{"additionalProperties":false}`, `{}`, true},
		{`{"additionalProperties":false}`, `{"x":1}`, false},
		{`{"properties":{"tree":{"$ref":"#/$defs/tree"}},"$defs":{"tree":{"type":"object","properties":{"left":{"$ref":"#/$defs/tree"}},"additionalProperties":false}}}`, `{"tree":{"left":{"left":{"right":1}}}}`, false},
		{`{"properties":{"l":{"uniqueItems":true}}}`, `{"l":[1,1.0]}`, false},
	} {
		tool, err := toolWith(tt.schema)
		if err != nil {
			t.Errorf("schema %s: %v", tt.schema, err)
			continue
		}
		if err := tool.CheckArguments(jsontext.Value(tt.arguments)); (err == nil) != tt.ok {
			t.Errorf("schema %s, arguments %.80s: got error %v, want ok %v", tt.schema, tt.arguments, err, tt.ok)
		}
	}
}

// A schema that cannot be used safely makes the tool refused when it is found,
// not the worker fall over when it is called.
func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	// Each level has two alternatives that both go one level deeper.
	wide := `{"$ref":"#/$defs/l0","$defs":{`
	for i := range 12 {
		wide += fmt.Sprintf(`"l%d":{"anyOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
	}
	wide += `"l12":{}}}`
	for name, schema := range map[string]string{
		"not JSON":             `{`,
		"a list":               `[]`,
		"a boolean":            `true`,
		"a wrong keyword":      `{"type":7}`,
		"a wrong pattern":      `{"properties":{"x":{"pattern":"("}}}`,
		"another draft":        `{"$schema":"http://json-schema.org/draft-04/schema#"}`,
		"a remote reference":   `{"$ref":"https://example.com/schema.json"}`,
		"a file":               `{"properties":{"x":{"$ref":"file:///etc/passwd"}}}`,
		"leads nowhere":        `{"$ref":"#/$defs/missing"}`,
		"itself":               `{"$ref":"#"}`,
		"itself in turns":      `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`,
		"itself below":         `{"properties":{"x":{"anyOf":[{"$ref":"#/properties/x"}]}}}`,
		"a dynamic reference":  `{"$dynamicRef":"#x","$dynamicAnchor":"x"}`,
		"an inner id":          `{"properties":{"x":{"$id":"https://example.com/x","$ref":"#"}}}`,
		"doubles in place":     wide,
		"doubles with nesting": `{"properties":{"x":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"items":{"$ref":"#/$defs/x"}},{"items":{"$ref":"#/$defs/x"}}]}}}`,
		"too large":            `{"description":"` + strings.Repeat("x", broker.MaxSchema) + `"}`,
		"deep":                 strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100),
	} {
		if _, err := toolWith(schema); err == nil {
			t.Errorf("%s: got no error, want the schema refused", name)
		} else if len(err.Error()) > 700 {
			t.Errorf("%s: got an error of %d bytes, want a short one", name, len(err.Error()))
		}
	}
}

func TestSchemasThatAreNotTooExpensive(t *testing.T) {
	t.Parallel()
	value := `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"array","items":{"$ref":"#/$defs/value"}},` +
		`{"type":"object","additionalProperties":{"$ref":"#/$defs/value"}}]}`
	filter := `{"anyOf":[{"type":"object","properties":{"and":{"type":"array","items":{"$ref":"#/$defs/filter"}}},"required":["and"],"additionalProperties":false},` +
		`{"type":"object","properties":{"or":{"type":"array","items":{"$ref":"#/$defs/filter"}}},"required":["or"],"additionalProperties":false},` +
		`{"type":"object","properties":{"field":{"type":"string"}},"required":["field"],"additionalProperties":false}]}`
	schema := `{"properties":{"v":{"$ref":"#/$defs/value"},"f":{"$ref":"#/$defs/filter"}},"$defs":{"value":` + value + `,"filter":` + filter + `}}`
	tool, err := toolWith(schema)
	if err != nil {
		t.Fatalf("got error %v, want any JSON and a filter accepted", err)
	}
	deep := strings.Repeat(`{"a":[`, 25) + `1` + strings.Repeat(`]}`, 25)
	if err := tool.CheckArguments(jsontext.Value(`{"v":` + deep + `}`)); err != nil {
		t.Errorf("nested value: got error %v, want none", err)
	}
	deep = strings.Repeat(`{"and":[{"or":[`, 12) + `{"field":"x"}` + strings.Repeat(`]}]}`, 12)
	if err := tool.CheckArguments(jsontext.Value(`{"f":` + deep + `}`)); err != nil {
		t.Errorf("nested filter: got error %v, want none", err)
	}
	if err := tool.CheckArguments(jsontext.Value(`{"f":` + strings.Replace(deep, "field", "fjeld", 1) + `}`)); err == nil {
		t.Errorf("wrong filter: got no error, want one")
	}
}

func TestSP13ReservedNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"__import__", "__builtins__", "_private", "", "1st", "a.b", "a b", "a*", "ä", strings.Repeat("a", 65)} {
		for _, spec := range []broker.ToolSpec{{Namespace: "n", Name: name}, {Namespace: name, Name: "n"}} {
			if _, err := broker.NewTool(spec); err == nil {
				t.Errorf("%q and %q: got no error, want the tool refused", spec.Namespace, spec.Name)
			}
		}
	}
}
