package provider

import (
	"context"
	"errors"
	"math/big"
	"strings"

	"airlock/job"

	"github.com/go-json-experiment/json/jsontext"
)

// Math is a sample: namespace math with add and echo. Its numbers are exact,
// however large.
func Math() Namespace {
	sum := Func("add", "Adds two numbers, exactly.", add)
	// Any JSON is what the types say; these say more.
	sum.InputSchema = jsontext.Value(`{"type":"object","properties":{` +
		`"a":{"type":["number","string"],"description":"a number, or its text"},` +
		`"b":{"type":["number","string"],"description":"a number, or its text"}},` +
		`"required":["a","b"],"additionalProperties":false}`)
	sum.OutputSchema = jsontext.Value(`{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`)
	same := Func("echo", "Gives back what it is given.", echo)
	sum.Idempotent, sum.ReadOnly = true, true
	same.Idempotent, same.ReadOnly = true, true
	return Namespace{Name: "math", Version: "1.0.0", Description: "Sample tools.", Tools: []Tool{sum, same}}
}

type addends struct {
	A jsontext.Value `json:"a"`
	B jsontext.Value `json:"b"`
}

type total struct {
	Sum jsontext.Value `json:"sum"`
}

func add(_ context.Context, in addends) (total, error) {
	a, err := parseNumber(in.A)
	if err != nil {
		return total{}, Errorf(CodeBadArguments, "a: %v", err)
	}
	b, err := parseNumber(in.B)
	if err != nil {
		return total{}, Errorf(CodeBadArguments, "b: %v", err)
	}
	return total{jsontext.Value(decimal(new(big.Rat).Add(a, b)))}, nil
}

type anything struct {
	Text jsontext.Value `json:"text"`
}

func echo(_ context.Context, in anything) (jsontext.Value, error) { return in.Text, nil }

// parseNumber reads a JSON number or a string that holds one.
func parseNumber(raw jsontext.Value) (*big.Rat, error) {
	text := []byte(raw)
	if raw.Kind() == '"' {
		var err error
		if text, err = jsontext.AppendUnquote(nil, raw); err != nil {
			return nil, err
		}
	}
	// CheckJSON bounds digits and exponent, and refuses the fractions, hex
	// digits and underscores that big.Rat would take.
	number := jsontext.Value(strings.TrimSpace(string(text)))
	if err := job.CheckJSON(number); err != nil || number.Kind() != '0' {
		return nil, errors.New("is not a number")
	}
	r, ok := new(big.Rat).SetString(string(number))
	if !ok {
		return nil, errors.New("is not a number")
	}
	return r, nil
}

// decimal writes a sum of decimal numbers, which is one itself.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}
