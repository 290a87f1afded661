// Package rootfs lays out what a guest sees of its host's files, for the
// backends that build a root of their own.
package rootfs

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"airlock/backends/internal/interpreter"
)

// Inside is where a guest finds its own code.
const Inside = "/airlock"

// Hostname is what a guest finds as its host's.
const Hostname = "guest"

// InsideID is the uid and gid of a guest in its user namespace, or the first
// of them.
const InsideID = 1000

// Writable are the file systems that a guest may write to.
func Writable() []string { return []string{"/tmp", "/workspace", "/dev/shm"} }

// Devices are the files in a guest's /dev.
func Devices() []string { return []string{"null", "zero", "full", "random", "urandom"} }

// Tree is what a guest's root is made of besides its own code.
type Tree struct {
	// Binds are the paths of the host that a guest has read-only, at the same
	// place; none lies below another.
	Binds []string
	// Links are the symbolic links beside them.
	Links []Link
	// Environment is the whole of it, each as NAME=value.
	Environment []string
}

// Link is a symbolic link.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// New finds out what the interpreter needs.
func New(python interpreter.Interpreter) (Tree, error) {
	t, err := newTree(python)
	if err != nil {
		return Tree{}, err
	}
	found := Tree{Binds: t.binds(), Environment: []string{
		"HOME=/workspace", "TMPDIR=/tmp", "PATH=" + filepath.Dir(python.Path), "LANG=C.UTF-8",
		"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
	}}
	if dirs := t.unusual(); len(dirs) > 0 {
		found.Environment = append(found.Environment, "LD_LIBRARY_PATH="+strings.Join(dirs, ":"))
	}
	for _, path := range t.symlinks() {
		found.Links = append(found.Links, Link{path, t.links[path]})
	}
	return found, nil
}

// tree collects the paths that a guest's interpreter needs: real ones to bind,
// and the links on the way to them.
type tree struct {
	real  map[string]bool
	links map[string]string
	// libraries are the directories of shared libraries.
	libraries map[string]bool
}

func newTree(python interpreter.Interpreter) (*tree, error) {
	t := &tree{real: map[string]bool{}, links: map[string]string{}, libraries: map[string]bool{}}
	paths := slices.Concat([]string{python.Path}, python.Libraries, python.Packages)
	if python.Zones != "" {
		paths = append(paths, python.Zones)
	}
	for _, file := range python.Mapped {
		if strings.Contains(filepath.Base(file), ".so") && !t.under(file, python.Libraries) {
			paths = append(paths, filepath.Dir(file))
			t.libraries[filepath.Dir(file)] = true
		}
	}
	paths = append(paths, alternatives(slices.Sorted(maps.Keys(t.libraries)))...)
	// The loader is named in the program by a path of its own.
	loader, err := loaderOf(python.Path)
	if err != nil {
		return nil, err
	}
	if loader != "" {
		paths = append(paths, loader)
	}
	for _, path := range paths {
		if err := t.add(path); err != nil {
			return nil, fmt.Errorf("lay out %s: %w", path, err)
		}
	}
	// Programs start others by the usual name.
	if name := filepath.Base(python.Path); name != "python3" {
		t.links[filepath.Join(filepath.Dir(python.Path), "python3")] = name
	}
	return t, nil
}

// alternatives are the links beyond the directories that their shared libraries
// are reached by: where several packages give one library, such as
// libblas.so.3, Debian's lies behind a link in /etc/alternatives.
func alternatives(dirs []string) []string {
	var found []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // an interpreter that maps files from it needs no others
		}
		for _, e := range entries {
			target, err := os.Readlink(filepath.Join(dir, e.Name()))
			if err != nil || filepath.Dir(target) != "/etc/alternatives" {
				continue
			}
			if _, err := os.Stat(target); err == nil {
				found = append(found, target)
			}
		}
	}
	return found
}

// under reports whether the file lies below one of the directories.
func (*tree) under(file string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}

// loaderOf is the dynamic loader that the program asks for, "" for a static
// program.
func loaderOf(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", program, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err != nil {
				return "", fmt.Errorf("read %s: %w", program, err)
			}
			return strings.TrimRight(string(name), "\x00"), nil
		}
	}
	return "", nil
}

// add walks the path, notes each link on the way, and binds where it leads.
func (t *tree) add(path string) error {
	rest, at := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/"), "/"
	for hops := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at, rest = next, rest[1:]
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if hops++; hops > 40 {
			return fmt.Errorf("too many links")
		}
		t.links[next] = target
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest[1:]...)
	}
	t.real[at] = true
	return nil
}

// binds are the real paths without those that lie below another.
func (t *tree) binds() []string {
	var tops []string
	for _, path := range slices.Sorted(maps.Keys(t.real)) {
		if !t.under(path, tops) {
			tops = append(tops, path)
		}
	}
	return tops
}

// symlinks are the links that no bound directory holds already.
func (t *tree) symlinks() []string {
	var links []string
	for _, path := range slices.Sorted(maps.Keys(t.links)) {
		if !t.under(path, t.binds()) {
			links = append(links, path)
		}
	}
	return links
}

// unusual are the library directories that a loader without its cache, which
// lies in /etc, does not look into.
func (t *tree) unusual() []string {
	var dirs []string
	for _, dir := range slices.Sorted(maps.Keys(t.libraries)) {
		usual := false
		for _, top := range []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"} {
			triplet, below := strings.CutPrefix(dir, top+"/")
			usual = usual || dir == top || below && strings.HasSuffix(triplet, "-linux-gnu")
		}
		if !usual {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
