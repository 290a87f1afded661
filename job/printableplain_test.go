package job_test

import (
	"testing"

	"airlock/job"
)

// Where plain text ends, and where the longest that is shown whole does.
func TestPrintableAtTheEdges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		max  int
		want string
	}{
		{"a ~b", 4, "a ~b"}, {"a\x7fb", 9, `a\x7fb`}, {"a\x1fb", 9, `a\x1fb`}, {"abcd", 3, "abc…"}, {"abc\x1b", 3, "abc…"},
		{"a\x80", 9, `a\x80`}, {"", 0, ""}, {"a", 0, "…"}, {"", -1, ""}, {"a", -1, "…"},
	} {
		if got := job.Printable(tt.in, tt.max); got != tt.want {
			t.Errorf("Printable(%q, %d): got %q, want %q", tt.in, tt.max, got, tt.want)
		}
	}
}
