package bubblewrap_test

import (
	"testing"

	"airlock/job"
)

// TestStandardLibrary runs what ordinary programs do, since filters break
// programs more often than they stop attacks.
func TestStandardLibrary(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	for _, tt := range []struct{ name, code, want string }{
		{"threads", "import threading\nt = [threading.Thread(target=lambda: None) for _ in range(8)]\n[x.start() for x in t]\n[x.join() for x in t]\nreturn 1", "1"},
		{"asyncio", "import asyncio\nreturn await asyncio.sleep(0.001, 5)", "5"},
		{"asyncio in threads", "import asyncio\nreturn await asyncio.to_thread(lambda: 5)", "5"},
		{"asyncio child", "import asyncio, sys\np = await asyncio.create_subprocess_exec(sys.executable, '-c', 'print(3)', stdout=-1)\nreturn (await p.communicate())[0].decode()", `"3\n"`},
		{"subprocess", "import subprocess, sys\nreturn subprocess.run([sys.executable, '-c', 'print(3)'], capture_output=True, text=True).stdout", `"3\n"`},
		{"subprocess by name", "import subprocess\nreturn subprocess.run(['python3', '-c', 'print(3)'], capture_output=True, text=True).stdout", `"3\n"`},
		{"terminate a child", "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\np.terminate()\nreturn p.wait()", "-15"},
		{"process pool", "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as p: return list(p.map(abs, [-1, 2]))", "[1,2]"},
		{"multiprocessing, spawned", "import multiprocessing as m\ndef f(x): return -x\nif __name__ == '__main__':\n    with m.get_context('spawn').Pool(1) as p: __result__ = p.map(f, [-1])", "[1]"},
		{"multiprocessing, fork server", "import multiprocessing as m\ndef f(x): return -x\nif __name__ == '__main__':\n    with m.get_context('forkserver').Pool(1) as p: __result__ = p.map(f, [-1])", "[1]"},
		{"multiprocessing manager", "import multiprocessing as m\nwith m.Manager() as g: return g.dict(a=1)['a']", "1"},
		{"shared memory", "from multiprocessing.shared_memory import SharedMemory\ns = SharedMemory(create=True, size=10)\ns.buf[0] = 7\nv = s.buf[0]\ns.close()\ns.unlink()\nreturn v", "7"},
		{"semaphores", "import multiprocessing as m\nwith m.Semaphore(): return 1", "1"},
		{"sqlite", "import sqlite3\nc = sqlite3.connect('/workspace/x.db')\nc.execute('create table t(a)')\nc.execute('insert into t values(4)')\nc.commit()\nreturn c.execute('select a from t').fetchone()[0]", "4"},
		{"temporary files", "import tempfile\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x'); return f.name.startswith('/tmp/')", "true"},
		{"copy a tree", "import os, shutil\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nshutil.copytree('a', 'd')\nshutil.move('d', '/tmp/d')\nreturn open('/tmp/d/b/c').read()", `"x"`},
		{"archives", "import tarfile, zipfile\nopen('a', 'w').write('x')\nt = tarfile.open('t.tgz', 'w:gz'); t.add('a'); t.close()\nz = zipfile.ZipFile('z.zip', 'w'); z.write('a'); z.close()\ntarfile.open('t.tgz').extractall('/tmp')\nreturn open('/tmp/a').read()", `"x"`},
		{"compression", "import bz2, lzma, zlib\nreturn [m.decompress(m.compress(b'x')).decode() for m in (bz2, lzma, zlib)]", `["x","x","x"]`},
		{"hashes and tls", "import hashlib, ssl\nssl.create_default_context()\nreturn hashlib.sha256(b'').hexdigest()[:8]", `"e3b0c442"`},
		{"time zones", "import zoneinfo, datetime\nreturn datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset().total_seconds()", "7200.0"},
		{"chance", "import os, random, secrets, uuid\nrandom.random(); secrets.token_hex(); uuid.uuid4()\nreturn len(os.urandom(9))", "9"},
		{"signals", "import signal\nhit = []\nsignal.signal(signal.SIGALRM, lambda *a: hit.append(1))\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()\nreturn hit", "[1]"},
		{"socket pair", "import socket\na, b = socket.socketpair()\na.sendall(b'x')\nreturn b.recv(1).decode()", `"x"`},
		{"mapped files", "import mmap\nm = mmap.mmap(-1, 4096)\nm[0] = 5\nreturn m[0]", "5"},
		{"foreign functions", "import ctypes\nreturn ctypes.CDLL(None).abs(-3)", "3"},
		{"terminal size", "import shutil\nreturn list(shutil.get_terminal_size((80, 24)))", "[80,24]"},
		{"locale", "import sys\nreturn [sys.getfilesystemencoding(), sys.stdout.encoding.lower()]", `["utf-8","utf-8"]`},
		{"devices", "open('/dev/null', 'w').write('x')\nreturn [len(open('/dev/urandom', 'rb').read(4)), len(open('/dev/zero', 'rb').read(4))]", "[4,4]"},
		{"decimals", "import decimal\nreturn str(decimal.Decimal(1) / 3)[:6]", `"0.3333"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := ran(t, b, tt.code, job.Limits{}); got.value != tt.want {
				t.Errorf("got %s, want %s; %+v\n%s\n%s", got.value, tt.want, got.outcome, got.fault, got.stderr)
			}
		})
	}
}
