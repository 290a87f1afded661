package memfs

import (
	"path"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
)

// Rmdir implements sys.FS, as do the methods below.
func (f *FS) Rmdir(name string) sys.Errno { return f.remove(name, true) }

func (f *FS) Unlink(name string) sys.Errno { return f.remove(name, false) }

func (f *FS) remove(name string, dir bool) sys.Errno {
	n, errno := f.find(name)
	switch {
	case errno != 0:
		return errno
	case f.frozen:
		return sys.EROFS
	case n == f.root:
		return sys.EINVAL
	case dir && !n.isDir():
		return sys.ENOTDIR
	case !dir && n.isDir():
		return sys.EISDIR
	case len(n.names) > 0:
		return sys.ENOTEMPTY
	}
	parent, base, _ := f.parent(name)
	parent.unlink(base)
	return 0
}

func (n *node) unlink(base string) {
	gone := n.names[base]
	delete(n.names, base)
	n.touch()
	gone.linked = false
	gone.drop()
}

// Rename takes the place of a file, or of an empty directory, at to.
func (f *FS) Rename(from, to string) sys.Errno {
	n, errno := f.find(from)
	switch {
	case errno != 0:
		return errno
	case f.frozen:
		return sys.EROFS
	case n == f.root || under(to, from):
		return sys.EINVAL
	}
	parent, base, errno := f.parent(to)
	if errno != 0 {
		return errno
	}
	if old := parent.names[base]; old == n {
		return 0
	} else if old != nil {
		if errno := replaceable(old, n); errno != 0 {
			return errno
		}
		parent.unlink(base)
	}
	source, name, _ := f.parent(from)
	delete(source.names, name)
	source.touch()
	parent.names[base] = n
	parent.touch()
	return 0
}

// under reports whether a path lies truly below another.
func under(name, above string) bool {
	return strings.HasPrefix(path.Clean("/"+name), path.Clean("/"+above)+"/")
}

func replaceable(old, n *node) sys.Errno {
	switch {
	case old.isDir() && !n.isDir():
		return sys.EISDIR
	case !old.isDir() && n.isDir():
		return sys.ENOTDIR
	case len(old.names) > 0:
		return sys.ENOTEMPTY
	}
	return 0
}
