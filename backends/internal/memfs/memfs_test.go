package memfs_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"airlock/backends/internal/memfs"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero/experimental/sys"
)

const mib = 1 << 20

func open(t *testing.T, f *memfs.FS, name string, flag sys.Oflag) sys.File {
	t.Helper()
	file, errno := f.OpenFile(name, flag, 0o600)
	if errno != 0 {
		t.Fatalf("open %s: %v", name, errno)
	}
	return file
}

func write(t *testing.T, f *memfs.FS, name, content string) {
	t.Helper()
	file := open(t, f, name, sys.O_CREAT|sys.O_TRUNC|sys.O_WRONLY)
	defer file.Close()
	if n, errno := file.Write([]byte(content)); n != len(content) || errno != 0 {
		t.Fatalf("write %s: got %d bytes and %v, want %d", name, n, errno, len(content))
	}
}

func read(t *testing.T, f *memfs.FS, name string) string {
	t.Helper()
	file := open(t, f, name, sys.O_RDONLY)
	defer file.Close()
	var all bytes.Buffer
	buf := make([]byte, 1000)
	for {
		n, errno := file.Read(buf)
		if errno != 0 {
			t.Fatalf("read %s: %v", name, errno)
		}
		if n == 0 {
			return all.String()
		}
		all.Write(buf[:n])
	}
}

func list(t *testing.T, f *memfs.FS, name string) []string {
	t.Helper()
	dir := open(t, f, name, sys.O_RDONLY|sys.O_DIRECTORY)
	defer dir.Close()
	entries, errno := dir.Readdir(-1)
	if errno != 0 {
		t.Fatalf("list %s: %v", name, errno)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// TestContent writes across blocks, into holes and behind the end.
func TestContent(t *testing.T) {
	t.Parallel()
	f := memfs.New(1, mib, 10, nil)
	long := strings.Repeat("0123456789", 1000)
	write(t, f, "long", long)
	if got := read(t, f, "long"); got != long {
		t.Errorf("got %d bytes that differ, want the %d written", len(got), len(long))
	}
	file := open(t, f, "long", sys.O_RDWR)
	defer file.Close()
	for _, step := range []struct {
		name string
		do   func() sys.Errno
		want string
	}{
		{"overwrite across a block's end", func() sys.Errno { _, e := file.Pwrite([]byte("xyz"), 4095); return e }, long[:4095] + "xyz" + long[4098:]},
		{"cut", func() sys.Errno { return file.Truncate(5) }, "01234"},
		{"stretch", func() sys.Errno { return file.Truncate(8) }, "01234\x00\x00\x00"},
		{"leave a hole", func() sys.Errno { _, e := file.Pwrite([]byte("end"), 5000); return e }, "01234" + strings.Repeat("\x00", 4995) + "end"},
		{"append", func() sys.Errno {
			if errno := file.SetAppend(true); errno != 0 {
				return errno
			}
			_, e := file.Write([]byte("!"))
			return e
		}, "01234" + strings.Repeat("\x00", 4995) + "end!"},
	} {
		if errno := step.do(); errno != 0 {
			t.Fatalf("%s: %v", step.name, errno)
		}
		if diff := cmp.Diff(step.want, read(t, f, "long")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestNames: what the calls on names do, and what they refuse.
func TestNames(t *testing.T) {
	t.Parallel()
	f := memfs.New(1, mib, 20, nil)
	write(t, f, "a", "A")
	write(t, f, "b", "B")
	for _, dir := range []string{"d", "d/e", "empty"} {
		if errno := f.Mkdir(dir, 0o700); errno != 0 {
			t.Fatalf("make %s: %v", dir, errno)
		}
	}
	opened := func(name string, flag sys.Oflag) sys.Errno { _, errno := f.OpenFile(name, flag, 0o600); return errno }
	for _, tt := range []struct {
		name      string
		got, want sys.Errno
	}{
		{"open what is not there", opened("none", sys.O_RDONLY), sys.ENOENT},
		{"open below a file", opened("a/x", sys.O_CREAT|sys.O_WRONLY), sys.ENOTDIR},
		{"make what is there", opened("a", sys.O_CREAT|sys.O_EXCL|sys.O_WRONLY), sys.EEXIST},
		{"write a directory", opened("d", sys.O_WRONLY), sys.EISDIR},
		{"open a file as directory", opened("a", sys.O_DIRECTORY), sys.ENOTDIR},
		{"a name that is too long", opened(strings.Repeat("x", 256), sys.O_CREAT|sys.O_WRONLY), sys.ENAMETOOLONG},
		{"make a directory twice", f.Mkdir("d", 0o700), sys.EEXIST},
		{"make one below none", f.Mkdir("none/x", 0o700), sys.ENOENT},
		{"remove one that is not empty", f.Rmdir("d"), sys.ENOTEMPTY},
		{"remove a file as directory", f.Rmdir("a"), sys.ENOTDIR},
		{"remove a directory as file", f.Unlink("d"), sys.EISDIR},
		{"remove the root", f.Rmdir("."), sys.EINVAL},
		{"move a directory into itself", f.Rename("d", "d/e/f"), sys.EINVAL},
		{"move a directory over a file", f.Rename("d", "a"), sys.ENOTDIR},
		{"move a file over a directory", f.Rename("a", "d"), sys.EISDIR},
		{"move over a directory that is not empty", f.Rename("empty", "d"), sys.ENOTEMPTY},
		{"move what is not there", f.Rename("none", "x"), sys.ENOENT},
		{"move to itself", f.Rename("a", "a"), 0},
		{"move over an empty directory", f.Rename("d", "empty"), 0},
		{"move over a file", f.Rename("a", "b"), 0},
		{"make a link", f.Symlink("/etc/hostname", "l"), sys.ENOSYS},
		{"make another name", f.Link("b", "l"), sys.ENOSYS},
		{"climb out and come back", opened("../../empty/../b", sys.O_RDONLY), 0},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if diff := cmp.Diff([]string{"b", "empty"}, list(t, f, ".")); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := read(t, f, "b"); got != "A" {
		t.Errorf("got %q in b, want what was moved there", got)
	}
}

// TestQuota: bytes and files are bounded, and come back when they are free.
func TestQuota(t *testing.T) {
	t.Parallel()
	full := false
	f := memfs.New(1, 4*4096, 3, func(now bool) { full = now })
	write(t, f, "a", strings.Repeat("x", 3*4096))
	file := open(t, f, "b", sys.O_CREAT|sys.O_RDWR)
	if n, errno := file.Write(make([]byte, 3*4096)); n != 4096 || errno != 0 || !full {
		t.Errorf("got %d bytes, %v, full %v, want the last block of the quota", n, errno, full)
	}
	if n, errno := file.Write([]byte("x")); n != 0 || errno != sys.EIO {
		t.Errorf("got %d bytes, %v, want EIO over the quota", n, errno)
	}
	if errno := f.Unlink("b"); errno != 0 {
		t.Fatal(errno)
	}
	if !full {
		t.Error("got room while a removed file is open, want none")
	}
	if got, errno := file.Pread(make([]byte, 1), 4095); got != 1 || errno != 0 {
		t.Errorf("got %d bytes and %v of a removed file that is open, want 1", got, errno)
	}
	file.Close()
	if full {
		t.Error("got no room after the last descriptor was closed, want some")
	}
	write(t, f, "b", strings.Repeat("x", 4096))
	if errno := f.Mkdir("c", 0o700); errno != 0 {
		t.Errorf("the third name: got %v, want it made", errno)
	}
	if errno := f.Mkdir("d", 0o700); errno != sys.EIO {
		t.Errorf("the fourth name: got %v, want EIO", errno)
	}
	if errno := errorOf(f.OpenFile("huge", sys.O_CREAT|sys.O_RDWR, 0o600)); errno != sys.EIO {
		t.Errorf("the fourth file: got %v, want EIO", errno)
	}
}

func errorOf(_ sys.File, errno sys.Errno) sys.Errno { return errno }

// TestSparse: a hole is free, and its end bounded.
func TestSparse(t *testing.T) {
	t.Parallel()
	f := memfs.New(1, 2*4096, 3, nil)
	file := open(t, f, "a", sys.O_CREAT|sys.O_RDWR)
	defer file.Close()
	if errno := file.Truncate(1 << 39); errno != 0 || f.Full() {
		t.Errorf("got %v, full %v, want a free hole", errno, f.Full())
	}
	if errno := file.Truncate(1 << 62); errno != sys.EINVAL {
		t.Errorf("got %v for a hole without measure, want EINVAL", errno)
	}
	if _, errno := file.Pwrite([]byte("x"), 1<<62); errno != sys.EINVAL {
		t.Errorf("got %v for a byte beyond measure, want EINVAL", errno)
	}
	if at, errno := file.Seek(-1, io.SeekEnd); at != 1<<39-1 || errno != 0 {
		t.Errorf("got %d, %v, want the last byte", at, errno)
	}
	if _, errno := file.Seek(-1, io.SeekStart); errno != sys.EINVAL {
		t.Errorf("got %v for a negative place, want EINVAL", errno)
	}
}

// TestReadOnly: what was put there can be read, and nothing else be done.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	f := memfs.NewReadOnly(1)
	if err := f.Put("d/a", []byte("A")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", "../x", "/x", "d/a/b"} {
		if err := f.Put(name, nil); err == nil {
			t.Errorf("put %q: got no error, want one", name)
		}
	}
	if got := read(t, f, "d/a"); got != "A" {
		t.Errorf("got %q, want A", got)
	}
	for name, errno := range map[string]sys.Errno{
		"write":    errorOf(f.OpenFile("d/a", sys.O_WRONLY, 0)),
		"truncate": errorOf(f.OpenFile("d/a", sys.O_TRUNC, 0)),
		"make":     errorOf(f.OpenFile("b", sys.O_CREAT|sys.O_WRONLY, 0)),
		"mkdir":    f.Mkdir("b", 0o700),
		"unlink":   f.Unlink("d/a"),
		"rmdir":    f.Rmdir("d"),
		"rename":   f.Rename("d/a", "b"),
		"chmod":    f.Chmod("d/a", 0o777),
		"utimens":  f.Utimens("d/a", 1, 1),
	} {
		if errno != sys.EROFS {
			t.Errorf("%s: got %v, want EROFS", name, errno)
		}
	}
	if errno := open(t, f, "d/a", sys.O_RDONLY).Truncate(0); errno == 0 {
		t.Error("got a file cut through a descriptor for reading, want an error")
	}
}

// TestReaddir reads a directory in parts, and again from its beginning.
func TestReaddir(t *testing.T) {
	t.Parallel()
	f := memfs.New(1, mib, 10, nil)
	for _, name := range []string{"c", "a", "b"} {
		write(t, f, name, "")
	}
	dir := open(t, f, ".", sys.O_RDONLY)
	defer dir.Close()
	var got []string
	for range 2 {
		for {
			entries, errno := dir.Readdir(2)
			if errno != 0 || len(entries) == 0 {
				break
			}
			for _, e := range entries {
				got = append(got, e.Name)
			}
		}
		if _, errno := dir.Seek(0, io.SeekStart); errno != 0 {
			t.Fatal(errno)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "a", "b", "c"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
