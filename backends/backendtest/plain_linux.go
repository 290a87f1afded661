package backendtest

import (
	"maps"
	"strings"
	"testing"
)

// asText wants these files, or where names must be text those which are.
func asText(want map[string]string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		text := maps.Clone(want)
		maps.DeleteFunc(text, func(name, _ string) bool { return strings.Contains(name, "udc") })
		switch unmade := string(returned(t, g)); {
		case unmade == "0":
			brought(want)(t, g)
		case g.plain && unmade == "3":
			brought(text)(t, g)
		default:
			t.Errorf("got %s names that could not be made, want none", unmade)
		}
	}
}

// linked wants these files, or where nothing can be a link the one that is
// none.
func linked(want map[string]string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		if made := string(returned(t, g)); g.plain && made == "0" {
			brought(map[string]string{"one": "x"})(t, g)
			return
		}
		brought(want)(t, g)
	}
}
