package main

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 1 0 5 6 7\n"
	got, ok := parseStat(line)
	want := process{pid: 42, parent: 7, name: "a) b (c", own: 330 * time.Millisecond, reaped: 770 * time.Millisecond}
	if !ok || got != want {
		t.Errorf("got %+v, %t, want %+v", got, ok, want)
	}
	for _, bad := range []string{"", "42", "x (a) S 1", "42 (a) S 1 2"} {
		if got, ok := parseStat(bad); ok {
			t.Errorf("got %+v of %q, want none", got, bad)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	all := map[int]process{}
	for pid, parent := range map[int]int{2: 1, 3: 2, 4: 3, 5: 1, 6: 2} {
		all[pid] = process{pid: pid, parent: parent}
	}
	got := map[int]bool{}
	for _, p := range below(all, 2) {
		got[p.pid] = true
	}
	if diff := cmp.Diff(map[int]bool{3: true, 4: true, 6: true}, got); diff != "" {
		t.Errorf("below 2 (-want +got):\n%s", diff)
	}
}

func TestOwnMemory(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/smaps_rollup"); err != nil {
		t.Skip("the system tells nothing of memory:", err)
	}
	m, ok := held(os.Getpid())
	if !ok || m.rss < 1 || m.pss <= 0 || m.pss > m.rss || peak(os.Getpid()) < m.rss/2 {
		t.Errorf("got %+v, %t and a peak of %.1f, want some MiB", m, ok, peak(os.Getpid()))
	}
	if _, ok := held(os.Getpid(), 1<<30); ok {
		t.Error("got ok for a process that is not there")
	}
}
