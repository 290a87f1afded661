package backendtest

import (
	"strings"
	"testing"

	"airlock/backends"
)

// liars are about guests that bend what runs them, or their looks.
func liars() []story {
	return []story{
		{
			name: "a guest that calls itself like its worker is known all the same", rows: "PX8", hostile: true,
			code: helped(`
libc.prctl(15, b"worker", 0, 0, 0)
detached(lambda: time.sleep(1000))
mark()
detached(lambda: time.sleep(1000))
os.write(1, b"start")
time.sleep(1000)`),
			arrange: cancelAtFirstOutput, check: all(ended(backends.Killed), stdout("start")),
		},
		{
			name: "patched modules and builtins change nothing beyond the guest", rows: "SP5", hostile: true,
			code: helped(`
import builtins, json
json.dumps = lambda *a, **k: '{"id": 1, "method": "result"}'
json.loads = lambda *a, **k: {"ok": True, "value": 99}
builtins.len = lambda x: 7
builtins.__import__ = None
n = await double(n=4)
return n`),
			arrange: func(s *stage) { s.tools["double"] = double },
			// What became of the value is the guest's own affair.
			check: ended(backends.Exited, backends.Killed),
		},
		{
			name: "trace functions, audit hooks and exit handlers gain nothing", rows: "SP6", hostile: true,
			code: helped(`
import atexit, gc
seen = []
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: None)
sys.addaudithook(lambda name, args: seen.append(name) if len(seen) < 10 else None)
gc.callbacks.append(lambda *a: None)
atexit.register(lambda: os.write(1, b"late"))
class Last:
    def __del__(self): os.write(2, b"last")
keep = Last()
return (await double(n=4))["n"]`),
			arrange: func(s *stage) { s.tools["double"] = double },
			check:   all(exited(0), value("8")),
		},
		{
			name: "a system call newer than the filter is one that there is not", rows: "PV12",
			code: helped(`
answers = []
for number in (500, 599, 4000, 100_000):
    ctypes.set_errno(0)
    answers.append(errno.errorcode[ctypes.get_errno()] if libc.syscall(number) == -1 else "none")
return answers`),
			check: func(t *testing.T, g *seen) {
				want := `["ENOSYS","ENOSYS","ENOSYS","ENOSYS"]`
				if got := string(returned(t, g)); got != want && !(g.coarse && got == strings.ReplaceAll(want, "ENOSYS", "EPERM")) {
					t.Errorf("got %s, want %s", got, want)
				}
			},
		},
	}
}
