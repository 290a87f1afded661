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
	return Namespace{
		Name: "math", Version: "1.0.0", Description: "Sample tools.",
		Tools: []Tool{{
			Name: "add", Description: "Adds two numbers, exactly.", Idempotent: true, ReadOnly: true,
			InputSchema: jsontext.Value(`{"type":"object","properties":{` +
				`"a":{"type":["number","string"],"description":"a number, or its text"},` +
				`"b":{"type":["number","string"],"description":"a number, or its text"}},` +
				`"required":["a","b"],"additionalProperties":false}`),
			OutputSchema: jsontext.Value(`{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`),
			Handler:      add,
		}, {
			Name: "echo", Description: "Gives back what it is given.", Idempotent: true, ReadOnly: true,
			InputSchema: jsontext.Value(`{"type":"object","properties":{"text":{}},` +
				`"required":["text"],"additionalProperties":false}`),
			Handler: echo,
		}},
	}
}

func add(_ context.Context, call Call) (any, error) {
	var in struct {
		A jsontext.Value `json:"a"`
		B jsontext.Value `json:"b"`
	}
	if err := job.DecodeStrict(call.Arguments, &in); err != nil {
		return nil, Errorf(CodeBadArguments, "%v", err)
	}
	a, err := parseNumber(in.A)
	if err != nil {
		return nil, Errorf(CodeBadArguments, "a: %v", err)
	}
	b, err := parseNumber(in.B)
	if err != nil {
		return nil, Errorf(CodeBadArguments, "b: %v", err)
	}
	sum := decimal(new(big.Rat).Add(a, b))
	return struct {
		Sum jsontext.Value `json:"sum"`
	}{jsontext.Value(sum)}, nil
}

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

func echo(_ context.Context, call Call) (any, error) {
	var in struct {
		Text jsontext.Value `json:"text"`
	}
	if err := job.DecodeStrict(call.Arguments, &in); err != nil {
		return nil, Errorf(CodeBadArguments, "%v", err)
	}
	return in.Text, nil
}
