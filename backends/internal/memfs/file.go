package memfs

import (
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero/experimental/sys"
	wsys "github.com/tetratelabs/wazero/sys"
)

// file is a descriptor.
type file struct {
	sys.UnimplementedFile
	node        *node
	read, write bool
	// add has each write begin at the end.
	add bool
	pos int64
	// listed are a directory's entries that are still to be read; nil before
	// the first is.
	listed []sys.Dirent
	closed bool
}

func (f *file) Dev() (uint64, sys.Errno)        { return f.node.fs.device, 0 }
func (f *file) Ino() (wsys.Inode, sys.Errno)    { return f.node.ino, 0 }
func (f *file) IsDir() (bool, sys.Errno)        { return f.node.isDir(), 0 }
func (f *file) IsAppend() bool                  { return f.add }
func (f *file) SetAppend(enable bool) sys.Errno { f.add = enable; return 0 }
func (f *file) Stat() (wsys.Stat_t, sys.Errno)  { return f.node.stat(), 0 }
func (f *file) Sync() sys.Errno                 { return 0 }
func (f *file) Datasync() sys.Errno             { return 0 }

func (f *file) Read(buf []byte) (int, sys.Errno) {
	n, errno := f.Pread(buf, f.pos)
	f.pos += int64(n)
	return n, errno
}

func (f *file) Pread(buf []byte, at int64) (int, sys.Errno) {
	switch {
	case f.closed || !f.read:
		return 0, sys.EBADF
	case f.node.isDir():
		return 0, sys.EISDIR
	case at < 0:
		return 0, sys.EINVAL
	}
	return f.node.readAt(buf, at), 0
}

func (f *file) Write(buf []byte) (int, sys.Errno) {
	if f.add {
		f.pos = f.node.size
	}
	n, errno := f.Pwrite(buf, f.pos)
	f.pos += int64(n)
	return n, errno
}

func (f *file) Pwrite(buf []byte, at int64) (int, sys.Errno) {
	switch {
	case f.closed || !f.write:
		return 0, sys.EBADF
	case at < 0:
		return 0, sys.EINVAL
	}
	return f.node.writeAt(buf, at)
}

func (f *file) Truncate(size int64) sys.Errno {
	switch {
	case f.node.isDir():
		return sys.EISDIR
	case f.closed || !f.write:
		return sys.EBADF
	}
	return f.node.truncate(size)
}

func (f *file) Utimens(atime, mtime int64) sys.Errno { return f.node.utimens(atime, mtime) }

// position is an int64. Vet takes every Seek of one for io.Seeker's, and
// wazero's is none.
type position = int64

// Seek rewinds a directory only to its beginning.
func (f *file) Seek(offset position, whence int) (int64, sys.Errno) {
	if f.node.isDir() {
		if offset != 0 || whence != io.SeekStart {
			return 0, sys.EISDIR
		}
		f.listed = nil
		return 0, 0
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.node.size
	default:
		return 0, sys.EINVAL
	}
	if offset < 0 {
		return 0, sys.EINVAL
	}
	f.pos = offset
	return offset, 0
}

// Readdir reads the next n entries, or all that are left.
func (f *file) Readdir(n int) ([]sys.Dirent, sys.Errno) {
	if !f.node.isDir() {
		return nil, sys.ENOTDIR
	}
	if f.listed == nil {
		f.listed = f.node.list()
	}
	if n < 0 || n > len(f.listed) {
		n = len(f.listed)
	}
	next := f.listed[:n]
	f.listed = f.listed[n:]
	return next, 0
}

// list is never nil.
func (n *node) list() []sys.Dirent {
	entries := make([]sys.Dirent, 0, len(n.names))
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		entry := sys.Dirent{Name: name, Ino: n.names[name].ino}
		if n.names[name].isDir() {
			entry.Type = fs.ModeDir
		}
		entries = append(entries, entry)
	}
	return entries
}

func (f *file) Close() sys.Errno {
	if !f.closed {
		f.closed = true
		f.node.opened--
		f.node.fs.opened--
		f.node.drop()
	}
	return 0
}
