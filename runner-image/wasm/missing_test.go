package wasm_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// elsewhere is how a guest is told to ask for what is missing.
const elsewhere = "another backend for it, by requires.backends or submit --backend"

// TestMissing holds what a guest of WebAssembly cannot have to words that help.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, code, kind, message string }{
		{"thread", "import threading\nthreading.Thread(target=print).start()", "RuntimeError", elsewhere},
		{"pool", "import concurrent.futures as c\nc.ThreadPoolExecutor().submit(print)", "RuntimeError", elsewhere},
		{"subprocess", "import subprocess\nsubprocess.run(['true'])", "OSError", elsewhere},
		{"system", "import os\nos.system('true')", "OSError", elsewhere},
		{"exec", "import os\nos.execlp('true', 'true')", "OSError", elsewhere},
		{"fork", "import os\nos.fork()", "AttributeError", elsewhere},
		{"fork by name", "from os import fork", "ImportError", elsewhere},
		{"kill", "import os\nos.kill(1, 9)", "AttributeError", elsewhere},
		{"constant", "import os\nos.WNOHANG", "AttributeError", elsewhere},
		{"pipe", "import os\nos.pipe()", "AttributeError", elsewhere},
		{"dup", "import os\nos.dup(1)", "OSError", elsewhere},
		{"symbolic link", "import os\nos.symlink('a', 'b')", "PermissionError", elsewhere},
		{"alarm", "import signal\nsignal.alarm(1)", "AttributeError", elsewhere},
		{"handler", "import asyncio\nasyncio.new_event_loop().add_signal_handler(2, print)", "NotImplementedError", elsewhere},
		{"epoll", "import select\nselect.epoll()", "AttributeError", elsewhere},
		{"process", "import multiprocessing\nmultiprocessing.Process(target=print).start()", "OSError", elsewhere},
		{"shared queue", "import multiprocessing\nmultiprocessing.Queue()", "OSError", elsewhere},
		{"process pool", "import multiprocessing\nmultiprocessing.Pool(2)", "OSError", elsewhere},
		{"process pool of a context", "import multiprocessing\nmultiprocessing.get_context().Pool(2)", "OSError", elsewhere},
		{"executor", "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()", "NotImplementedError", elsewhere},
		{"asyncio subprocess", "import asyncio\nawait asyncio.create_subprocess_exec('true')", "OSError", elsewhere},
		{"socket", "import socket\nsocket.create_connection(('localhost', 1))", "OSError", elsewhere},
		{"asyncio socket", "import asyncio\nawait asyncio.open_connection('localhost', 1)", "OSError", elsewhere},
		{"name of a host", "import socket\nsocket.gethostbyaddr('localhost')", "AttributeError", elsewhere},
		{"url", "import urllib.request\nurllib.request.urlopen('http://localhost')", "urllib.error.URLError", elsewhere},
		{"network", "import socket\nsocket.socket()", "OSError", "requires.network"},
		{"deadlock", "import asyncio\nawait asyncio.Event().wait()", "RuntimeError", "deadlock"},
		{"lock", "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", "RuntimeError", "deadlock"},
		{"event", "import threading\nthreading.Event().wait()", "RuntimeError", "deadlock"},
		{"queue", "import queue\nqueue.Queue().get()", "RuntimeError", "deadlock"},
		{"simple queue", "import queue\nqueue.SimpleQueue().get()", "RuntimeError", "deadlock"},
		{"ctypes", "import ctypes", "ModuleNotFoundError", elsewhere},
		{"ssl", "import ssl", "ModuleNotFoundError", elsewhere},
		{"sqlite3", "from sqlite3 import connect", "ModuleNotFoundError", elsewhere},
		{"numpy", "import numpy as np", "ModuleNotFoundError", elsewhere},
		{"module of a package", "import pandas.core.frame", "ModuleNotFoundError", elsewhere},
		{"host's files", "open('/etc/passwd')", "FileNotFoundError", "/etc/passwd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := started(t)
			exit, result := m.run(t, test.code, offered)
			failed, _ := result["error"].(map[string]any)
			message, trace := fmt.Sprint(failed["message"]), fmt.Sprint(failed["traceback"])
			if exit != 1 || failed["type"] != test.kind || !strings.Contains(message, test.message) {
				t.Errorf("got code %d and %v, want 1 and a %s that says %q", exit, result, test.kind, test.message)
			}
			if strings.Contains(trace, "airlock_") {
				t.Errorf("got a traceback with frames of ours, want none:\n%s", trace)
			}
		})
	}
}

// TestLookedFor has programs look for what is missing as libraries do, which
// then go on without it.
func TestLookedFor(t *testing.T) {
	t.Parallel()
	runAll(t, []program{
		{"attributes", "import os, select, signal, socket\n[hasattr(os, 'fork'), hasattr(signal, 'alarm'), hasattr(socket, 'AF_UNIX'), hasattr(select, 'epoll'), getattr(os, 'kill', 1), hasattr(os, 'getpid')]", "[false false false false 1 true]"},
		{"modules", "import importlib.util\n[importlib.util.find_spec(m) is None for m in ('numpy', 'sqlite3', 'ctypes', 'json')]", "[true true true false]"},
		{"the module of an error", "found = []\nfor m in ('numpy', 'ctypes', 'a.b'):\n  try: __import__(m)\n  except ImportError as e: found.append(f\"{e.name} {str(e).startswith(f'No module named {e.name!r}')}\")\nfound", "[numpy True ctypes True a True]"},
		{"a name of ours that is none", "import os\ntry: os.frok\nexcept AttributeError as e: message = str(e)\nmessage", "module 'os' has no attribute 'frok'"},
		{"a name by import", "try:\n  from os import fork\nexcept ImportError as e: fork = e.name\nfork", "os"},
		{"a module of a package that is there", "try: import json.nothing\nexcept ModuleNotFoundError as e: message = str(e)\nmessage", "No module named 'json.nothing'"},
		{"locks of processes", "import multiprocessing\ntry: multiprocessing.RLock()\nexcept (ImportError, OSError): lock = None\nlock", "<nil>"},
		{"what the library tries first", "import http.client, uuid, tarfile, shutil, platform, getpass, asyncio.events\nhasattr(http.client, 'HTTPSConnection')", "false"},
	})
}

// TestNamesOfLinux: what the modules have on this host and not there, its
// words name. The host's Python may be older, and then it knows less.
func TestNamesOfLinux(t *testing.T) {
	t.Parallel()
	const list = "import os, select, signal, sys\nprint(sys.version_info < (3, 14) and sys.platform)\n" +
		"print([(m.__name__, n) for m in (os, select, signal) for n in dir(m) if n[0] != '_'])"
	out, err := exec.CommandContext(t.Context(), "python3", "-I", "-S", "-c", list).Output()
	names, known := strings.CutPrefix(string(out), "linux\n")
	if err != nil || !known {
		t.Skipf("no python3 of Linux that has nothing newer: %v", err)
	}
	code := "import importlib\nsilent = []\nfor module, name in " + strings.TrimSpace(names) + `:
    try: getattr(importlib.import_module(module), name)
    except AttributeError as e:
        if "another backend" not in str(e): silent.append(f"{module}.{name}")
silent`
	m := started(t)
	exit, result := m.run(t, code, offered)
	if exit != 0 || fmt.Sprint(result["value"]) != "[]" {
		t.Errorf("got code %d and %v, want 0 and every name's words; stderr: %s", exit, result, m.err.String())
	}
}
