package job_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"airlock/job"

	"pgregory.net/rapid"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want, lines string }{
		{"plain", "a b ☕ é 日", "a b ☕ é 日", "a b ☕ é 日"},
		{"escape sequence", "\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"line feed and tab", "a\n\tb", `a\x0a\x09b`, "a\n\tb"},
		{"carriage return", "a\rb", `a\x0db`, `a\x0db`},
		{"NUL", "a\x00b", `a\x00b`, `a\x00b`},
		{"C1 control", "a\u009bb", `a\x9bb`, `a\x9bb`},
		{"bidirectional override", "a\u202eb", `a\u202eb`, `a\u202eb`},
		{"zero width", "a\u200bb\ufeff", `a\u200bb\ufeff`, `a\u200bb\ufeff`},
		{"invalid UTF-8", "a\xffb\xe2\x98", `a\xffb\xe2\x98`, `a\xffb\xe2\x98`},
		{"line separator", "a\u2028b", `a\u2028b`, `a\u2028b`},
	} {
		if got := job.Printable(tt.in, 100); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := job.PrintableLines(tt.in, 100); got != tt.lines {
			t.Errorf("%s, lines: got %q, want %q", tt.name, got, tt.lines)
		}
	}
	if got, want := job.Printable(strings.Repeat("x", 11), 10), "xxxxxxxxxx…"; got != want {
		t.Errorf("cut: got %q, want %q", got, want)
	}
}

func TestPrintableIsSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "in"))
		if rapid.Bool().Draw(t, "text") {
			in = rapid.String().Draw(t, "string")
		}
		max := rapid.IntRange(0, 60).Draw(t, "max")
		got := job.Printable(in, max)
		if !utf8.ValidString(got) {
			t.Fatalf("got invalid UTF-8 %q", got)
		}
		if len(got) > max+len("…")+len(`\U0010ffff`) {
			t.Fatalf("got %d bytes, want at most %d and one escape", len(got), max)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("got %q, which holds %U", got, r)
			}
		}
	})
}
