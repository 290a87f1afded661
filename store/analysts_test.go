package store_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// analystCases are the queries of HISTORY.md. The comment above each says what
// it may read: -- at most 2 months, 1200 blocks.
func analystCases(t *testing.T) []historyCase {
	t.Helper()
	doc, err := os.ReadFile("HISTORY.md")
	if err != nil {
		t.Fatal(err)
	}
	var cases []historyCase
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(doc), -1) {
		found := regexp.MustCompile(`^-- (.*): (\d+) months?, (\d+) blocks\n`).FindStringSubmatch(block[1])
		if found == nil {
			t.Errorf("a query of HISTORY.md does not say what it reads:\n%s", block[1])
			continue
		}
		c := historyCase{name: found[1], sql: strings.TrimSuffix(strings.TrimSpace(block[1][len(found[0]):]), ";")}
		c.months, _ = strconv.Atoi(found[2])
		c.blocks, _ = strconv.Atoi(found[3])
		cases = append(cases, c)
	}
	if len(cases) < 5 {
		t.Fatalf("got %d queries in HISTORY.md, want 5 or more", len(cases))
	}
	return cases
}

// literal puts what was made in the place of the examples' names.
func (m made) literal(sql string) string {
	n := m.jobs - 500 // within the last day
	id := m.id(n)
	return strings.NewReplacer(`'acme'`, m.tenant(n), `'nightly-42'`, m.batch(n),
		`'01930000-0000-7000-8000-000000000000'`, id).Replace(sql)
}
