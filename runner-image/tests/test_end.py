"""How a program ends, and what is sent and printed of it."""

import json
import subprocess
import sys
import textwrap
import unittest

import support


def run(source: str, **params: object) -> support.Ended:
    return support.run(textwrap.dedent(source), **params)


class ExitTest(unittest.TestCase):
    def test_exit_codes(self) -> None:
        cases = [
            ("sys.exit()", 0, ""),
            ("sys.exit(0)", 0, ""),
            ("sys.exit(7)", 7, ""),
            ("sys.exit(-1)", 255, ""),
            ("sys.exit(True)", 1, ""),
            ("sys.exit('bye')", 1, "bye\n"),
            ("sys.exit([1])", 1, "[1]\n"),
            ("raise SystemExit('\\udc80')", 1, "\\udc80\n"),
            ("await add(a=1, b=2); sys.exit(3)", 3, ""),
            ("import asyncio; await add(a=1, b=2); sys.exit(3)", 3, ""),
            ("import os; os._exit(5)", 5, ""),
        ]
        for source, code, err in cases:
            with self.subTest(source):
                ended = support.run("import sys; print('out'); " + source)
                self.assertEqual((ended.exit_code, ended.err, ended.out), (code, err, "out\n"))
                self.assertIsNone(ended.result)

    def test_exception(self) -> None:
        ended = run("print('before')\n1 / 0")
        self.assertEqual((ended.exit_code, ended.out, ended.err), (1, "before\n", ""))
        self.assertEqual(ended.error["type"], "ZeroDivisionError")

    def test_same_exit_codes_as_python(self) -> None:
        for source in ("raise SystemExit(300)", "raise SystemExit(None)", "raise SystemExit(2.5)", "raise KeyError"):
            with self.subTest(source):
                want = subprocess.run([sys.executable, "-c", source], capture_output=True).returncode
                self.assertEqual(support.run(source).exit_code, want)


class EndTest(unittest.TestCase):
    def test_order(self) -> None:
        ended = run("""
            import atexit, threading, time
            class Last:
                def __del__(self): print("variable")
            last = Last()
            atexit.register(print, "atexit")
            def work():
                time.sleep(0.1)
                print("thread")
            threading.Thread(target=work).start()
            print("code")
            """)
        self.assertEqual(ended.out.split(), ["code", "thread", "atexit", "variable"])
        self.assertIsNone(ended.value)

    def test_order_after_an_exception_and_an_exit(self) -> None:
        for end in ("1 / 0", "raise SystemExit(0)"):
            ended = run(f"import atexit\natexit.register(print, 'atexit')\n{end}")
            self.assertEqual(ended.out, "atexit\n")

    def test_tools_until_the_end(self) -> None:
        ended = run("""
            import atexit
            __result__ = []
            atexit.register(lambda: __result__.append(tools.call_sync("math", "add", a=1, b=2)))
            """)
        self.assertEqual(ended.value, [{"sum": 3}])
        self.assertEqual([frame["method"] for frame in ended.requests], ["call_tool", "result"])

    def test_exit_handler_decides_last(self) -> None:
        ended = run("import atexit, os\natexit.register(os._exit, 9)\n1")
        self.assertEqual((ended.exit_code, ended.result), (9, None))

    def test_failing_exit_handler(self) -> None:
        ended = run("import atexit\natexit.register(lambda: 1 / 0)\n1")
        self.assertEqual((ended.exit_code, ended.value), (0, 1))
        self.assertIn("ZeroDivisionError", ended.err)

    def test_forgotten_files_are_written(self) -> None:
        ended = run("f = open('out.txt', 'w')\n_g = open('more.txt', 'w')\nf.write('x')\n_g.write('y')\n5")
        self.assertEqual((ended.value, ended.files), (5, {"out.txt": b"x", "more.txt": b"y"}))

    def test_daemons_keep_their_variables(self) -> None:
        ended = run("""
            import threading, time
            def work():
                while True: time.sleep(0.0001)
            for _ in range(5): threading.Thread(target=work, daemon=True).start()
            time.sleep(0.05)
            1
            """)
        self.assertEqual((ended.value, ended.err), (1, ""))

    def test_open_calls_do_not_keep_the_result(self) -> None:
        """A daemon that waits for an answer and calls that never left do not hold up the end."""
        with support.Guest() as guest:
            guest.receive()
            source = """
                import threading, time
                for n in range(3):
                    threading.Thread(target=tools.call_sync, args=("math", "echo"), daemon=True).start()
                time.sleep(0.2)
                "done"
                """
            params = {"code": textwrap.dedent(source), "tools": support.MATH, "limits": {"parallel": 1}}
            guest.send({"method": "job", "params": params})
            self.assertEqual(guest.receive()["method"], "call_tool")
            result = guest.receive()
            self.assertEqual(result["params"], {"value": "done"})
            guest.send({"id": 1, "ok": False, "error": {"code": "cancelled", "message": "the job is ending"}})
            guest.send({"id": result["id"], "ok": True})
            self.assertEqual(guest.wait()[0], 0)

    def test_excepthook(self) -> None:
        ended = run("import sys\nsys.excepthook = lambda t, v, tb: print('hook', t.__name__)\n1 / 0")
        self.assertEqual((ended.out, ended.error["type"]), ("hook ZeroDivisionError\n", "ZeroDivisionError"))

    def test_worker_refuses_the_result(self) -> None:
        with support.Guest() as guest:
            guest.receive()
            guest.send({"method": "job", "params": {"code": "1"}})
            result = guest.receive()
            guest.send({"id": result["id"], "ok": False, "error": {"code": "too_large", "message": "too large"}})
            self.assertEqual(guest.wait()[0], 0)

    def test_worker_goes_away(self) -> None:
        for source in ("1", "await add(a=1, b=2)"):
            with self.subTest(source), support.Guest() as guest:
                guest.receive()
                guest.send({"method": "job", "params": {"code": source, "tools": support.MATH}})
                guest.receive()
                guest.channel.close()
                code, _, err = guest.wait()
                self.assertEqual(code, 70)
                self.assertIn(b"airlock", err)

    def test_closed_channel(self) -> None:
        """Code that closes the channel has no result, and says so."""
        ended = run("import os\nos.close(3)\n1")
        self.assertEqual((ended.exit_code, ended.result), (70, None))
        self.assertIn("not delivered", ended.err)


class ForkTest(unittest.TestCase):
    def test_child_has_no_channel(self) -> None:
        ended = run("""
            import os
            if (child := os.fork()) == 0:
                try:
                    tools.call_sync("math", "add", a=1, b=2)
                except ConnectionError as error:
                    print("child:", error)
                1 / 0
            print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            (await add(a=1, b=2))["sum"]
            """)
        self.assertEqual(ended.value, 3)
        self.assertEqual([frame["method"] for frame in ended.requests], ["call_tool", "result"])
        self.assertIn("child: only the guest's first process", ended.out)
        self.assertIn("status 1", ended.out)
        self.assertIn("ZeroDivisionError", ended.err)

    def test_multiprocessing(self) -> None:
        ended = run("""
            import multiprocessing
            def square(n): return n * n
            with multiprocessing.get_context("fork").Pool(2) as pool:
                squares = pool.map(square, range(5))
            squares
            """)
        self.assertEqual(ended.value, [0, 1, 4, 9, 16])

    def test_subprocess_has_no_channel(self) -> None:
        source = """
            import os, subprocess, sys
            look = "import os\\ntry:\\n  os.fstat(3); print('open')\\nexcept OSError:\\n  print('closed')"
            done = subprocess.run([sys.executable, "-c", look], close_fds=False, capture_output=True, text=True)
            [done.stdout, os.get_inheritable(3)]
            """
        self.assertEqual(run(source).value, ["closed\n", False])


class MemoryTest(unittest.TestCase):
    def test_memory_error(self) -> None:
        ended = run("""
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
            hoard = []
            while True:
                hoard.append(bytearray(10 << 20))
            """)
        self.assertEqual(ended.error["type"], "MemoryError")
        self.assertIn('File "main.py", line 6', ended.error["traceback"])

    def test_value_that_does_not_fit_memory(self) -> None:
        ended = run("""
            import resource
            value = ["x" * (60 << 20)] * 2
            resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
            value
            """)
        self.assertIn("error" if "error" in ended.result else "too_large", ended.result)


class JobFrameTest(unittest.TestCase):
    BAD = [
        b"[]",
        b"{}",
        b'{"method": "reply", "params": {}}',
        b'{"method": "job", "params": {}}',
        b'{"method": "job", "params": {"code": 1}}',
        b'{"method": "job", "params": {"code": "1", "code": "2"}}',
        b'{"method": "job", "params": {"code": "1", "colour": "red"}}',
        b'{"method": "job", "params": {"code": "1", "vars": {"x": NaN}}}',
        b'{"method": "job", "params": {"code": "1", "limits": {"result": true}}}',
        b'{"method": "job", "params": {"code": "\\ud800"}}',
        b'{"method": "job", "params": {"code": "1"}} {}',
        b"\xff\xfe",
    ]

    def test_refused(self) -> None:
        for body in self.BAD:
            with self.subTest(body), support.Guest() as guest:
                guest.receive()
                guest.send_bytes(body)
                self.assertIsNone(guest.receive())
                code, _, err = guest.wait()
                self.assertEqual(code, 70)
                self.assertTrue(err.startswith(b"airlock: "), err)

    def test_length(self) -> None:
        for length in (0, 1, (8 << 20) + 1, 0xFFFFFFFF):
            with self.subTest(length), support.Guest() as guest:
                guest.receive()
                guest.channel.sendall(length.to_bytes(4, "big"))
                self.assertEqual(guest.wait()[0], 70)

    def test_hello(self) -> None:
        with support.Guest() as guest:
            hello = guest.receive()
            guest.channel.close()
            self.assertEqual(guest.wait()[0], 70)
        version = ".".join(map(str, sys.version_info[:3]))
        self.assertEqual(hello, {"method": "hello", "params": {"protocol": 1, "python": version}})

    def test_large_frames(self) -> None:
        text = "ä" * 1_000_000
        ended = run("(await echo(v=x))['v'] == x", vars={"x": text})
        self.assertEqual(ended.value, True)
        self.assertEqual(len(json.dumps(ended.requests[0], ensure_ascii=False)) > 1_000_000, True)


if __name__ == "__main__":
    unittest.main()
