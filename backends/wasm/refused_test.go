package wasm_test

import (
	"strings"
	"testing"

	"airlock/job"
)

// refused are programs that try what a module lacks, by the reason in lacks
// for which stories are not told. Each must be told of other backends.
var refused = map[string][]string{
	"a module cannot start a process": {
		"import os\nos.fork()", "import os\nos.system('true')", "import os\nos.execv('/bin/true', ['true'])", "import os\nos.waitpid(-1, 0)",
		"import subprocess\nsubprocess.run(['true'])", "import asyncio\nawait asyncio.create_subprocess_exec('true')",
		"import multiprocessing\nmultiprocessing.Process(target=print).start()", "import multiprocessing\nmultiprocessing.Pool(2)",
		"from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor().submit(print)",
	},
	"a module has no threads": {
		"import threading\nthreading.Thread(target=print).start()", "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor().submit(print)",
	},
	"a module has no signals; os.abort ends it, as TestPython tells": {
		"import os\nos.kill(os.getpid(), 9)", "import signal\nsignal.alarm(1)", "import signal\nsignal.setitimer(signal.ITIMER_REAL, 1)",
	},
	"a module makes no system call, and has neither ids nor names in /proc; its process is looked at in every run": {
		"import ctypes", "import mmap", "import fcntl", "import resource", "import ssl", "import sqlite3", "import numpy",
		"import os\nos.getuid()", "import socket\nsocket.create_connection(('127.0.0.1', 80))", "import socket\nsocket.socketpair()",
	},
	"a module's channel is no descriptor; TestBreach says the same through its functions": {
		"import os\nos.dup(1)", "import asyncio\nasyncio.new_event_loop().add_reader(3, print)",
	},
	"a module has neither pipes nor epoll sets": {
		"import os\nos.pipe()", "import select\nselect.epoll()", "import os\nos.eventfd(0)", "import os\nos.mkfifo('f')", "import os\nos.symlink('a', 'b')",
	},
	"the directories that a module was given are descriptors of it": {"import os\nos.fchdir(3)"},
}

// TestLacks: what a module cannot do fails at once, says so, and says how to
// ask for a backend that can.
func TestLacks(t *testing.T) {
	t.Parallel()
	b := realBackend(t)
	t.Cleanup(func() { _ = b.Close() })
	for why := range lacks {
		if len(refused[why]) == 0 {
			t.Errorf("got no program that tries what is lacking because %s, want one in refused", why)
		}
	}
	for why, programs := range refused {
		if _, ok := lacks[why]; !ok {
			t.Errorf("got programs for %q, want a reason of lacks", why)
		}
		for _, code := range programs {
			t.Run(code, func(t *testing.T) {
				t.Parallel()
				got := runPython(t, b, code, job.Limits{})
				if got.result == nil || got.result.Error == nil || !strings.Contains(got.result.Error.Message, "require another backend") {
					t.Errorf("got %+v, result %+v, want an exception that says to require another backend", got.outcome, got.result)
				}
			})
		}
	}
}
