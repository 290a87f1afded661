package main

import (
	"testing"
	"time"
)

// A table has its columns below each other, whatever the width of what stands
// in them, and foreign text is harmless in it.
func TestGridIsLaidOut(t *testing.T) {
	t.Parallel()
	g := newGrid("tool", "description", "p50")
	if g.Length() != 0 {
		t.Errorf("got %d rows of a table without any, want 0", g.Length())
	}
	g.add("a.b", "wide: 漢字", 1500*time.Microsecond)
	g.add("long.name", "ä\x1b[2J\nb", "")
	g.add("short")
	want := " TOOL       DESCRIPTION    P50   \n" +
		" a.b        wide: 漢字     1.5ms \n" +
		" long.name  ä\\x1b[2J\\x0ab        \n" +
		" short                           "
	if got := g.Render(); got != want {
		t.Errorf("got table\n%s\nwant\n%s", got, want)
	}
	if g.Length() != 3 {
		t.Errorf("got %d rows, want 3", g.Length())
	}
	bare := newGrid()
	bare.add("job", "1")
	if got := bare.Render(); got != " job  1 " || bare.Length() != 1 {
		t.Errorf("got %q of %d rows, want the row alone", got, bare.Length())
	}
}
