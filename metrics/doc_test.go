package metrics_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"airlock/metrics"
)

// rows is the table as METRICS.md has it.
func rows() (all []string) {
	for _, program := range []string{metrics.OfWorker, metrics.OfGateway} {
		for _, m := range metrics.Table(program) {
			labels := "-"
			if len(m.Labels) > 0 {
				labels = "`" + strings.Join(m.Labels, "`, `") + "`"
			}
			row := fmt.Sprintf("| `%s` | %s | %s | %s | %s |", m.Name, m.Kind, strings.Join(m.Of, ", "), labels, m.Help)
			if !slices.Contains(all, row) {
				all = append(all, row)
			}
		}
	}
	return all
}

// documented is a row of the table of metrics, and not of alarms.
var documented = regexp.MustCompile("^\\| `airlock_[a-z_]+` \\|")

func TestTheTableIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if documented.MatchString(line) {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(rows(), got); diff != "" {
		t.Errorf("METRICS.md (-want +got):\n%s", diff)
	}
}
