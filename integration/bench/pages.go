package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// split is what one guest adds to what is there without it, and what its slot
// does, in MiB: the pages that nobody else maps. Both are means.
type split struct {
	guest, slot float64
	guests      int
}

// splitPages tells guests apart from what keeps them by their pid namespaces:
// a guest is all processes of one within which there is no other. Its slot is
// the parent of its first process, if it has no other guest.
func splitPages(pids []int) (s split, err error) {
	guests, slots := guestsOf(pids)
	if len(guests) == 0 {
		return s, errors.New("there are no guests in pid namespaces of their own")
	}
	mapped := map[uint64][]int{} // who maps each page
	for _, pid := range pids {
		frames, err := framesOf(pid)
		if err != nil {
			return s, err
		}
		for frame := range frames {
			mapped[frame] = append(mapped[frame], pid)
		}
	}
	for i, guest := range guests {
		s.guest += alone(mapped, guest)
		if slots[i] != 0 {
			// What a slot shares with its own guest stays without the guest.
			s.slot += alone(mapped, append(slices.Clone(guest), slots[i])) - alone(mapped, guest)
		}
	}
	s.guests = len(guests)
	s.guest, s.slot = s.guest/float64(s.guests), s.slot/float64(s.guests)
	return s, nil
}

// alone is how many MiB are mapped by these processes and no other.
func alone(mapped map[uint64][]int, pids []int) float64 {
	pages := 0
	for _, by := range mapped {
		if !slices.ContainsFunc(by, func(pid int) bool { return !slices.Contains(pids, pid) }) {
			pages++
		}
	}
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}

// guestsOf returns the processes of each guest, and beside them its slot, 0
// where several guests have one parent.
func guestsOf(pids []int) (guests [][]int, slots []int) {
	all, space := processes(), map[int]string{}
	for _, pid := range pids {
		space[pid], _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	}
	within, parents := map[string][]int{}, map[string]int{}
	outer := map[string]bool{}
	ours, _ := os.Readlink("/proc/self/ns/pid")
	outer[ours] = true
	for _, pid := range pids {
		within[space[pid]] = append(within[space[pid]], pid)
		if parent := all[pid].parent; space[parent] != space[pid] {
			outer[space[parent]], parents[space[pid]] = true, parent
		}
	}
	children := map[int]int{}
	for name := range within {
		if !outer[name] {
			children[parents[name]]++
		}
	}
	for name, group := range within {
		if outer[name] {
			continue
		}
		slot := parents[name]
		if children[slot] > 1 || !slices.Contains(pids, slot) {
			slot = 0
		}
		guests, slots = append(guests, group), append(slots, slot)
	}
	return guests, slots
}

// An entry of proc_pid_pagemap(5): a flag, and the frame's number.
const (
	pagePresent = 1 << 63
	pageFrame   = 1<<55 - 1
	entrySize   = 8
)

// framesOf are the page frames that a process maps now.
func framesOf(pid int) (map[uint64]bool, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	table, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil, err
	}
	defer table.Close()
	frames := map[uint64]bool{}
	lines := bufio.NewScanner(strings.NewReader(string(maps)))
	for lines.Scan() {
		from, to, err := rangeOf(lines.Text())
		if err != nil || strings.HasSuffix(lines.Text(), "[vsyscall]") {
			continue
		}
		size := uint64(os.Getpagesize())
		entries := make([]byte, (to-from)/size*entrySize)
		n, _ := table.ReadAt(entries, int64(from/size*entrySize))
		for entries = entries[:n-n%entrySize]; len(entries) > 0; entries = entries[entrySize:] {
			if e := binary.NativeEndian.Uint64(entries); e&pagePresent != 0 {
				frames[e&pageFrame] = true
			}
		}
	}
	if frames[0] {
		return nil, errors.New("read the pages of a guest: the kernel tells their numbers to root only")
	}
	return frames, nil
}

func rangeOf(line string) (from, to uint64, err error) {
	first, rest, _ := strings.Cut(line, "-")
	last, _, _ := strings.Cut(rest, " ")
	if from, err = strconv.ParseUint(first, 16, 64); err == nil {
		to, err = strconv.ParseUint(last, 16, 64)
	}
	return from, to, err
}
