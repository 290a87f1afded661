package job

import (
	"path"
	"strings"
	"unicode/utf8"
)

// The bounds of what a job collects.
const (
	// MaxCollect is how many globs a job may have.
	MaxCollect = 64
	// MaxPath is how many bytes a path or a glob below /workspace may have,
	// and maxPart how many between two slashes.
	MaxPath = 512
	maxPart = 255
)

// anyDepth as a part of a glob stands for any number of parts, also none.
const anyDepth = "**"

// Collects reports whether one of a prepared job's globs covers the path,
// which is relative to /workspace and has forward slashes.
//
// A glob is a path whose parts may hold * (any characters), ? (one character)
// and classes such as [a-z0], [!a-z] and [^a-z]; none of them matches a slash,
// all of them match a leading dot, and case counts. The part ** stands for any
// number of parts, also none: a/** covers a itself, should it be a file. There
// is no escape: [*] is a star. broker/testdata/globs.txt has examples, which
// the guest's own matcher is held against too.
func Collects(globs []string, name string) bool {
	parts := strings.Split(name, "/")
	for _, glob := range globs {
		if covers(strings.Split(glob, "/"), parts) {
			return true
		}
	}
	return false
}

// covers needs to try again from the last ** only: what the earlier ones took
// leaves it every choice.
func covers(glob, parts []string) bool {
	g, p := 0, 0
	last, from := -1, 0
	for p < len(parts) {
		switch {
		case g < len(glob) && glob[g] == anyDepth:
			last, from = g, p
			g++
		case g < len(glob) && matchPart(glob[g], parts[p]):
			g++
			p++
		case last >= 0:
			from++
			g, p = last+1, from
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == anyDepth {
		g++
	}
	return g == len(glob)
}

func matchPart(glob, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(glob, "[!", "[^"), name)
	return ok && err == nil
}

func (j *Job) checkCollect() *FieldError {
	if len(j.Collect) > MaxCollect {
		return fieldErrorf("collect", "more than %d", MaxCollect)
	}
	for i, glob := range j.Collect {
		if why := badGlob(glob); why != "" {
			return fieldErrorf(index("collect", i, ""), "%s", why)
		}
	}
	return nil
}

// badGlob says why a glob is none, or "".
func badGlob(glob string) string {
	switch {
	case glob == "" || len(glob) > MaxPath:
		return "want 1 to 512 bytes"
	case !utf8.ValidString(glob) || Printable(glob, len(glob)+1) != glob:
		return "holds what cannot be printed"
	case glob[0] == '/':
		return "is relative to /workspace: leave the first slash away"
	case strings.ContainsAny(glob, `\{}`):
		return `holds a backslash or a brace, which are no part of a glob; ? stands for any character`
	}
	for part := range strings.SplitSeq(glob, "/") {
		if why := badPart(part); why != "" {
			return why
		}
	}
	return ""
}

func badPart(part string) string {
	switch {
	case part == "" || part == "." || part == "..":
		return `has an empty part, "." or ".."`
	case len(part) > maxPart:
		return "a part is longer than 255 bytes"
	case part != anyDepth && strings.Contains(part, anyDepth):
		return "** is a part of its own, as in a/**/b"
	}
	for {
		before, rest, opened := strings.Cut(part, "[")
		if strings.Contains(before, "]") {
			return "a ] without its ["
		}
		if !opened {
			return ""
		}
		class, after, closed := strings.Cut(rest, "]")
		if !closed || badClass(class) {
			return "a class is one such as [abc], [a-z] or [!0-9]"
		}
		part = after
	}
}

// badClass reports whether what stands between brackets is no class: it must
// be characters and ranges, with the smaller end first.
func badClass(class string) bool {
	items := []rune(class)
	if len(items) > 0 && (items[0] == '!' || items[0] == '^') {
		items = items[1:]
	}
	if len(items) == 0 {
		return true
	}
	for len(items) > 0 {
		if items[0] == '-' || items[0] == '[' {
			return true
		}
		if len(items) < 2 || items[1] != '-' {
			items = items[1:]
			continue
		}
		if len(items) < 3 || items[2] == '-' || items[2] == '[' || items[2] < items[0] {
			return true
		}
		items = items[3:]
	}
	return false
}
