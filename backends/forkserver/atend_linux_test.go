package forkserver_test

import (
	"testing"

	"airlock/backends/forkserver"
	"airlock/job"
)

// TestEndsAsAProgramDoes: a guest skips what an interpreter does at its end
// only where a program has left nothing to be done.
func TestEndsAsAProgramDoes(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	tests := []struct{ name, code, want string }{
		{"nothing", "print('code')", "code\n"},
		{"atexit", "import atexit\natexit.register(print, 'late')\nprint('code')", "code\nlate\n"},
		{"atexit in place of another's", "import atexit, logging\natexit.unregister(logging.shutdown)\natexit.register(print, 'late')", "late\n"},
		{"finalizer", "import weakref\nclass C: pass\nc = C()\nc.c = c\nweakref.finalize(c, print, 'late')", "late\n"},
		{"log kept back", "import logging, logging.handlers, sys\nlogging.getLogger('x').addHandler(logging.handlers.MemoryHandler(99, target=logging.StreamHandler(sys.stdout)))\nlogging.getLogger('x').warning('late')", "late\n"},
		{
			"log kept back, configured anew", `import logging, logging.config, sys
logging.config.dictConfig({"version": 1, "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}, "kept": {"class": "logging.handlers.MemoryHandler", "capacity": 99, "target": "out"}}, "root": {"handlers": ["kept"]}})
logging.warning("late")`, "late\n",
		},
		{"thread", "import threading, time\ndef late():\n    time.sleep(0.2)\n    print('late')\nthreading.Thread(target=late).start()", "late\n"},
		{"pool", "import time, concurrent.futures\ndef late():\n    time.sleep(0.2)\n    print('late')\nconcurrent.futures.ThreadPoolExecutor().submit(late)", "late\n"},
		{"stream of its own", "import sys, io\nsys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, 'w', closefd=False)))\nprint('late')", "late\n"},
		{"variable", "class C:\n    def __del__(self): print('late')\nc = C()", "late\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := ran(t, b, test.code, job.Limits{})
			if s.stdout != test.want || s.fault != "" || s.outcome.ExitCode != 0 {
				t.Errorf("got output %q, outcome %+v, want %q; %s %s", s.stdout, s.outcome, test.want, s.fault, s.stderr)
			}
		})
	}
}

// TestChannelIsNotInherited: what a guest starts cannot speak for it.
func TestChannelIsNotInherited(t *testing.T) {
	t.Parallel()
	b, _ := open(t, forkserver.Config{})
	if s := ran(t, b, "import os\nreturn [os.get_inheritable(fd) for fd in range(4)]", job.Limits{}); s.value != "[true,true,true,false]" {
		t.Errorf("got %s, want only the channel not to be inherited; %s", s.value, s.fault)
	}
}
