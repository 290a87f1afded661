"""Exceptions as they are reported."""

import sys
import textwrap
import unittest

import support


def error(source: str, **params: object) -> dict:
    return support.run(textwrap.dedent(source), **params).error


class ReportTest(unittest.TestCase):
    def test_types(self) -> None:
        cases = [
            ("1 / 0", "ZeroDivisionError", "division by zero"),
            ("{}['x']", "KeyError", "'x'"),
            ("class Mine(Exception): pass\nraise Mine('m', 1)", "Mine", "('m', 1)"),
            ("def f():\n class In(Exception): pass\n raise In\nf()", "f.<locals>.In", ""),
            ("import json\njson.loads('{')", "json.decoder.JSONDecodeError", "Expecting property name"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
            ("raise GeneratorExit", "GeneratorExit", ""),
            ("raise StopIteration(1)", "StopIteration", "1"),
            ("assert False, 'why'", "AssertionError", "why"),
            ("1 + 'x'", "TypeError", "unsupported operand"),
            ("unknown", "NameError", "name 'unknown' is not defined"),
            ("raise 5", "TypeError", "exceptions must derive"),
        ]
        for source, name, message in cases:
            with self.subTest(source):
                got = error(source)
                self.assertEqual(got["type"], name)
                self.assertIn(message, got["message"])

    def test_lines_are_the_users(self) -> None:
        awaits = "await add(a=1, b=2)"
        firsts = ("", "return_ = 1", "async def f(): return 1", "if False: return 1", awaits, f"import asyncio; {awaits}")
        for first in firsts:
            with self.subTest(first):
                got = error(f"{first}\nx = '''\n'''\n\nraise ValueError('here')  # marked\n")
                want = "File \"main.py\", line 5, in <module>\n    raise ValueError('here')  # marked"
                self.assertIn(want, got["traceback"])
                self.assertEqual(got["traceback"].count("File "), 1, got["traceback"])
                self.assertTrue(got["traceback"].startswith("Traceback (most recent call last):\n"))

    def test_last_expression_keeps_its_place(self) -> None:
        got = error("x = 1\n(\n  x\n  /\n  0\n)")
        self.assertIn('line 3, in <module>', got["traceback"])

    def test_library_frames_below_the_user_stay(self) -> None:
        got = error("import json\njson.loads('{')")
        self.assertIn("decoder.py", got["traceback"])

    def test_modules_of_the_job(self) -> None:
        got = error("import helper\nhelper.f()", files=[{"path": "helper.py", "base64": "ZGVmIGYoKToKICAgIDEvMAo="}])
        self.assertIn("helper.py\", line 2, in f\n    1/0", got["traceback"])

    def test_job_files_do_not_shadow_the_report(self) -> None:
        names = ("traceback", "linecache", "re", "tokenize", "collections")
        files = [{"path": f"{name}.py", "base64": "MS8wCg=="} for name in names]
        got = error("x = 1\n1 / 0", files=files)
        # The line itself is what the report of last resort does not have.
        self.assertIn('File "main.py", line 2, in <module>\n    1 / 0', got["traceback"])

    def test_file_named_like_the_job(self) -> None:
        got = error("x = 1\n1 / 0  # the code\n", files=[{"path": "main.py", "base64": "YQpiCmMK"}])
        self.assertIn("1 / 0  # the code", got["traceback"])

    def test_chains(self) -> None:
        got = error("""
            try:
                try:
                    {}["k"]
                except KeyError as e:
                    raise ValueError("second") from e
            finally:
                int("x")
            """)
        for text in ("KeyError: 'k'", "ValueError: second", "direct cause", "During handling"):
            self.assertIn(text, got["traceback"])

    @unittest.skipIf(sys.version_info < (3, 11), "groups and notes came with Python 3.11")
    def test_groups_and_notes(self) -> None:
        got = error("""
            import asyncio
            async def fail(n):
                e = ValueError(f"number {n}")
                e.add_note("a note")
                raise e
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(1))
                group.create_task(fail(2))
            """)
        self.assertEqual(got["type"], "ExceptionGroup")
        for text in ("number 1", "number 2", "a note", "2 sub-exceptions", "in fail"):
            self.assertIn(text, got["traceback"])
        self.assertNotIn("airlock", got["traceback"])

    def test_recursion(self) -> None:
        got = error("def f(n): return f(n + 1)\nf(0)")
        self.assertEqual(got["type"], "RecursionError")
        self.assertIn("Previous line repeated", got["traceback"])
        self.assertLess(len(got["traceback"]), 2000)


class HostileTest(unittest.TestCase):
    CASES = [
        ("str raises", "class E(Exception):\n def __str__(self): 1/0\nraise E", "E"),
        ("str is no string", "class E(Exception):\n def __str__(self): return 5\nraise E", "E"),
        ("str exits", "class E(Exception):\n def __str__(self): raise SystemExit\nraise E", "E"),
        ("class lies", "class E(Exception):\n @property\n def __class__(self): return int\nraise E", "E"),
        ("cause of itself", "e = ValueError()\ne.__cause__ = e\nraise e", "ValueError"),
        ("notes are odd", "e = ValueError()\ne.__notes__ = 5\nraise e", "ValueError"),
        ("syntax error by hand", "raise SyntaxError('x', ('main.py', 10**9, -5, None))", "SyntaxError"),
        ("odd syntax error", "e = SyntaxError('x')\ne.lineno = 'x'\ne.filename = 'main.py'\nraise e", "SyntaxError"),
        ("odd module", "class E(Exception): pass\nE.__module__ = 5\nraise E", "E"),
        ("traceback is gone", "import sys\nsys.modules['traceback'] = None\nraise ValueError", "ValueError"),
        ("traceback is broken", "import traceback\ntraceback.TracebackException = 5\nraise ValueError", "ValueError"),
        ("linecache lies", "import linecache\nlinecache.getline = lambda *a: 1/0\nraise ValueError", "ValueError"),
    ]

    def test_there_is_always_a_report(self) -> None:
        for name, source, kind in self.CASES:
            with self.subTest(name):
                ended = support.run(source)
                self.assertEqual(ended.error["type"], kind)
                self.assertEqual(ended.exit_code, 1)
                self.assertIn(kind, ended.error["traceback"])
                if kind != "SyntaxError":  # that one names the line it claims
                    self.assertIn(f'File "main.py", line {source.count(chr(10)) + 1}', ended.error["traceback"])

    def test_long_type(self) -> None:
        got = error("raise type('E' * 1000, (Exception,), {})")
        self.assertLessEqual(len(got["type"].encode()), 200)
        self.assertIn("bytes cut", got["type"])

    def test_huge_message(self) -> None:
        got = error("raise ValueError('start' + 'ä' * 10**7 + 'end')")
        self.assertLessEqual(len(got["message"].encode()), 16 * 1024)
        self.assertTrue(got["message"].startswith("start") and got["message"].endswith("end"))
        self.assertIn("bytes cut", got["message"])
        self.assertLessEqual(len(got["traceback"].encode()), 64 * 1024)

    def test_huge_traceback(self) -> None:
        got = error("""
            e = None
            for i in range(3000):
                try:
                    raise ValueError("x" * 100) from e
                except ValueError as f:
                    e = f
            raise e
            """)
        self.assertLessEqual(len(got["traceback"].encode()), 64 * 1024)

    def test_odd_characters(self) -> None:
        self.assertEqual(error("raise ValueError('\\ud800\\0\\x1b[31m')")["message"], "\\ud800\0\x1b[31m")


if __name__ == "__main__":
    unittest.main()
