package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"golang.org/x/term"

	"airlock/job"
)

// output is stdout or stderr.
type output struct {
	w        io.Writer
	terminal bool
}

func newOutput(w io.Writer) output {
	file, ok := w.(*os.File)
	return output{w, ok && term.IsTerminal(int(file.Fd()))}
}

// guest passes on what a guest wrote: as it is, except to a terminal, which
// would obey the control sequences in it.
func (o output) guest(data []byte) error {
	if o.terminal {
		data = []byte(job.PrintableLines(string(data), math.MaxInt))
	}
	return o.write(data)
}

// document prints v as one line of JSON.
func (o output) document(v any) error {
	line, err := encodeLine(v)
	if err != nil {
		return err
	}
	return o.write(line)
}

// text prints our own text, in which foreign parts are already harmless.
func (o output) text(s string) error { return o.write([]byte(s)) }

func (o output) write(data []byte) error {
	if _, err := o.w.Write(data); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// encodeLine makes v one line of JSON with its line feed.
func encodeLine(v any) ([]byte, error) {
	doc, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return append(escapeJSON(doc), '\n'), nil
}

// escapeJSON writes the characters of a JSON document that a terminal obeys,
// or that some readers take for the end of a line (U+0085, U+2028), as \u
// escapes. They can stand only in strings, so it is the same document.
func escapeJSON(doc []byte) []byte {
	harmless := func(r rune) bool { return unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r) }
	bad := func(r rune) bool { return r >= 0x7f && !harmless(r) }
	if bytes.IndexFunc(doc, bad) < 0 {
		return doc
	}
	out := make([]byte, 0, len(doc)+64)
	for len(doc) > 0 {
		r, n := utf8.DecodeRune(doc)
		switch high, low := utf16.EncodeRune(r); {
		case !bad(r):
			out = append(out, doc[:n]...)
		case high != utf8.RuneError:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		doc = doc[n:]
	}
	return out
}
