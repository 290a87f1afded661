package wasm_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
)

// A module that stands for Python where a test is about what surrounds it:
// it says what its data hold, whatever its job is.
const (
	sayHello  = `{"method":"hello","params":{"protocol":1,"python":"3.13.0"}}`
	sayResult = `{"id":1,"method":"result","params":{"value":null}}`

	helloAt, resultAt, frameAt = 64, 1024, 4096
	pages                      = 3
)

// The imported functions, by their number.
const (
	callSend = iota
	callWait
	callTake
)

func section(id byte, items ...[]byte) []byte {
	body := leb(len(items))
	for _, item := range items {
		body = append(body, item...)
	}
	return append(append([]byte{id}, leb(len(body))...), body...)
}

func leb(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

func text(s string) []byte { return append(leb(len(s)), s...) }

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// constant is i32.const; the numbers are not negative.
func constant(n int) []byte {
	out := []byte{0x41}
	for {
		b := byte(n & 0x7f)
		if n >>= 7; n == 0 && b&0x40 == 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func call(f int) []byte { return append([]byte{0x10}, leb(f)...) }

var drop = []byte{0x1a}

// send says what lies at an address, receive takes a frame.
func send(at, size int) []byte { return join(constant(at), constant(size), call(callSend), drop) }

func receive() []byte {
	return join([]byte{0x42, 0x7f}, call(callWait), drop, constant(frameAt), constant(2*65536), call(callTake), drop)
}

// converse is a whole conversation, up to where the guest would end.
func converse() []byte {
	return join(send(helloAt, len(sayHello)), receive(), send(resultAt, len(sayResult)), receive())
}

// module assembles one whose airlock_run is this.
func module(run []byte) []byte {
	imported := func(name string, kind byte) []byte { return join(text("airlock"), text(name), []byte{0, kind}) }
	function := func(body []byte) []byte {
		body = join([]byte{0}, body, []byte{0x0b})
		return append(leb(len(body)), body...)
	}
	export := func(name string, kind byte, n int) []byte { return join(text(name), []byte{kind}, leb(n)) }
	data := func(at int, s string) []byte { return join([]byte{0}, constant(at), []byte{0x0b}, text(s)) }
	return join([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{0x60, 0, 0}, []byte{0x60, 0, 1, 0x7f}, []byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f}, []byte{0x60, 1, 0x7e, 1, 0x7f}),
		section(2, imported("send", 2), imported("wait", 3), imported("take", 2)),
		section(3, []byte{0}, []byte{1}, []byte{1}),
		section(5, join([]byte{0}, leb(pages))),
		section(6, join([]byte{0x7f, 1}, constant(32), []byte{0x0b})),
		section(7, export("_initialize", 0, 3), export("airlock_init", 0, 4), export("airlock_run", 0, 5),
			export("memory", 2, 0), export("__stack_pointer", 3, 0)),
		section(10, function(nil), function(constant(0)), function(run)),
		section(11, data(helloAt, sayHello), data(resultAt, sayResult)),
	)
}

// installed writes an interpreter's directory around a module.
func installed(t *testing.T, program []byte) string {
	t.Helper()
	dir := tempDir(t)
	files := map[string][]byte{"python.wasm": program, "stdlib.zip": []byte("PK")}
	sums := map[string]string{}
	for name, data := range files {
		sum := sha256.Sum256(data)
		sums[name] = hex.EncodeToString(sum[:])
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := json.Marshal(map[string]any{"python": "3.13.0", "files": sums})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), doc, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
