"""Files, environment, arguments and variables of a job."""

import base64
import os
import textwrap
import unittest

import support


def file(path: str, content: bytes = b"") -> dict:
    return {"path": path, "base64": base64.b64encode(content).decode()}


class DescriptorTest(unittest.TestCase):
    def test_strays_are_closed(self) -> None:
        code = """
            import os
            found = []
            for fd in range(64):
                try:
                    os.fstat(fd)
                except OSError:
                    continue
                found.append(fd)
            return found
        """
        self.assertEqual(support.run(textwrap.dedent(code)).value, [0, 1, 2, 3])


class FileTest(unittest.TestCase):
    def test_written(self) -> None:
        files = [file("a.txt", b"\x00\xff"), file("deep/er/b.txt", b"b"), file("deep/c.txt"), file("ä ö.txt", b"u")]
        ended = support.run("open('deep/er/b.txt').read()", files=files)
        self.assertEqual(ended.value, "b")
        self.assertEqual(ended.files, {"a.txt": b"\x00\xff", "deep/er/b.txt": b"b", "deep/c.txt": b"", "ä ö.txt": b"u"})

    def test_the_program_is_where_file_says(self) -> None:
        self.assertEqual(support.run("open(__file__).read()").value, "open(__file__).read()")
        ended = support.run("open(__file__).read()", files=[file("main.py", b"mine")])
        self.assertEqual((ended.value, ended.files), ("mine", {"main.py": b"mine"}))

    def test_started_by_multiprocessing(self) -> None:
        code = """
            import multiprocessing
            def negate(x):
                return -x
            if __name__ == "__main__":
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    __result__ = pool.map(negate, [1, 2])
        """
        self.assertEqual(support.run(textwrap.dedent(code)).value, [-1, -2])

    def test_refused(self) -> None:
        cases = [
            [file("/tmp/airlock-never")],
            [file("../up")],
            [file("a/../../up")],
            [file("a\\b")],
            [file("twice"), file("twice")],
            [file("f"), file("f/below")],
            [file("")],
            [file("dir/")],
            [file("nul\0")],
            [{"path": "no-content"}],
            ["text"],
            [{"path": "x", "base64": "a"}],
            [{"path": 5, "base64": ""}],
        ]
        for files in cases:
            with self.subTest(files):
                ended = support.run("print('never')", files=files)
                self.assertEqual((ended.error["type"], ended.exit_code, ended.out), ("FileSetupError", 1, ""))
                self.assertNotIn('File "', ended.error["traceback"])

    def test_links_are_not_followed(self) -> None:
        for path in ("link", "folder/x"):
            with self.subTest(path), support.Guest() as guest:
                os.symlink("/tmp/airlock-never", f"{guest.workspace}/link")
                os.symlink("/tmp", f"{guest.workspace}/folder")
                guest.receive()
                guest.send({"method": "job", "params": {"code": "1", "files": [file(path)]}})
                self.assertEqual(guest.receive()["params"]["error"]["type"], "FileSetupError")


class InputTest(unittest.TestCase):
    def test_arguments(self) -> None:
        self.assertEqual(support.run("import sys\nsys.argv", args=["-v", "ä", ""]).value, ["main.py", "-v", "ä", ""])

    def test_environment(self) -> None:
        source = """
            import os, subprocess
            echo = subprocess.check_output(["/bin/sh", "-c", "echo $MODE"], text=True)
            [os.environ["MODE"], os.getenv("NAME"), echo]
            """
        self.assertEqual(support.run(textwrap.dedent(source), env={"MODE": "fast", "NAME": "ä"}).value, ["fast", "ä", "fast\n"])

    def test_bad_environment(self) -> None:
        ended = support.run("1", env={"A": "nul\0"})
        self.assertEqual((ended.error["type"], ended.exit_code), ("ValueError", 1))

    def test_variables(self) -> None:
        values = {"x": 2**60 + 1, "y": [None, {"z": 1.5}], "not an identifier": 1, "print": 5}
        ended = support.run("def f(): return x\n[f(), y, globals()['not an identifier'], print]", vars=values)
        self.assertEqual(ended.value, [2**60 + 1, [None, {"z": 1.5}], 1, 5])

    def test_imports(self) -> None:
        helper = b"X = 5\ndef add_up(): import __main__; return __main__.tools\n"
        files = [file("helper.py", helper), file("pkg/__init__.py", b"Y = 6")]
        source = """
            import sys, os, helper, pkg
            [helper.X, pkg.Y, sys.path[0] == os.getcwd(), helper.add_up() is tools,
             [p for p in sys.path if p.endswith("guest")]]
            """
        self.assertEqual(support.run(textwrap.dedent(source), files=files).value, [5, 6, True, True, []])

    def test_helper_modules_see_tool_errors(self) -> None:
        files = [file("helper.py", b"E = ToolError")]
        self.assertEqual(support.run("import helper\nhelper.E is ToolError", files=files).value, True)

    def test_standard_input_is_at_its_end(self) -> None:
        self.assertEqual(support.run("import sys\nsys.stdin.read()").value, "")


class OutputTest(unittest.TestCase):
    def test_kept_up_to_a_kill(self) -> None:
        source = """
            import sys, os, signal
            print("start", end="")
            print("error", end="", file=sys.stderr)
            os.kill(os.getpid(), signal.SIGKILL)
            """
        ended = support.run(textwrap.dedent(source))
        self.assertEqual((ended.exit_code, ended.out, ended.err), (-9, "start", "error"))

    def test_never_fails_for_the_text(self) -> None:
        ended = support.run("import sys\nprint('ä“\\ud800\\udc80\\0')\nprint('\\ud800', file=sys.stderr)")
        self.assertEqual((ended.out, ended.err), ("ä“\\ud800\\udc80\0\n", "\\ud800\n"))

    def test_encoding_is_utf8_whatever_the_locale(self) -> None:
        with support.Guest(LC_ALL="C", PYTHONIOENCODING="latin-1", PYTHONUTF8="0") as guest:
            guest.receive()
            source = "print('ä')\nimport sys\n[sys.stdout.encoding, sys.stdin.encoding]"
            guest.send({"method": "job", "params": {"code": source}})
            result = guest.receive()
            guest.send({"id": result["id"], "ok": True})
            self.assertEqual(guest.wait()[1], "ä\n".encode())
            self.assertEqual(result["params"]["value"], ["utf-8", "utf-8"])

    def test_bytes_and_text_keep_their_order(self) -> None:
        source = "import sys\nprint('a', end='')\nsys.stdout.buffer.write(b'b')\nprint('c')\nsys.__stdout__.write('d')"
        ended = support.run(source)
        self.assertEqual(ended.out, "abc\nd")

    def test_replaced_and_closed_streams(self) -> None:
        for source in (
            "import sys\nsys.stdout = None",
            "import sys\nsys.stdout.close()\nsys.stderr = 5",
            "import os\nos.close(1); os.close(2)",
        ):
            with self.subTest(source):
                ended = support.run(source + "\nx = add(a=1, b=2)\n7")
                self.assertEqual((ended.value, ended.exit_code), (7, 0))


if __name__ == "__main__":
    unittest.main()
