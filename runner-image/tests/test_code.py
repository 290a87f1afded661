"""What code a guest accepts, and what its value is."""

import textwrap
import unittest

import support
from airlock_guest import code


def run(source: str, **params: object) -> support.Ended:
    return support.run(textwrap.dedent(source), **params)


class ValueTest(unittest.TestCase):
    CASES = [
        ("nothing", "", None),
        ("comment", "# nothing", None),
        ("assignment", "x = 1", None),
        ("expression", "1 + 1", 2),
        ("docstring", "'hello'", "hello"),
        ("last expression", "x = 3\nx * 2", 6),
        ("not the last", "1 + 1\nx = 3", None),
        ("semicolon", "x = 3; x + 1", 4),
        ("awaited", "(await add(a=1, b=2))['sum']", 3),
        ("return", "return 5", 5),
        ("return before expression", "if True:\n    return 'early'\n'late'", "early"),
        ("return not reached", "if False:\n    return 'early'\n'late'", "late"),
        ("return nothing", "__result__ = 1\nreturn\n2", None),
        ("return beats __result__", "__result__ = 1\nreturn 3", 3),
        ("__result__ beats expression", "__result__ = 1\n2", 1),
        ("__result__ is None", "__result__ = None\n2", None),
        ("return awaited", "return (await add(a=1, b=2))['sum']", 3),
        ("return without a space", "return(5)", 5),
        ("return out of for", "for i in range(5):\n    if i == 3:\n        return i", 3),
        ("return out of while", "n = 0\nwhile True:\n    n += 1\n    if n > 6:\n        return n", 7),
        ("return out of three", "for a in 1, 2:\n  for b in 3, 4:\n    while b:\n      return a, b", None),
        ("return in else of a loop", "for i in ():\n    pass\nelse:\n    return 'else'\n1", "else"),
        ("return skips else", "for i in 1, 2:\n    return i\nelse:\n    return 'else'", 1),
        ("break keeps its meaning", "for i in range(9):\n    if i == 4: break\n    if i == 7: return i\ni", 4),
        ("continue keeps its meaning", "t = 0\nfor i in range(4):\n    if i == 2: continue\n    t += i\nreturn t", 4),
        ("return past a bare except", "try:\n    return 1\nexcept:\n    pass\n2", 1),
        ("return runs finally", "log = []\ntry:\n    return log\nfinally:\n    log.append(1)", [1]),
        ("finally returns too", "try:\n    return 1\nfinally:\n    return 2", 2),
        ("return in except", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    return str(e)", "division by zero"),
        ("return out of match", "match 3:\n    case 3:\n        return 'three'", "three"),
        ("return in a function", "def f():\n    return 4\nf()", 4),
        ("return in a lambda's neighbour", "f = lambda: 1\nreturn f()", 1),
        ("return after future", "'doc'\nfrom __future__ import annotations\ndef f(x: y): return 1\nreturn f(1)", 1),
        ("return with star import", "from string import *\nreturn digits", "0123456789"),
        ("return with annotation", "x: int = 5\nreturn x, __annotations__ is not None", None),
        ("byte order mark", "\ufeff1 + 1", 2),
        ("windows lines", "x = 1\r\nif x:\r\n    x = 2\r\nx", 2),
        ("string with await", "'await me, and return '", "await me, and return "),
    ]

    def test_values(self) -> None:
        tuples = {"return out of three": [1, 3], "return with annotation": [5, True]}
        for name, source, want in self.CASES:
            with self.subTest(name):
                want = {"$airlock": "tuple", "items": tuples[name]} if name in tuples else want
                self.assertEqual(support.run(source).value, want)


class ModuleTest(unittest.TestCase):
    """A job is a module __main__ like a script's."""

    def test_scopes(self) -> None:
        ended = run("""
            import math
            factor = 2
            def area(r):
                global last
                last = factor * r
                return math.floor(last * math.pi)
            class Square:
                def area(self): return area(1)
            [Square().area(), last, [factor * i for i in range(3)]]
            """)
        self.assertEqual(ended.value, [6, 2, [0, 2, 4]])

    def test_scopes_with_return(self) -> None:
        ended = run("""
            factor = 2
            def double(n):
                return factor * n
            exec("y = 1")
            if (w := double(4)):
                return [w, y, eval("factor + y"), globals() is locals(), "w" in globals()]
            """)
        self.assertEqual(ended.value, [8, 1, 3, True, True])

    def test_main(self) -> None:
        ended = run("""
            import sys, __main__
            if __name__ == "__main__":
                x = 1
            [__name__, __main__.x, sys.modules["__main__"].__dict__ is globals(), sys.argv, __file__[-8:], __doc__]
            """)
        self.assertEqual(ended.value, ["__main__", 1, True, ["main.py"], "/main.py", None])

    def test_future_statement_is_the_users(self) -> None:
        self.assertEqual(run("def f(x: int): ...\nf.__annotations__['x'] is int").value, True)
        source = "from __future__ import annotations\ndef f(x: int): ...\nf.__annotations__['x']"
        self.assertEqual(run(source).value, "int")

    def test_multi_line_string_is_untouched(self) -> None:
        ended = support.run('def f():\n    return """a\n  b\nc"""\nreturn f() + str((await add(a=1, b=1))["sum"])')
        self.assertEqual(ended.value, "a\n  b\nc2")

    def test_pickle_and_dataclass(self) -> None:
        ended = run("""
            import pickle
            from dataclasses import dataclass
            @dataclass
            class Point:
                x: int
            return pickle.loads(pickle.dumps(Point(3)))
            """)
        self.assertEqual(ended.value, {"x": 3})

    def test_source_is_found(self) -> None:
        ended = run("""\
            import inspect, traceback
            def f():
                raise ValueError  # here
            try:
                f()
            except ValueError:
                shown = traceback.format_exc()
            ["# here" in shown, "line 3" in shown, inspect.getsource(f).count("\\n")]
            """)
        self.assertEqual(ended.value, [True, True, 2])

    def test_scripts_builtins(self) -> None:
        for name in ("exit", "quit"):
            self.assertEqual(run(f"{name}(7)").exit_code, 7)

    def test_own_names_only(self) -> None:
        ended = run("sorted(name for name in globals() if not name.startswith('__'))")
        self.assertEqual(ended.value, ["add", "echo", "list_tools", "tools"])

    def test_async_forms(self) -> None:
        ended = run("""
            class Manager:
                async def __aenter__(self): return (await add(a=1, b=1))["sum"]
                async def __aexit__(self, *_): seen.append("out")
            class Counter:
                def __init__(self): self.n = 0
                def __aiter__(self): return self
                async def __anext__(self):
                    if self.n > 2: raise StopAsyncIteration
                    self.n = (await add(a=self.n, b=1))["sum"]
                    return self.n
            seen = []
            async with Manager() as two:
                seen.append(two)
            async for n in Counter():
                seen.append(n)
            seen += [n async for n in Counter()]
            seen
            """)
        self.assertEqual(ended.value, [2, "out", 1, 2, 3, 1, 2, 3])

    def test_long_expression(self) -> None:
        """A chain too deep for a syntax tree still runs, as it does in a script."""
        self.assertEqual(support.run("x = " + "+".join(["1"] * 2000) + "\nprint(x)").out, "2000\n")

    def test_large_source(self) -> None:
        source = "".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(20_000)) + "f19999(1)"
        self.assertEqual(support.run(source).value, 20_000)


class RefusedTest(unittest.TestCase):
    CASES = [
        ("break", "x = 1\nbreak", 2),
        ("continue", "if 1:\n    continue\nreturn 1", 2),
        ("return in class", "class A:\n    return 1", 2),
        ("yield", "x = 1\nyield 2", 2),
        ("await in function", "def f():\n    await add(a=1, b=2)", 2),
        ("unfinished", "x = (1,\n", 1),
        ("late future", "x = 1\nfrom __future__ import annotations", 2),
    ]

    def test_syntax_errors(self) -> None:
        for name, source, line in self.CASES:
            with self.subTest(name):
                ended = support.run(source)
                self.assertEqual(ended.error["type"], "SyntaxError")
                self.assertIn(f'File "main.py", line {line}', ended.error["traceback"])
                self.assertIn(source.splitlines()[line - 1].strip(), ended.error["traceback"])
                self.assertNotIn("airlock", ended.error["traceback"])
                self.assertEqual(ended.exit_code, 1)

    def test_null_byte(self) -> None:
        self.assertIn(support.run("x = 1\0").error["type"], ("SyntaxError", "ValueError"))


class LoopTest(unittest.TestCase):
    """asyncio is imported only for code that may need it."""

    def test_needs_loop(self) -> None:
        cases = [
            ("await add(a=1, b=2)", False),
            ("import json, os.path as p\nfrom math import (\n  sqrt)\nawait f()", False),
            ("# import numpy\nawait f()", False),
            ("import asyncio", True),
            ("import helper", True),
            ("import json, helper", True),
            ("import json; import helper", True),
            ("from . import helper", True),
            ("__import__('helper')", True),
            ("importlib.import_module('x')", True),
            ("exec('import helper')", True),
            ("class A:\n  def __await__(self):\n    yield", True),
        ]
        for source, want in cases:
            with self.subTest(source):
                self.assertEqual(code.needs_loop(source), want)

    def test_asyncio_is_spared(self) -> None:
        ended = support.run("import sys\nawait add(a=1, b=2)\nsorted({'asyn' + 'cio', 'json', 're', 'os'} & {*sys.modules})")
        self.assertEqual(ended.value, [])

    def test_own_module_with_a_loop(self) -> None:
        helper = "import asyncio\nasync def both(f):\n    return await asyncio.gather(f(a=1, b=2), f(a=3, b=4))\n"
        files = [{"path": "helper.py", "base64": __import__("base64").b64encode(helper.encode()).decode()}]
        ended = support.run("import helper\nawait helper.both(add)", files=files)
        self.assertEqual(ended.value, [{"sum": 3}, {"sum": 7}])

    def test_foreign_awaitable(self) -> None:
        """What needs a loop that is not there is an exception of the code that awaits it."""
        source = """
            class Strange:
                def __await__(self): return iter([5])
            try:
                await Strange()
            except RuntimeError as error:
                seen = str(error)
            seen
            """
        self.assertIn("event loop", run(source).value)

    def test_users_loop(self) -> None:
        ended = run("""
            import asyncio
            async def main():
                async with asyncio.timeout(5) if hasattr(asyncio, "timeout") else open_(): pass
                one = asyncio.create_task(add(a=1, b=2))
                two = asyncio.create_task(add(a=3, b=4))
                return [(await two)["sum"], (await one)["sum"]]
            class open_:
                async def __aenter__(self): pass
                async def __aexit__(self, *_): pass
            __result__ = [asyncio.run(main()), asyncio.run(main())]
            """)
        self.assertEqual(ended.value, [[7, 3], [7, 3]])


if __name__ == "__main__":
    unittest.main()
