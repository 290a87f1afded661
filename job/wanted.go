package job

import (
	"reflect"
	"strings"
	"time"
)

// maxWanted is how many fields of an object are named to who sent something
// else.
const maxWanted = 6

// wanted says, in JSON's words, what is decoded into a type.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time such as 2026-01-31T00:00:00Z"
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		return "a string"
	case k == reflect.Bool:
		return "true or false"
	case k >= reflect.Int && k <= reflect.Uintptr:
		return "an integer"
	case k == reflect.Float32, k == reflect.Float64:
		return "a number"
	case k == reflect.Slice, k == reflect.Array:
		return "an array"
	case k == reflect.Struct:
		return "an object with " + fieldNames(t)
	}
	return "an object"
}

// fieldNames are the first fields of an object.
func fieldNames(t reflect.Type) string {
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if len(names) == maxWanted {
			return strings.Join(names, ", ") + " and more"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
