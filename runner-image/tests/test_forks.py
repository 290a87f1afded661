"""The parts of the fork server that need no rights of their own. The rest is tested in backends/forkserver."""

import ctypes
import errno
import json
import mmap
import os
import socket
import subprocess
import sys
import unittest

import support

if sys.platform != "linux":
    raise unittest.SkipTest("the fork server needs Linux")

from airlock_guest.forks import kernel, room, template, text
from airlock_guest.forks.control import Control


def pair(test: unittest.TestCase) -> "tuple[Control, socket.socket]":
    """Returns a control and the worker's end of it, for one test."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    test.addCleanup(theirs.close)
    return Control(ours.detach()), theirs


def in_template(code: str, stdin: bytes = b"") -> "object":
    """Returns what the code prints as JSON in an interpreter that has been a template."""
    head = f"import sys, json, os\nsys.path.insert(0, {str(support.GUEST)!r})\nfrom airlock_guest.forks import fresh, template\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", head + code],
        input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.TIMEOUT, check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr.decode())
    return json.loads(done.stdout)


class ControlTest(unittest.TestCase):
    def test_messages_and_descriptors(self) -> None:
        control, worker = pair(self)
        reading, writing = os.pipe()
        socket.send_fds(worker, [b'{"guest":{"user":7}}'], [writing])
        message, descriptors = control.receive()
        self.assertEqual(message, {"guest": {"user": 7}})
        self.assertEqual(len(descriptors), 1)
        os.write(descriptors[0], b"x")
        self.assertEqual(os.read(reading, 9), b"x")
        for descriptor in (*descriptors, reading, writing):
            self.addCleanup(os.close, descriptor)
        self.assertFalse(os.get_inheritable(descriptors[0]))
        control.send({"ready": True})
        self.assertEqual(worker.recv(99), b'{"ready":true}')

    def test_end(self) -> None:
        control, worker = pair(self)
        worker.close()
        self.assertEqual(control.receive(), (None, []))

    def test_cut_messages_are_refused(self) -> None:
        control, worker = pair(self)
        worker.send(b'"' + b"x" * (1 << 15) + b'"')
        with self.assertRaisesRegex(OSError, "cut"):
            control.receive()
        socket.send_fds(worker, [b"{}"], [0] * 20)
        with self.assertRaisesRegex(OSError, "cut"):
            control.receive()

    def test_detached_is_not_closed(self) -> None:
        control, worker = pair(self)
        descriptor = control.detach()
        del control
        os.write(descriptor, b"{}")
        self.assertEqual(worker.recv(9), b"{}")
        os.close(descriptor)

    def test_failure_is_told(self) -> None:
        control, worker = pair(self)
        control.fail(OSError(errno.EAGAIN, "no room"))
        self.assertEqual(json.loads(worker.recv(999))["failed"], {"what": "[Errno 11] no room", "errno": errno.EAGAIN})
        worker.close()
        control.fail(OSError(errno.EAGAIN, "no room"))  # nobody is there, and that is no error


class KernelTest(unittest.TestCase):
    def test_errors_have_names(self) -> None:
        for call, arguments, name in (
            (kernel.setns, (-1, kernel.NEWPID), "setns"),
            (kernel.pidfd_open, (-1,), "pidfd_open"),
            (kernel.mount_tmpfs, ("/nonexistent/place", ""), "mount /nonexistent/place"),
            (kernel.unshare, (-1,), "unshare"),
        ):
            with self.subTest(name), self.assertRaisesRegex(OSError, name):
                call(*arguments)

    def test_bad_filter_is_refused(self) -> None:
        with self.assertRaisesRegex(OSError, "seccomp"):
            kernel.Filter(b"").install()


class TextTest(unittest.TestCase):
    def test_huge_pages_are_those_covered_completely(self) -> None:
        huge = 2 << 20
        for parts, whole in (
            ([], []),
            ([(4096, huge)], []),
            ([(0, huge)], [(0, huge)]),
            ([(4096, huge), (huge, 3 * huge + 4096)], [(huge, 3 * huge)]),
            ([(huge + 4096, 2 * huge), (0, huge + 4096)], [(0, 2 * huge)]),
            ([(0, huge - 4096), (huge, 2 * huge)], [(huge, 2 * huge)]),
        ):
            with self.subTest(parts):
                self.assertEqual(text._whole(parts), whole)

    def test_only_what_nobody_writes_to_is_found(self) -> None:
        base = kernel.base_of(ctypes.pythonapi.Py_Initialize)
        found = text._read_only(base)
        self.assertEqual(found[0][0], base)
        self.assertTrue(any(start <= ctypes.cast(ctypes.pythonapi.Py_Initialize, ctypes.c_void_p).value < end for start, end in found))
        with open("/proc/self/maps") as file:
            for line in file:
                bounds, rights = line.split()[:2]
                start, end = (int(bound, 16) for bound in bounds.split("-"))
                if "w" in rights:
                    self.assertFalse([part for part in found if part[0] < end and start < part[1]], line)
        self.assertEqual(text._read_only(ctypes.addressof(ctypes.create_string_buffer(64))), [])

    def test_the_program_goes_on_from_huge_pages(self) -> None:
        found = in_template(
            "from airlock_guest.forks import text\nmoved = text.enlarge()\nimport ctypes, hashlib, decimal\n"
            "at = ctypes.cast(ctypes.pythonapi.Py_Initialize, ctypes.c_void_p).value\n"
            "places = [l for l in open('/proc/self/maps') if any(s <= int(l.split('-')[0], 16) < e for s, e in"
            " text._whole(text._read_only(text.kernel.base_of(ctypes.pythonapi.Py_Initialize))))]\n"
            "print(json.dumps([moved, [l.split()[1] for l in places], str(decimal.Decimal(2).sqrt())[:4],"
            " len([l for l in open('/proc/self/smaps') if l.startswith('AnonHugePages') and int(l.split()[1])])]))"
        )
        moved, rights, root, huge = found  # type: ignore[misc]
        self.assertEqual(root, "1.41")
        if not moved and not _gives_huge_pages():
            self.skipTest("this system gives no huge pages")
        self.assertTrue(moved and moved % (2 << 20) == 0, moved)
        self.assertEqual(set(rights), {"r-xp"})
        self.assertTrue(huge)

    def test_what_cannot_be_replaced_stays(self) -> None:
        size = 2 << 20
        memory = mmap.mmap(-1, 2 * size)
        memory[:4] = b"stay"
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        with self.assertRaisesRegex(OSError, "mmap|madvise|collapse|mremap"):
            kernel.replace_with_huge(start + 1, size, size)
        self.assertEqual(memory[:4], b"stay")


def _gives_huge_pages() -> bool:
    size = 2 << 20
    memory = mmap.mmap(-1, 2 * size)
    start = (ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size - 1) & -size
    try:
        kernel.replace_with_huge(start, size, size)
    except OSError:
        return False
    return True


class RoomTest(unittest.TestCase):
    # How far from each other the first blocks of two pools of each size are, and chunks that are asked for in turn.
    SEEN = (
        "import ctypes\nfrom airlock_guest.forks import kernel, room\ntemplate._import([])\n"
        "def seen():\n"
        "    heads = [id(room._block(size, 1000)) % room._POOL < room._HEAD for size in range(48, 513, 16)]\n"
        "    chunks = [kernel._malloc(3000) for _ in range(8)]\n"
        "    return [sum(heads), [b - a for a, b in zip(chunks, chunks[1:])]]\n"
    )

    def test_what_comes_next_lies_side_by_side(self) -> None:
        holes = "for chunk in [kernel._malloc(3000) for _ in range(20)][::2]: kernel._free(chunk)\n"
        found = in_template(self.SEEN + holes + "kept = room.fill()\nprint(json.dumps([len(kept), *seen()]))")
        kept, heads, steps = found  # type: ignore[misc]
        self.assertGreater(kept, 100)
        self.assertGreater(heads, 20)  # of 30; the others are what the test itself holds
        self.assertEqual(steps, [3008] * 7)

    def test_a_heap_with_more_holes_than_are_filled(self) -> None:
        holes = "for chunk in [kernel._malloc(3000) for _ in range(2000)][::2]: kernel._free(chunk)\n"
        few = "kernel._MOST_CHUNKS = 3\nkernel.fill_heap(512)\nkernel._malloc(3000)\n"
        found = in_template(self.SEEN + holes + few + "print(json.dumps(['done']))")
        self.assertEqual(found, ["done"])


class TemplateTest(unittest.TestCase):
    def test_loads_no_ssl_and_warms_up_without_a_trace(self) -> None:
        found = in_template(
            "template._import(['decimal'])\nbefore = list(sys.path)\ntemplate._warm_up()\nimport asyncio, threading\n"
            "print(json.dumps(['ssl' in sys.modules, 'decimal' in sys.modules, 'asyncio' in sys.modules,"
            " threading.active_count(), asyncio._get_running_loop() is None,"
            " [p for p in before if 'packages' in p]]))"
        )
        self.assertEqual(found, [False, True, True, 1, True, []])

    def test_all_common_modules_are_there(self) -> None:
        self.assertEqual(len(template._COMMON), len(set(template._COMMON)))
        self.assertNotIn("ssl", template._COMMON)

    def test_failed_fork_is_told_and_survived(self) -> None:
        control, worker = pair(self)
        fork = os.fork

        def refused() -> int:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

        os.fork = refused
        try:
            descriptor = control.detach()
            self.assertFalse(template._fork_slot(descriptor))
        finally:
            os.fork = fork
        self.assertIn("Resource temporarily unavailable", json.loads(worker.recv(999))["failed"]["what"])
        os.fstat(descriptor)  # still the caller's
        os.close(descriptor)


class RehearsalTest(unittest.TestCase):
    # What a program can see that a rehearsed job could have changed.
    SEEN = (
        "def seen():\n"
        "    import asyncio, atexit, builtins, linecache, threading, warnings, logging\n"
        "    return [id(sys.modules['__main__']), list(sys.argv), list(sys.path), threading.active_count(),"
        " asyncio._get_running_loop() is None, asyncio.events._event_loop_policy is None, atexit._ncallbacks(),"
        " len(warnings.filters), list(linecache.cache), sys.getrecursionlimit(), threading.main_thread().is_alive(),"
        " sorted(os.listdir('/dev/fd')), len(logging._handlerList), [n for n in vars(builtins) if n == '_']]\n"
    )

    def test_leaves_no_trace(self) -> None:
        found = in_template(
            "from airlock_guest.forks import rehearsal\nout = os.dup(1)\nos.dup2(os.open('/dev/null', os.O_WRONLY), 1)\n"
            # As in a template, which has nowhere to write to.
            "from airlock_guest import system\nopened = []\n"
            "system.open = lambda *a: opened.append(a) or os.open('/nonexistent/x', 0)\n"
            "template._import([])\ntemplate._warm_up()\n" + self.SEEN + "seen()\nbefore = seen()\nrehearsal.rehearse()\nafter = seen()\n"
            "os.write(out, json.dumps([before == after, before, after, len(opened)]).encode())"
        )
        same, before, after, jobs = found  # type: ignore[misc]
        self.assertTrue(same, f"{before}\n{after}")
        self.assertGreater(jobs, 20)

    def test_failed_job_is_no_rehearsal(self) -> None:
        found = in_template(
            "from airlock_guest.forks import rehearsal\nfrom airlock_guest import system\n"
            "system.open = lambda *a: os.open('/nonexistent/x', 0)\ntemplate._import([])\n"
            "rehearsal._JOBS = ('{\"method\":\"job\",\"params\":{\"code\":\"1/0\"}}',)\n"
            "try: rehearsal.rehearse()\nexcept RuntimeError as error: print(json.dumps(str(error)))"
        )
        self.assertIn("1/0", str(found))


class FreshTest(unittest.TestCase):
    def test_nothing_of_the_template_is_left(self) -> None:
        found = in_template(
            "import gc, signal, threading\ngc.disable()\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nsys.orig_argv[-1] = '/a/template.py'\n"
            "old, r = sys.stdin, fresh.Restorer()\nr.restore(True)\nimport airlock_guest\n"
            "print(json.dumps([[n for n in sys.modules if 'forks' in n], hasattr(airlock_guest, 'forks'), gc.isenabled(),"
            " signal.getsignal(signal.SIGINT) is signal.default_int_handler, sys.orig_argv[-1], sys.stdin is sys.__stdin__ is not old,"
            " sys.stdin.seekable(), sys.stdin.read(), threading.main_thread().native_id == threading.get_native_id()]))",
            b"gr\xc3\xbc\xc3\x9fe\xff\r\n",
        )
        self.assertEqual(found, [[], False, True, True, "/a/main.py", True, False, "grüße\udcff\r\n", True])

    def test_generators_get_seeds_of_their_own(self) -> None:
        found = in_template(
            "import multiprocessing.process as p, random, types, hashlib\n"
            "class numpy: count = 0\n"
            "numpy.seed = lambda: setattr(numpy, 'count', numpy.count + 1)\nsys.modules['numpy.random'] = numpy\n"
            "old, values, restorer = bytes(p.current_process().authkey), [], fresh.Restorer()\nfor _ in range(3):\n"
            "    r, w = os.pipe()\n"
            "    if os.fork() == 0:\n"
            "        restorer.restore(False)\n"
            "        os.write(w, json.dumps([random.random(), bytes(p.current_process().authkey).hex(), numpy.count]).encode())\n"
            "        os._exit(0)\n"
            "    os.wait()\n    values.append(json.loads(os.read(r, 999)))\n"
            "print(json.dumps([values, old.hex()]))"
        )
        values, old = found  # type: ignore[misc]
        for place in (0, 1):
            self.assertEqual(len({value[place] for value in values} | {old}), 4, values)
        self.assertEqual([value[2] for value in values], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
