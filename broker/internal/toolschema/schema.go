// Package toolschema holds arguments and answers of tools against JSON Schema.
// Both sides of a call use it, so that they agree on what a schema means.
package toolschema

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Schema checks documents. It is resolved once and may be used from several
// goroutines.
type Schema struct {
	resolved *jsonschema.Resolved
}

// Parse reads a provider's schema, and refuses one that could take long to
// check against. References leave the document never: nobody fetches anything
// on a provider's word.
func Parse(raw jsontext.Value) (s *Schema, err error) {
	// The library panics on some documents that it could refuse.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("not a schema: %s", job.Printable(fmt.Sprint(p), 200))
		}
	}()
	if err := job.CheckJSON(raw); err != nil {
		return nil, err
	}
	if raw.Kind() != '{' {
		return nil, errors.New("not an object")
	}
	if err := checkCost(raw); err != nil {
		return nil, err
	}
	var parsed jsonschema.Schema
	if err := parsed.UnmarshalJSON(raw); err != nil {
		return nil, printableError(err)
	}
	resolved, err := parsed.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		return nil, printableError(err)
	}
	s = &Schema{resolved}
	// Some faults, such as an unknown draft, show at the first use only. An
	// empty object may well violate the schema; that is no fault.
	if unusable := s.probe(); unusable != nil {
		return nil, unusable
	}
	return s, nil
}

func (s *Schema) probe() error {
	switch version := s.resolved.Schema().Schema; version {
	case "", "https://json-schema.org/draft/2020-12/schema",
		"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#":
		return nil
	default:
		return fmt.Errorf("$schema %q is neither draft 2020-12 nor draft 7", job.Printable(version, 100))
	}
}

// Check reports whether raw, which job.CheckJSON has accepted, fits.
func (s *Schema) Check(raw jsontext.Value) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be checked: %s", job.Printable(fmt.Sprint(p), 200))
		}
	}()
	var value any
	if err := json.Unmarshal(raw, &value, json.WithUnmarshalers(nearNumbers)); err != nil {
		return printableError(err)
	}
	if err := s.resolved.Validate(value); err != nil {
		return printableError(err)
	}
	return nil
}

// nearNumbers decodes numbers for checking only: exactly where 64 bits of an
// integer suffice, else as the nearest finite float. What the provider gets is
// the guest's own text.
var nearNumbers = json.UnmarshalFromFunc(func(dec *jsontext.Decoder, value *any) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported // as every other value is decoded
	}
	token, err := dec.ReadValue()
	if err != nil {
		return err
	}
	*value = nearNumber(string(token))
	return nil
})

func nearNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	// Out of range gives an infinity, which the library takes for zero.
	f, _ := strconv.ParseFloat(text, 64)
	return max(-math.MaxFloat64, min(f, math.MaxFloat64))
}

func printableError(err error) error {
	return errors.New(job.Printable(err.Error(), 300))
}
