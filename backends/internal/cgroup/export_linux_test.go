package cgroup

import "airlock/backends/internal/owner"

// Mounts is where our own groups are, for fixtures of other hosts' files.
func Mounts(mountinfo, groups string) (v1 map[Controller]string, own, top string, err error) {
	m, err := readMounts(mountinfo, groups)
	return m.v1, m.v2, m.v2Root, err
}

// HostV2 is a version 2 host whose groups are made in dir with whatever
// controllers dir has.
func HostV2(dir string, controllers ...Controller) *Host {
	parents := map[Controller]string{Accounting: dir}
	for _, c := range controllers {
		parents[c] = dir
	}
	self, _ := owner.This()
	return &Host{version: v2{}, owner: self, parents: parents, token: "test"}
}

// Delegate hands the controllers of a version 2 group down.
var Delegate = delegate

// UsageOf reads the counters of the groups at dir.
func UsageOf(h *Host, dir string) (Usage, error) {
	g := &Group{host: h, dirs: map[Controller]string{}}
	for c := range h.parents {
		g.dirs[c] = dir
	}
	return g.Usage()
}

// Dirs are the group's directories.
func (g *Group) Dirs() []string { return g.distinct() }

// Sweep removes what dead workers left.
func (h *Host) Sweep() { h.sweep() }

// RoomsOf is Rooms with the files to read.
var RoomsOf = rooms
