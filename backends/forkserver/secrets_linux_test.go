package forkserver_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"airlock/backends/forkserver"
	"airlock/backends/internal/frame"

	"github.com/go-json-experiment/json/jsontext"
)

// canary is a secret that is spelled nowhere but where it is put: a test looks
// for its second half behind its first.
type canary struct{ head, tail string }

func newCanary() canary {
	half := func() string {
		b := make([]byte, 12)
		_, _ = rand.Read(b)
		return hex.EncodeToString(b)
	}
	return canary{half(), half()}
}

func (c canary) String() string { return c.head + c.tail }

// overlap is longer than a canary.
const overlap = 100

// scan looks for canaries in all that the process has mapped and can be read,
// and returns how much that was.
func scan(t testing.TB, pid int, names map[string]canary) (found []string, size int64) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err != nil {
			t.Fatalf("read %q: %v", lines.Text(), err)
		}
		if !strings.HasPrefix(mode, "r") {
			continue
		}
		if to-from > 1<<30 {
			continue // the race detector's, of this process
		}
		// A piece begins with the end of the one before, so that nothing is cut.
		piece := make([]byte, 1<<20)
		for at := from; at < to; at += uint64(len(piece) - overlap) {
			n, _ := memory.ReadAt(piece[:min(uint64(len(piece)), to-at)], int64(at)) // special mappings cannot be read
			size += int64(n)
			for name, c := range names {
				if holds(piece[:n], c) {
					found = append(found, name)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), size
}

// holds does not spell what it looks for, in this process's memory either.
func holds(data []byte, c canary) bool {
	for {
		at := bytes.Index(data, []byte(c.head))
		if at < 0 {
			return false
		}
		data = data[at+len(c.head):]
		if bytes.HasPrefix(data, []byte(c.tail)) {
			return true
		}
	}
}

// TestNoSecretInAGuest: nothing that the worker knows, in its memory or
// environment, and nothing of another job is in a guest of the same slot, nor in
// any process that it was forked from.
func TestNoSecretInAGuest(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may read the memory of another user's processes")
	}
	names := map[string]canary{}
	for _, name := range []string{"worker's memory", "worker's environment", "code", "variable", "file", "stdin", "own"} {
		names[name] = newCanary()
	}
	ours := []byte(names["worker's memory"].String())
	t.Setenv("AIRLOCK_TEST_SECRET", names["worker's environment"].String())
	b, _ := open(t, forkserver.Config{})

	first := guest{
		code: "import sys\nsecret = '" + names["code"].String() + "'\nreturn [secret + sys.stdin.read(), variable, open('file').read()]",
		vars: jsontext.Value(`{"variable":"` + names["variable"].String() + `"}`), stdin: names["stdin"].String(),
		files: []frame.File{{Path: "file", Base64: base64.StdEncoding.EncodeToString([]byte(names["file"].String()))}},
	}
	if s := first.run(t, b); !holds([]byte(s.value), names["file"]) || !holds([]byte(s.value), names["stdin"]) {
		t.Fatalf("got %q; %s", s.value, s.fault)
	}
	slots := treeOf(t, b).slots()

	guest{code: "own = '" + names["own"].String() + "'\nprint('up')\nimport time\nwhile True: time.sleep(1)"}.start(t, b)
	tree := treeOf(t, b)
	if now := tree.slots(); !slices.Equal(slots, now) {
		t.Errorf("got slots %v, then %v: this test proves nothing", slots, now)
	}
	for what, pids := range map[string][]int{"launcher": {tree.launcher}, "template": {tree.template}, "slot": slots, "guest": tree.guests()} {
		if len(pids) != 1 {
			t.Errorf("got %d processes %s, want one", len(pids), what)
			continue
		}
		found, size := scan(t, pids[0], names)
		if size < 1<<20 {
			t.Errorf("got %d bytes of the %s's memory: this test proves nothing", size, what)
		}
		if want := map[bool]string{true: "[own]", false: "[]"}[what == "guest"]; fmt.Sprint(found) != want {
			t.Errorf("got the secrets %v in the %s, want %s", found, what, want)
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pids[0]))
		if err != nil || strings.Contains(string(environ), "AIRLOCK") {
			t.Errorf("got the %s's environment %q, error %v", what, environ, err)
		}
	}
	if found, _ := scan(t, os.Getpid(), names); !strings.Contains(fmt.Sprint(found), "worker's memory") {
		t.Errorf("got %v in this process: this test proves nothing", found)
	}
	runtime.KeepAlive(ours)
}

// TestGuestFindsNoSecret: nor does the guest itself find one, among its objects
// and wherever it can read.
func TestGuestFindsNoSecret(t *testing.T) {
	secret, own := newCanary(), newCanary()
	t.Setenv("AIRLOCK_TEST_SECRET", secret.String())
	b, _ := open(t, forkserver.Config{})
	first := guest{code: "kept = '" + secret.String() + "'\nreturn kept"}
	if s := first.run(t, b); !holds([]byte(s.value), secret) {
		t.Fatalf("got %q; %s", s.value, s.fault)
	}
	s := guest{code: `
import gc, os, ctypes, sys
kept = own[0] + own[1]
gc.unfreeze()
found = set()
def look(data, where):
    for name, (head, tail) in (("secret", secret), ("own", own)):
        at = data.find(head.encode())
        while at >= 0:
            if data[at + len(head):].startswith(tail.encode()): found.add(name)
            at = data.find(head.encode(), at + 1)
seen = 0
for o in gc.get_objects():
    for x in [o, *gc.get_referents(o)]:
        seen += 1
        if type(x) is str: look(x.encode("utf-8", "surrogatepass"), "objects")
        elif type(x) is bytes: look(x, "objects")
for k, v in os.environ.items(): look((k + v).encode(), "environ")
r, w = os.pipe(); os.set_blocking(r, False); os.set_blocking(w, False)
libc = ctypes.CDLL(None); libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
size = 0
def readable(page):  # write() says EFAULT where a page is not there
    if libc.write(w, page, 1) != 1: return False
    os.read(r, 1); return True
page = id(kept) & ~4095
for step in (4096, -4096):
    at = page
    while readable(at) and size < 64 << 20:
        look(ctypes.string_at(at, 4096), "memory"); size += 4096; at += step
return [sorted(found), seen > 10000, size > 4096]`, vars: pairs(secret, own)}.run(t, b)
	if s.value != `[["own"],true,true]` {
		t.Errorf("got %s, want only its own; %s", s.value, s.fault)
	}
}

// pairs hands a guest what to look for without spelling it.
func pairs(secret, own canary) jsontext.Value {
	return jsontext.Value(fmt.Sprintf(`{"secret":[%q,%q],"own":[%q,%q]}`, secret.head, secret.tail, own.head, own.tail))
}
