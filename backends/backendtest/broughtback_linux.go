package backendtest

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"airlock/backends"
	"airlock/job"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// broughtBack are about the files that a job collects. How the guest's
// runtime tells of them is no wall, since the guest shares an interpreter with
// it: the wall is what the host takes, by the broker's own rules.
func broughtBack() []story {
	everything := []string{"**"}
	say := func(frames string) string {
		return helped(`
import base64, json
def say(**params):
    body = json.dumps({"method": "artifact", "params": params}).encode()
    if "_airlock" in sys.modules: # keeps the channel, where it is no descriptor
        return sys.modules["_airlock"].send(body)
    left = memoryview(len(body).to_bytes(4, "big") + body)
    while left: left = left[os.write(3, left):]
` + frames + "\ntime.sleep(1000)")
	}
	liar := all(ended(backends.Killed), noResult, breached, brought(nil))
	return []story{
		{
			name: "files: what the globs cover comes back", collect: []string{"out/**/*.txt", "log"},
			code: helped(`
os.makedirs("out/deep")
open("out/a.txt", "wb").write(bytes(range(256)) * 4096)
open("out/deep/ü ☕.txt", "w").write("x")
open("out/a.bin", "w").write("not this")
left = open("log", "w")
left.write("never closed")`),
			check: all(exited(0), brought(map[string]string{
				"out/a.txt": strings.Repeat(everyByte(), 4096), "out/deep/ü ☕.txt": "x", "log": "never closed",
			})),
		},
		{
			name: "files: an exception is an end too", collect: everything,
			code: "open('a', 'w').write('x')\n1/0", check: all(raised("ZeroDivisionError"), brought(map[string]string{"a": "x"})),
		},
		{
			name: "files: links are named and not followed", rows: "OF1 OF2 OF4", hostile: true, collect: everything,
			code: helped(`
open("one", "w").write("x")
made = 0
for link, to, name in (
    (os.symlink, "/etc/passwd", "absolute"), (os.symlink, "../" * 20 + "etc/passwd", "climbing"), (os.symlink, "/proc/self/environ", "environment"),
    (os.symlink, "/dev/zero", "endless"), (os.symlink, "/etc", "folder"), (os.symlink, ".", "loop"), (os.symlink, "nowhere", "dangling"), (os.link, "one", "two"),
):
    try: link(to, name)
    except OSError: continue
    made += 1
return made`),
			check: all(exited(0), linked(map[string]string{
				"absolute": refused + "link", "climbing": refused + "link", "environment": refused + "link", "endless": refused + "link",
				"folder": refused + "link", "loop": refused + "link", "dangling": refused + "link",
				"one": refused + "hard_link", "two": refused + "hard_link",
			})),
		},
		{
			name: "files: pipes and sockets are not opened", rows: "OF5", hostile: true, collect: everything,
			code: helped(`
import socket
for make in (lambda: os.mkfifo("pipe"), lambda: socket.socket(socket.AF_UNIX).bind("socket")):
    try: make()
    except (PermissionError, AttributeError): pass
open("z", "w").write("after them")
return sorted(os.listdir())`),
			check: all(exited(0), notOpened),
		},
		{
			name: "files: one that grows all the while", rows: "OF7", hostile: true, collect: everything,
			code: helped(`
mark()
f = open("grows", "wb", 0)
f.write(b"x" * 3_000_000)
if os.fork() == 0:
    while True:
        f.write(b"x")
        time.sleep(0)
return 1`),
			check: all(exited(0), value("1"), grown),
		},
		{
			name: "files: terabytes of nothing are not read", rows: "OF7 RX16", hostile: true, collect: everything,
			code: helped(`
for size in (32 << 20, 1 << 40):
    try:
        with open("sparse", "wb") as f: f.truncate(size)
    except OSError: os.truncate("sparse", 32 << 20)
open("z", "w").write("after it")`),
			check: all(exited(0), brought(map[string]string{"sparse": refused + "too_large", "z": "after it"})),
		},
		{
			name: "files: names that are none are only shown", rows: "OF8", hostile: true, collect: everything,
			code: helped(`
unmade = 0
try: os.mkdir(b"bad\xff")
except OSError: unmade += 1
for name in (b"a\nb", b"esc\x1b[2J", "\u202egpj".encode(), b"low\xff", b"back\\slash", b"bad\xff/in", b"-rf", b"CON", b"n" * 255):
    try: open(name, "w").close()
    except OSError: unmade += 1
return unmade`),
			check: all(exited(0), asText(map[string]string{
				"-rf": "", "CON": "", strings.Repeat("n", 255): "",
				`a\x0ab`: refused + "name", `esc\x1b[2J`: refused + "name", `\u202egpj`: refused + "name", `low\udcff`: refused + "name",
				`back\x5cslash`: refused + "name", `bad\udcff`: refused + "name",
			})),
		},
		{
			name: "files: only the content comes back", rows: "OF10", hostile: true, collect: []string{"set*", "shut"},
			code: helped(`
open("setuid", "w").write("x")
os.chmod("setuid", 0o6777)
os.utime("setuid", (1, 1))
open("shut", "w").write("x")
os.chmod("shut", 0)`),
			check: all(exited(0), shutOrRead),
		},
		{
			name: "files: a pickle is bytes", rows: "OF12", hostile: true, collect: everything,
			code: helped(`
import pickle
class Trap:
    def __reduce__(self): return os.mkdir, (TRAP,)
open("trap.pkl", "wb").write(pickle.dumps(Trap(), 0))
return pickle.dumps(Trap(), 0).decode()`),
			arrange: trap, check: all(exited(0), onlyFile("trap.pkl")),
		},
		{
			name: "files: a guest that names a path which climbs", rows: "OF14 SP2", hostile: true, collect: everything,
			code: say(`say(path="../../etc/cron.d/x", base64="eA==")`), check: liar,
		},
		{
			name: "files: a guest that names what no glob covers", rows: "OF14 SP2", hostile: true, collect: []string{"out/*"},
			code: say(`say(path="main.py", base64="eA==")`), check: liar,
		},
		{
			name: "files: a guest that sends more than it may", rows: "OF14 SP2", hostile: true, collect: everything,
			code: say(`
piece = base64.b64encode(bytes(1 << 20)).decode()
for _ in range(17): say(path="big", base64=piece, more=True)`), check: liar,
		},
	}
}

func everyByte() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

// refused marks what a file was refused for, where brought wants contents.
const refused = "refused: "

// brought wants these files to have come back, by path: with their content, or
// refused.
func brought(want map[string]string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		got := map[string]string{}
		for _, a := range g.host.files {
			if got[a.Path] = string(a.Content); a.Reason != "" {
				got[a.Path] = refused + string(a.Reason)
			}
		}
		if len(got) != len(g.host.files) {
			t.Errorf("got files %v, which name one twice", g.host.files)
		}
		if !maps.Equal(got, want) {
			t.Errorf("files (-want +got):\n%.4000s", cmp.Diff(want, got))
		}
	}
}

// notOpened wants the pipe and the socket to have been passed by, where the
// system-call filter let the guest make them: without a wall it does.
func notOpened(t *testing.T, g *seen) {
	t.Helper()
	want, made := map[string]string{"z": "after them"}, returned(t, g)
	for _, name := range []string{"pipe", "socket"} {
		if bytes.Contains(made, []byte(`"`+name+`"`)) {
			want[name] = refused + "not_regular"
		}
	}
	if len(want) == 1 && bytes.Contains(g.host.job.Vars, []byte(`"CONTROL":true`)) {
		t.Error("no pipe was made where there is no wall: this check proves nothing")
	}
	brought(want)(t, g)
}

// grown wants a file that was read no further than it was when it was opened,
// or given up.
func grown(t *testing.T, g *seen) {
	t.Helper()
	if len(g.host.files) != 1 || g.host.files[0].Path != "grows" {
		t.Errorf("got files %v, want the one that grows", g.host.files)
		return
	}
	switch a := g.host.files[0]; {
	case a.Reason == job.ReasonChanged || a.Reason == job.ReasonTooLarge:
	case a.Reason != "", len(a.Content) < 3_000_000, len(bytes.Trim(a.Content, "x")) > 0:
		t.Errorf("got %d bytes and reason %q, want the file or that it changed", len(a.Content), a.Reason)
	}
}

// shutOrRead allows for a guest that is root, where there is no wall.
func shutOrRead(t *testing.T, g *seen) {
	t.Helper()
	shut := refused + "unreadable"
	for _, a := range g.host.files {
		if a.Path == "shut" && a.Reason == "" {
			shut = "x"
		}
	}
	brought(map[string]string{"setuid": "x", "shut": shut})(t, g)
}

// onlyFile wants the file alone, with the text that the guest returned.
func onlyFile(path string) check {
	return func(t *testing.T, g *seen) {
		t.Helper()
		var text string
		if err := json.Unmarshal(returned(t, g), &text); err != nil || text == "" {
			t.Errorf("got value %q and error %v, want what is in the file", text, err)
		}
		brought(map[string]string{path: text})(t, g)
	}
}

// trap names a directory of the host that only a pickle's loading would make.
func trap(s *stage) {
	dir := filepath.Join(publicDir(s), "sprung")
	s.vars["TRAP"] = dir
	s.after = append(s.after, func() {
		if _, err := os.Stat(dir); err == nil {
			s.Error("the pickle was loaded on the host")
		}
	})
}

// canaryOutput opens a canary that must be in no file of a walled guest, and
// must be in one where there is no wall.
func canaryOutput(s *stage) {
	canaryFile(s)
	s.after = append(s.after, func() {
		stolen := false
		for _, a := range s.host.files {
			stolen = stolen || bytes.Contains(a.Content, []byte("chirp"))
			byName := strings.HasPrefix(a.Path, "out/by ")
			if !byName && a.Reason != job.ReasonLink && a.Reason != job.ReasonHardLink {
				s.Errorf("%s came back with reason %q, want it refused as a link", a.Path, a.Reason)
			}
		}
		if stolen == s.suite.walled() {
			s.Errorf("got the host's canary in a file that came back: %v, of a guest behind a wall: %v", stolen, s.suite.walled())
		}
	})
}
