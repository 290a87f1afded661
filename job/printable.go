package job

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes foreign text safe to show on a terminal, in a log line and
// in a text column: control characters, bidirectional overrides, zero-width
// characters and invalid UTF-8 become visible escapes, and what exceeds max
// bytes is cut with "…". It is for showing; it does not preserve the bytes.
func Printable(s string, max int) string {
	return printable(s, max, false)
}

// PrintableLines is Printable, but keeps line feeds and tabs.
func PrintableLines(s string, max int) string {
	return printable(s, max, true)
}

func printable(s string, max int, lines bool) string {
	// Nearly all is plain, and tables show many thousands.
	if max >= 0 && isPlain(s[:min(len(s), max)]) {
		if len(s) <= max {
			return s
		}
		return s[:max] + "…"
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		if out.Len() >= max {
			out.WriteString("…")
			break
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case lines && (r == '\n' || r == '\t'):
			out.WriteRune(r)
		case unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r):
			out.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		i += n
	}
	return out.String()
}

// isPlain says that s is of printable ASCII only.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
