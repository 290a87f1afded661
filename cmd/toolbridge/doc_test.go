package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"airlock/cmd/toolbridge/internal/bridge"
)

// The page's example is one that is taken, and its table has every field.
func TestThePage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../broker/PROVIDERS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(raw), "## Tools of MCP servers")
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(page)
	if example == nil {
		t.Fatal("the page has no example")
	}
	if _, err := bridge.Parse([]byte(example[1])); err != nil {
		t.Errorf("the example: got error %v, want none", err)
	}
	fields := reflect.TypeFor[bridge.Server]()
	for i := range fields.NumField() {
		name := "`" + fields.Field(i).Tag.Get("json") + "`"
		if !regexp.MustCompile(`(?m)^\|[^|]*` + name + `[^|]*\|`).MatchString(page) {
			t.Errorf("the table lacks %s", name)
		}
	}
	for _, code := range []string{bridge.CodeTool, bridge.CodeServer} {
		if !strings.Contains(page, "| `"+code+"` |") {
			t.Errorf("the table of errors lacks %s", code)
		}
	}
}
