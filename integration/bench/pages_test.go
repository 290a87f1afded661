package main

import (
	"os"
	"testing"
)

func TestRangeOf(t *testing.T) {
	t.Parallel()
	from, to, err := rangeOf("7f0a1000-7f0a3000 rw-p 00000000 00:00 0 [heap]")
	if from != 0x7f0a1000 || to != 0x7f0a3000 || err != nil {
		t.Errorf("got %x to %x, %v", from, to, err)
	}
	if _, _, err := rangeOf("nonsense"); err == nil {
		t.Error("nonsense: got no error")
	}
}

func TestAlone(t *testing.T) {
	t.Parallel()
	mapped := map[uint64][]int{1: {10}, 2: {10, 11}, 3: {10, 12}, 4: {12}, 5: {11}}
	page := float64(os.Getpagesize()) / (1 << 20)
	for _, test := range []struct {
		pids []int
		want float64
	}{{[]int{10}, 1}, {[]int{10, 11}, 3}, {[]int{10, 11, 12}, 5}, {nil, 0}} {
		if got := alone(mapped, test.pids); got != test.want*page {
			t.Errorf("%v: got %g MiB, want %g pages", test.pids, got, test.want)
		}
	}
}

// TestFramesOf grows this process and finds the pages.
func TestFramesOf(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is told the numbers of pages")
	}
	before, err := framesOf(os.Getpid())
	if err != nil {
		t.Skipf("no page tables to read: %v", err)
	}
	const grown = 32 << 20
	block := make([]byte, grown)
	for i := 0; i < grown; i += 512 {
		block[i] = 1
	}
	after, err := framesOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	fresh := 0
	for frame := range after {
		if !before[frame] {
			fresh++
		}
	}
	if want := grown / os.Getpagesize(); fresh < want {
		t.Errorf("got %d pages more, want at least the %d that were written", fresh, want)
	}
	if block[0] != 1 {
		t.Error("the block is gone")
	}
}
