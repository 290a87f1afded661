package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON Schema lets everything pass that it does not know: a slip of the pen in
// "maximum" would allow any amount, and "format" checks nothing. A provider's
// schema is read so; an operator's is not.

// How the value of a keyword is looked at.
const (
	plainly = iota + 1
	asSchema
	asList // of schemas
	asMap  // of schemas, by any name
)

// keywords are those that are enforced, and those that only tell.
var keywords = map[string]int{
	"type": plainly, "enum": plainly, "const": plainly, "required": plainly, "dependentRequired": plainly,
	"minimum": plainly, "maximum": plainly, "exclusiveMinimum": plainly, "exclusiveMaximum": plainly, "multipleOf": plainly,
	"minLength": plainly, "maxLength": plainly, "pattern": plainly,
	"minItems": plainly, "maxItems": plainly, "uniqueItems": plainly, "minContains": plainly, "maxContains": plainly,
	"minProperties": plainly, "maxProperties": plainly,
	"$ref": plainly, "$schema": plainly, "$id": plainly, "$comment": plainly,
	"title": plainly, "description": plainly, "default": plainly, "examples": plainly, "deprecated": plainly,

	"not": asSchema, "if": asSchema, "then": asSchema, "else": asSchema, "propertyNames": asSchema,
	"additionalProperties": asSchema, "unevaluatedProperties": asSchema,
	"items": asSchema, "additionalItems": asSchema, "unevaluatedItems": asSchema, "contains": asSchema,

	"allOf": asList, "anyOf": asList, "oneOf": asList, "prefixItems": asList,

	"properties": asMap, "patternProperties": asMap, "$defs": asMap, "definitions": asMap, "dependentSchemas": asMap,
}

var types = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// checkKeywords refuses keywords and types that would not be enforced.
func checkKeywords(schema jsontext.Value) error {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return err
	}
	return known("", root)
}

func known(path string, schema any) error {
	object, ok := schema.(map[string]any)
	if !ok {
		return nil // true and false, or what the schema's reader refuses
	}
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		here, value := path+"/"+keyword, object[keyword]
		if err := knownUnder(here, keyword, value); err != nil {
			return err
		}
	}
	return nil
}

func knownUnder(here, keyword string, value any) error {
	list, isList := value.([]any)
	switch how := keywords[keyword]; {
	case how == 0:
		return fmt.Errorf("%s: is not enforced; take it out", job.Printable(here, 200))
	case keyword == "type":
		return knownTypes(here, value)
	case how == asMap:
		members, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if err := known(here+"/"+name, members[name]); err != nil {
				return err
			}
		}
	case how == asList || how == asSchema && isList:
		for i, item := range list {
			if err := known(here+"/"+strconv.Itoa(i), item); err != nil {
				return err
			}
		}
	case how == asSchema:
		return known(here, value)
	}
	return nil
}

func knownTypes(here string, value any) error {
	names, isList := value.([]any)
	if !isList {
		names = []any{value}
	}
	for _, name := range names {
		text, _ := name.(string)
		if !slices.Contains(types, text) {
			return fmt.Errorf("%s: %q is no type", job.Printable(here, 200), job.Printable(text, 80))
		}
	}
	if len(names) == 0 {
		return errors.New(job.Printable(here, 200) + ": names no type")
	}
	return nil
}
