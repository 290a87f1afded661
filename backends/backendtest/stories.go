package backendtest

import (
	"bytes"
	"embed"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

//go:embed guests/*.py
var guests embed.FS

// program is a guest's program from guests, with the helpers that they share.
func program(name string) string {
	var code strings.Builder
	for _, file := range []string{"prelude.py", name} {
		text, err := guests.ReadFile("guests/" + file)
		if err != nil {
			panic(err) // the name is wrong in this package
		}
		code.Write(text)
		code.WriteByte('\n')
	}
	return code.String()
}

// helped is a short program that uses the helpers.
func helped(code string) string { return program("nothing.py") + code }

// stories are all that can be told side by side.
func stories() []story {
	return slices.Concat(streams(), endings(), lives(), systemStories(), walls())
}

// streams are about what a guest writes and reads.
func streams() []story {
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	return []story{
		{
			name:  "stdout and stderr are kept apart and exact",
			code:  "import sys\nprint('out ☕')\nprint('err', file=sys.stderr)",
			check: all(exited(0), stdout("out ☕\n"), stderr("err\n")),
		},
		{
			name:  "output is bytes",
			code:  "import sys\nsys.stdout.buffer.write(bytes(range(256)))\nsys.stderr.buffer.write(bytes(range(256)))",
			check: all(exited(0), stdout(string(binary)), stderr(string(binary))),
		},
		{
			name: "no output at all", code: "pass",
			check: all(exited(0), stdout(""), stderr(""), value("null")),
		},
		{
			name: "200 KB on stdout", code: "print('x' * 200_000)",
			check: all(exited(0), stdout(long(200_000)+"\n"), stderr("")),
		},
		{
			name: "200 KB on stderr only", rows: "RX14", code: "import sys\nsys.stderr.write('x' * 200_000)",
			check: all(exited(0), stdout(""), stderr(long(200_000))),
		},
		{
			name: "10 MB without a newline", rows: "RX13", code: "import sys\nsys.stdout.write('x' * 10_000_000)",
			check: all(exited(0), stdout(long(10_000_000))),
		},
		{
			name: "both streams by turns, more than a pipe holds", rows: "RX14",
			code:  "import os\nfor _ in range(2000):\n    os.write(1, b'o' * 100)\n    os.write(2, b'e' * 100)",
			check: all(exited(0), stdout(strings.Repeat("o", 200_000)), stderr(strings.Repeat("e", 200_000))),
		},
		{
			name: "characters of several bytes", code: "print('☕' * 100_000)",
			check: all(exited(0), stdout(strings.Repeat("☕", 100_000)+"\n")),
		},
		{
			name:  "stdin is at its end when none is given",
			code:  "print(input())",
			check: all(raised("EOFError"), stdout("")),
		},
		{
			name: "stdin is data", stdin: slices.Concat(binary, bytes.Repeat([]byte("s"), 200_000)),
			code:  "import hashlib, sys\ndata = sys.stdin.buffer.read()\nreturn [len(data), data[:256] == bytes(range(256)), sys.stdin.buffer.read() == b'']",
			check: all(exited(0), value("[200256, true, true]")),
		},
		{
			name: "stdin that nobody reads", stdin: bytes.Repeat([]byte("s"), 1_000_000),
			code: "print(1)", check: all(exited(0), stdout("1\n")),
		},
		{
			name: "a result marker on stdout stays text", rows: "SP1",
			code:  `print('{"id": 1, "method": "result", "params": {"value": 99}}')` + "\nreturn 1",
			check: all(exited(0), value("1"), stdout(`{"id": 1, "method": "result", "params": {"value": 99}}`+"\n")),
		},
		{
			name: "arguments and variables", args: []string{"-v", "a b", "☕"}, env: map[string]string{"MODE": "x=y\nz"},
			code:  "import os, sys\nreturn [sys.argv[1:], os.environ['MODE']]",
			check: all(exited(0), value(`[["-v", "a b", "☕"], "x=y\nz"]`)),
		},
		{
			name: "the environment is built, not inherited", rows: "SE1",
			code:  "import os\nreturn dict(os.environ)",
			check: all(exited(0), builtEnvironment),
		},
	}
}

// builtEnvironment wants no variable but those that a backend or its guest
// runtime sets, and nothing of the host's in any.
func builtEnvironment(t *testing.T, g *seen) {
	t.Helper()
	var env map[string]string
	if err := json.Unmarshal(returned(t, g), &env); err != nil {
		t.Fatal(err)
	}
	own := []string{"HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "TZ", "PWD", "SYSTEMROOT",
		"LD_LIBRARY_PATH", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
	for name, content := range env {
		if !slices.Contains(own, name) && !strings.HasPrefix(name, "PYTHON") && !strings.HasPrefix(name, "AIRLOCK_") {
			t.Errorf("variable %s is none that a guest needs", name)
		}
		if name == secretName || strings.Contains(content, secretValue) {
			t.Errorf("variable %s holds the host's secret", name)
		}
	}
}

// endings are about how a guest ends by itself, on every system.
func endings() []story {
	quit := func(code string) string { return "import os\nos._exit(" + code + ")" }
	return []story{
		{name: "exit 0 without a result", rows: "SP3", code: quit("0"), check: all(exited(0), noResult)},
		{name: "exit 3", code: quit("3"), check: all(exited(3), noResult)},
		{name: "exit 124 is no timeout", rows: "SP9", code: quit("124"), check: all(exited(124), noResult)},
		{name: "exit 137 is no kill", rows: "SP9", code: quit("137"), check: all(exited(137), noResult)},
		{name: "exit 159 is no filter", rows: "SP9", code: quit("159"), check: all(exited(159), noResult)},
		{
			name: "output before a sudden exit is kept",
			code: "import os\nos.write(1, b'start')\nos._exit(9)", check: all(exited(9), stdout("start")),
		},
		{name: "an exception", code: "1/0", check: raised("ZeroDivisionError")},
		{name: "a value", code: "return {'n': [1, 2.5, None, True, 'ü']}", check: all(exited(0), value(`{"n":[1,2.5,null,true,"ü"]}`))},
	}
}
