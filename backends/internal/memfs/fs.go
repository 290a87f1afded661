package memfs

import (
	"io/fs"
	"path"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
	wsys "github.com/tetratelabs/wazero/sys"
)

// FS is one file system.
type FS struct {
	sys.UnimplementedFS
	root   *node
	device uint64
	last   wsys.Inode
	// frozen refuses every change.
	frozen bool
	// blocks and files are used, of at most maxBlocks and maxFiles.
	blocks, maxBlocks int64
	files, maxFiles   int64
	// opened counts descriptors.
	opened int
	// full is told whenever Full has changed; it may be nil.
	full func(bool)
}

// New makes an empty file system that holds so many bytes and files. Each one
// of a module has another device number. full, if not nil, is told whenever
// Full has changed.
func New(device uint64, bytes, files int64, full func(bool)) *FS {
	f := &FS{device: device, maxBlocks: max(bytes/blockSize, 1), maxFiles: files, full: full}
	f.root = f.newNode(true, 0o700)
	f.root.linked = true
	return f
}

// NewReadOnly makes a file system that only Put can add to.
func NewReadOnly(device uint64) *FS {
	f := New(device, 0, 0, nil)
	f.frozen, f.root.perm = true, 0o555
	return f
}

// Full reports whether the file system has no block or no file left.
func (f *FS) Full() bool { return f.blocks >= f.maxBlocks || f.files >= f.maxFiles }

// Put adds a file with these bytes, which must not change, and the directories
// above it, to a read-only file system.
func (f *FS) Put(name string, data []byte) error {
	if !fs.ValidPath(name) || name == "." {
		return ErrName
	}
	above, base := path.Split(name)
	dir, err := f.putDir(path.Clean(above))
	if err != nil {
		return err
	}
	n := f.newNode(false, 0o444)
	n.linked, n.data, n.size = true, data, int64(len(data))
	dir.names[base] = n
	return nil
}

// PutDir adds an empty directory, and those above it.
func (f *FS) PutDir(name string) error {
	if !fs.ValidPath(name) {
		return ErrName
	}
	_, err := f.putDir(name)
	return err
}

func (f *FS) putDir(name string) (*node, error) {
	dir := f.root
	for part := range strings.SplitSeq(name, "/") {
		if part == "." {
			continue
		}
		next := dir.names[part]
		if next == nil {
			next = f.newNode(true, 0o555)
			next.linked = true
			dir.names[part] = next
		}
		if dir = next; !dir.isDir() {
			return nil, ErrName
		}
	}
	return dir, nil
}

func (f *FS) newNode(dir bool, perm fs.FileMode) *node {
	f.last++
	n := &node{fs: f, ino: f.last, perm: perm & fs.ModePerm}
	if dir {
		n.names = map[string]*node{}
	} else {
		n.blocks = map[int64]*block{}
	}
	n.touch()
	return n
}

func (f *FS) takeBlock() bool {
	if f.blocks >= f.maxBlocks {
		return false
	}
	f.count(1, 0)
	return true
}

// count counts blocks and files that are taken or given back.
func (f *FS) count(blocks, files int64) {
	was := f.Full()
	f.blocks += blocks
	f.files += files
	if now := f.Full(); now != was && f.full != nil {
		f.full(now)
	}
}

// maxOpened is how many descriptors there may be. One that is refused may have
// made its file, as when the file system is full.
const maxOpened = 1024

// maxName is what one name may be long, as on other file systems.
const maxName = 255

// find is the node at a path. A path cannot lead out: what it says of parents
// is resolved before.
func (f *FS) find(name string) (*node, sys.Errno) {
	n := f.root
	for part := range strings.SplitSeq(path.Clean("/" + name)[1:], "/") {
		if part == "" {
			continue
		}
		if !n.isDir() {
			return nil, sys.ENOTDIR
		}
		if n = n.names[part]; n == nil {
			return nil, sys.ENOENT
		}
	}
	return n, 0
}

// parent is the directory that has or would have the path's last name.
func (f *FS) parent(name string) (*node, string, sys.Errno) {
	dir, base := path.Split(path.Clean("/" + name))
	if base == "" {
		return nil, "", sys.EINVAL
	}
	if len(base) > maxName {
		return nil, "", sys.ENAMETOOLONG
	}
	n, errno := f.find(dir)
	if errno == 0 && !n.isDir() {
		errno = sys.ENOTDIR
	}
	return n, base, errno
}

// make makes a new node with a name.
func (f *FS) make(name string, dir bool, perm fs.FileMode) (*node, sys.Errno) {
	if f.frozen {
		return nil, sys.EROFS
	}
	parent, base, errno := f.parent(name)
	switch {
	case errno != 0:
		return nil, errno
	case !parent.linked:
		return nil, sys.ENOENT
	case f.files >= f.maxFiles:
		return nil, sys.EIO
	}
	f.count(0, 1)
	n := f.newNode(dir, perm)
	n.linked = true
	parent.names[base] = n
	parent.touch()
	return n, 0
}

// OpenFile implements sys.FS, as do the methods below.
func (f *FS) OpenFile(name string, flag sys.Oflag, perm fs.FileMode) (sys.File, sys.Errno) {
	write := flag&(sys.O_RDWR|sys.O_WRONLY) != 0
	n, errno := f.find(name)
	switch {
	case errno == 0 && flag&sys.O_CREAT != 0 && flag&sys.O_EXCL != 0:
		return nil, sys.EEXIST
	case errno == sys.ENOENT && flag&sys.O_CREAT != 0:
		if n, errno = f.make(name, false, perm); errno != 0 {
			return nil, errno
		}
	case errno != 0:
		return nil, errno
	case f.frozen && (write || flag&sys.O_TRUNC != 0):
		return nil, sys.EROFS
	case n.isDir() && (write || flag&sys.O_TRUNC != 0):
		return nil, sys.EISDIR
	case !n.isDir() && flag&sys.O_DIRECTORY != 0:
		return nil, sys.ENOTDIR
	case flag&sys.O_TRUNC != 0:
		n.truncate(0)
	}
	if f.opened >= maxOpened {
		return nil, sys.EIO
	}
	f.opened++
	n.opened++
	return &file{node: n, write: write, read: flag&sys.O_WRONLY == 0, add: flag&sys.O_APPEND != 0}, 0
}

func (f *FS) Stat(name string) (wsys.Stat_t, sys.Errno) {
	n, errno := f.find(name)
	if errno != 0 {
		return wsys.Stat_t{}, errno
	}
	return n.stat(), 0
}

func (f *FS) Lstat(name string) (wsys.Stat_t, sys.Errno) { return f.Stat(name) }

// Readlink answers for what exists that it is no link.
func (f *FS) Readlink(name string) (string, sys.Errno) {
	if _, errno := f.find(name); errno != 0 {
		return "", errno
	}
	return "", sys.EINVAL
}

func (f *FS) Mkdir(name string, perm fs.FileMode) sys.Errno {
	if _, errno := f.find(name); errno == 0 {
		return sys.EEXIST
	}
	_, errno := f.make(name, true, perm)
	return errno
}

func (f *FS) Chmod(name string, perm fs.FileMode) sys.Errno {
	n, errno := f.find(name)
	switch {
	case errno != 0:
		return errno
	case f.frozen:
		return sys.EROFS
	}
	n.perm = perm & fs.ModePerm
	return 0
}

func (f *FS) Utimens(name string, atime, mtime int64) sys.Errno {
	n, errno := f.find(name)
	if errno != 0 {
		return errno
	}
	return n.utimens(atime, mtime)
}

func (n *node) utimens(atime, mtime int64) sys.Errno {
	if n.fs.frozen {
		return sys.EROFS
	}
	if atime != sys.UTIME_OMIT {
		n.atime = atime
	}
	if mtime != sys.UTIME_OMIT {
		n.time = mtime
	}
	return 0
}
