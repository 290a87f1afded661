"""Files that come back: the section "artifact" of broker/PROTOCOL.md."""

import base64
import os
import pathlib
import textwrap
import unittest

import support

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "broker" / "testdata" / "globs.txt"


def run(code: str, globs: "list[str] | None" = None, **limits: int) -> support.Ended:
    return support.run(textwrap.dedent(code), collect=["**"] if globs is None else globs, limits=limits)


class GlobTest(unittest.TestCase):
    def test_shared_examples(self) -> None:
        from airlock_guest.artifacts import Globs

        lines = [line for line in EXAMPLES.read_text(encoding="utf-8").splitlines() if not line.startswith("# ")]
        self.assertGreater(len(lines), 60)
        for line in lines:
            want, glob, path = line.split("\t")
            with self.subTest(line):
                self.assertEqual(Globs([glob]).covers(path), want == "yes")

    def test_several(self) -> None:
        from airlock_guest.artifacts import Globs

        globs = Globs(["a/*", "b/**", "*.c"])
        found = [path for path in ("a/x", "b/x/y", "x.c", "c", "a", "b", "x/x.c") if globs.covers(path)]
        self.assertEqual(found, ["a/x", "b/x/y", "x.c", "b"])

    def test_long_ones_are_quick(self) -> None:
        from airlock_guest.artifacts import Globs

        self.assertFalse(Globs(["**/a/" * 100 + "c"]).covers("a/" * 250 + "b"))
        self.assertFalse(Globs(["*a" * 120 + "c"]).covers("a" * 255))


class ContentTest(unittest.TestCase):
    def test_in_pieces(self) -> None:
        ended = run("open('big', 'wb').write(bytes(range(256)) * 4096)")
        self.assertEqual(ended.artifacts, {"big": bytes(range(256)) * 4096})
        sizes = [len(base64.b64decode(f["params"]["base64"])) for f in ended.requests if f["method"] == "artifact"]
        self.assertEqual(sizes, [256 * 1024] * 4)

    def test_in_the_order_of_names(self) -> None:
        ended = run("""
            import os
            for name in ("b", "a/z", "a/b/c", "c/a", "B"):
                os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
                open(name, "w").close()
        """)
        self.assertEqual(list(ended.artifacts), ["B", "a/b/c", "a/z", "b", "c/a"])

    def test_before_the_result(self) -> None:
        ended = run("open('a', 'w').write('x')")
        self.assertEqual([frame["method"] for frame in ended.requests], ["artifact", "result"])
        self.assertNotIn("left_out", ended.result)

    def test_a_program_that_changed_itself(self) -> None:
        self.assertEqual(run("open('main.py', 'w').write('new')").artifacts, {"main.py": b"new"})
        self.assertEqual(run("import os; os.utime('main.py', (1, 1))").artifacts.keys(), {"main.py"})

    def test_not_of_those_that_leave(self) -> None:
        for code in ("raise SystemExit(0)", "import os; os._exit(3)"):
            ended = run(f"open('a', 'w').close()\n{code}")
            self.assertEqual((ended.artifacts, ended.result), ({}, None))

    def test_not_of_a_fork(self) -> None:
        ended = run("import os\nopen('a', 'w').close()\nif os.fork(): os.wait()")
        self.assertEqual(ended.artifacts, {"a": b""})

    def test_modules_of_the_job_are_not_found(self) -> None:
        ended = run("for name in ('os', 'stat', 'binascii'): open(name + '.py', 'w').write('1/0')", ["none"])
        self.assertEqual((ended.artifacts, ended.err), ({}, ""))


class BoundTest(unittest.TestCase):
    def test_room(self) -> None:
        ended = run(
            """
            for name, size in (("a", 600), ("b", 1001), ("c", 401), ("d", 400), ("e", 1), ("f", 0)):
                open(name, "wb").write(bytes(size))
            open("g", "w").truncate(1 << 42)
            """,
            artifacts=1000,
        )
        want = {"a": bytes(600), "b": "too_large", "c": "too_large", "d": bytes(400), "e": "too_large", "f": b""}
        self.assertEqual(ended.artifacts, {**want, "g": "too_large"})
        sizes = [frame["params"].get("size") for frame in ended.requests if frame["method"] == "artifact"]
        self.assertEqual(sizes, [None, 1001, 401, None, 1, None, 1 << 42])

    def test_count(self) -> None:
        ended = run("for n in range(300): open(f'{n:03}', 'w').close()")
        self.assertEqual(list(ended.artifacts), [f"{n:03}" for n in range(256)])
        self.assertEqual(ended.result["left_out"], 44)

    def test_links_count_too(self) -> None:
        ended = run("import os\nfor n in range(300): os.symlink('x', f'{n:03}')")
        self.assertEqual(set(ended.artifacts.values()), {"link"})
        self.assertEqual((len(ended.artifacts), ended.result["left_out"]), (256, 44))

    def test_names_that_are_looked_at(self) -> None:
        code = """
            import airlock_guest.artifacts as artifacts
            artifacts._MAX_SEEN = 10
            for n in range(20): open(str(n), "w").close()
        """
        code = code.replace("import airlock_guest.artifacts", "import sys, airlock_guest.artifacts")
        ended = run(code)
        self.assertEqual((len(ended.artifacts) <= 10, ended.result["left_out"]), (True, 1))


class HostileTest(unittest.TestCase):
    def test_links_that_no_glob_covers_are_nobodys(self) -> None:
        ended = run("import os\nos.symlink('main.py', 'file')\nos.symlink('/', 'folder')", ["**/*.csv"])
        self.assertEqual(ended.artifacts, {"folder": "link"})

    def test_deep_folders(self) -> None:
        ended = run(
            """
            import os
            top = os.getcwd()
            for _ in range(400):
                os.mkdir("d")
                os.chdir("d")
            open("x", "w").close()
            os.chdir(top)
            """
        )
        self.assertEqual(list(ended.artifacts.values()), ["name"])

    def test_a_file_that_grows_or_shrinks(self) -> None:
        for change in ("f.truncate(600_000)", "f.truncate(10)", "f.write(b'x')"):
            with self.subTest(change):
                ended = run(f"""
                    import os
                    f = open("big", "wb", buffering=0)
                    f.write(bytes(500_000))
                    os.utime("big", (1, 1))
                    f.seek(0)
                    def changed(descriptor, size, read=os.read, f=f):
                        data = read(descriptor, size)
                        if size == 256 * 1024:
                            {change}
                        return data
                    os.read = changed
                """)
                self.assertEqual(ended.artifacts, {"big": "changed"})

    def test_a_runtime_that_breaks(self) -> None:
        ended = run("""
            import os
            open("a", "wb").write(bytes(500_000))
            open("b", "w").close()
            def broken(descriptor, size, read=os.read):
                if size < 256 * 1024:
                    1 / 0
                return read(descriptor, size)
            os.read = broken
            return 7
        """)
        self.assertEqual((ended.artifacts, ended.value), ({"a": "unreadable"}, 7))
        self.assertIn("not all collected: ZeroDivisionError", ended.err)

    @unittest.skipIf(os.geteuid() == 0, "root reads everything")
    def test_unreadable(self) -> None:
        ended = run("import os\nopen('a', 'w').close()\nos.chmod('a', 0)\nos.mkdir('b')\nos.chmod('b', 0)")
        self.assertEqual(ended.artifacts, {"a": "unreadable", "b": "unreadable"})


if __name__ == "__main__":
    unittest.main()
