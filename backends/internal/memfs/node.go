package memfs

import (
	"io/fs"
	"time"

	"github.com/tetratelabs/wazero/experimental/sys"
	wsys "github.com/tetratelabs/wazero/sys"
)

// blockSize is what a file grows by.
const blockSize = 4096

type block = [blockSize]byte

// node is a file or directory.
type node struct {
	fs  *FS
	ino wsys.Inode
	// names are a directory's; nil for a file.
	names map[string]*node
	// size is a file's. Its bytes are in blocks, or, in a file that was put
	// there from outside, in data.
	size   int64
	blocks map[int64]*block
	data   []byte
	perm   fs.FileMode
	// opened counts descriptors, linked says that a name leads here.
	opened      int
	linked      bool
	atime, time int64
}

func (n *node) isDir() bool { return n.names != nil }

func (n *node) touch() { n.time = time.Now().UnixNano() }

func (n *node) stat() wsys.Stat_t {
	s := wsys.Stat_t{
		Dev: n.fs.device, Ino: n.ino, Mode: n.perm, Nlink: 1, Size: n.size,
		Atim: max(n.atime, n.time), Mtim: n.time, Ctim: n.time,
	}
	if n.isDir() {
		s.Mode |= fs.ModeDir
		s.Size = int64(len(n.names))
	}
	if !n.linked {
		s.Nlink = 0
	}
	return s
}

// readAt copies what there is at the offset.
func (n *node) readAt(buf []byte, at int64) int {
	if at >= n.size {
		return 0
	}
	buf = buf[:min(int64(len(buf)), n.size-at)]
	if n.data != nil {
		return copy(buf, n.data[at:])
	}
	for done := 0; done < len(buf); {
		pos := at + int64(done)
		piece := buf[done:min(len(buf), done+int(blockSize-pos%blockSize))]
		if b := n.blocks[pos/blockSize]; b != nil {
			copy(piece, b[pos%blockSize:])
		} else {
			clear(piece)
		}
		done += len(piece)
	}
	return len(buf)
}

// writeAt writes until the quota is reached, and fails only if nothing could
// be written.
func (n *node) writeAt(buf []byte, at int64) (int, sys.Errno) {
	if at > maxSize-int64(len(buf)) {
		return 0, sys.EINVAL
	}
	done := 0
	for done < len(buf) {
		pos := at + int64(done)
		b := n.blocks[pos/blockSize]
		if b == nil {
			if !n.fs.takeBlock() {
				break
			}
			b = new(block)
			n.blocks[pos/blockSize] = b
		}
		done += copy(b[pos%blockSize:], buf[done:])
	}
	if done > 0 {
		n.size = max(n.size, at+int64(done))
		n.touch()
	}
	if done == 0 && len(buf) > 0 {
		return 0, sys.EIO
	}
	return done, 0
}

// maxSize bounds a file with holes.
const maxSize = 1 << 40

func (n *node) truncate(size int64) sys.Errno {
	if size < 0 || size > maxSize {
		return sys.EINVAL
	}
	if size < n.size {
		n.cut(size)
	}
	n.size = size
	n.touch()
	return 0
}

// cut frees the blocks behind size and clears what is left of the last one.
func (n *node) cut(size int64) {
	for at := range n.blocks {
		if at*blockSize >= size {
			delete(n.blocks, at)
			n.fs.count(-1, 0)
		}
	}
	if b := n.blocks[size/blockSize]; b != nil {
		clear(b[size%blockSize:])
	}
}

// drop frees a file that neither a name nor a descriptor leads to.
func (n *node) drop() {
	if n.linked || n.opened > 0 {
		return
	}
	n.fs.count(-int64(len(n.blocks)), -1)
	n.blocks = nil
}
