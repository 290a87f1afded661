"""The boot module of WebAssembly, under this Python: its host is played by a module _airlock of the test's own."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

BOOT = pathlib.Path(__file__).resolve().parent.parent / "wasm" / "src"

# A process in which _airlock answers each call of a tool with its arguments, after the seconds they name.
HOST = """
import json, sys, time, types
sys.path[:0] = sys.argv[1:3]
job = json.load(sys.stdin)
host = types.ModuleType("_airlock")
said, frames, next_frame = [], [], []

def send(body):
    if job["gone"] and said:
        raise ConnectionError("the channel to the worker is closed")
    frame = json.loads(bytes(body))
    said.append(frame)
    method, seconds, value = frame["method"], 0, None
    if method == "hello":
        answer = {"method": "job", "params": job["params"]}
    elif method == "artifact":
        return
    else:
        answer = {"id": frame["id"], "ok": True}
        if method == "call_tool":
            answer["value"] = frame["params"]["arguments"].get("value")
            seconds = frame["params"]["arguments"].get("seconds", 0)
    frames.append((time.monotonic() + seconds, json.dumps(answer).encode()))
    frames.sort()

def wait(microseconds):
    if next_frame:
        return len(next_frame[0])
    if not frames and (microseconds < 0 or job["gone"]):
        raise ConnectionError("the channel to the worker is closed")
    deadline = float("inf") if microseconds < 0 else time.monotonic() + microseconds / 1e6
    at = frames[0][0] if frames else float("inf")
    time.sleep(max(0, min(at, deadline) - time.monotonic()))
    if at > deadline:
        return -1
    next_frame.append(frames.pop(0)[1])
    return len(next_frame[0])

def take(length):
    assert length == len(next_frame[0]), (length, len(next_frame[0]))
    return next_frame.pop()

host.send, host.wait, host.take = send, wait, take
sys.modules["_airlock"] = host
import airlock_boot
airlock_boot.WORKSPACE, airlock_boot.PACKAGE = job["workspace"], sys.argv[2]
assert airlock_boot.init() == 0
import random
random.seed(1)  # as all copies of one memory have it
code = airlock_boot.run()
print(json.dumps({"code": code, "said": said}), file=sys.__stderr__)
"""


class Ended:
    """How a job ended."""

    def __init__(self, report: dict, out: str, err: str) -> None:
        self.exit_code = report["code"]
        self.said = report["said"]
        self.out, self.err = out, err
        results = [frame["params"] for frame in self.said if frame["method"] == "result"]
        self.result = results[0] if results else None

    @property
    def value(self) -> object:
        """The value; an error of the guest's fails the test with its words."""
        assert self.result is not None and "value" in self.result, (self.result, self.err)
        return self.result["value"]

    @property
    def error(self) -> dict:
        assert self.result is not None and "error" in self.result, (self.result, self.err)
        return self.result["error"]


def run(code: str, gone: bool = False, **params: object) -> Ended:
    """Runs one job to its end."""
    with tempfile.TemporaryDirectory() as workspace:
        tools = [{"namespace": "t", "name": "echo"}]
        job = {"workspace": workspace, "gone": gone, "params": {"code": code, "tools": tools, **params}}
        process = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", HOST, str(BOOT), str(support.GUEST)],
            input=json.dumps(job),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=support.TIMEOUT,
            text=True,
        )
    lines = process.stderr.splitlines()
    assert process.returncode == 0 and lines, process.stderr
    return Ended(json.loads(lines[-1]), process.stdout, "\n".join(lines[:-1]))


class JobTest(unittest.TestCase):
    def test_value(self) -> None:
        ended = run("print('out')\nx + 1", vars={"x": 41})
        self.assertEqual((ended.value, ended.out, ended.exit_code), (42, "out\n", 0))
        self.assertEqual([frame["method"] for frame in ended.said], ["hello", "result"])

    def test_error_shows_no_frame_of_ours(self) -> None:
        ended = run("def f():\n    1 / 0\nf()")
        self.assertEqual((ended.error["type"], ended.exit_code), ("ZeroDivisionError", 1))
        self.assertEqual(ended.error["traceback"].count("File "), 2)

    def test_exit(self) -> None:
        ended = run("import sys\nsys.exit(7)")
        self.assertEqual((ended.result, ended.exit_code), (None, 7))

    def test_files(self) -> None:
        ended = run(
            "open('b.txt', 'w').write(open('a/a.txt').read() * 2)",
            files=[{"path": "a/a.txt", "base64": "aGk="}],
            collect=["*.txt"],
        )
        artifacts = [frame["params"] for frame in ended.said if frame["method"] == "artifact"]
        self.assertEqual(artifacts, [{"path": "b.txt", "base64": "aGloaQ=="}])

    def test_random_is_seeded_again(self) -> None:
        code = "import random\nrandom.random()"
        self.assertNotEqual(run(code).value, run(code).value)

    def test_worker_gone(self) -> None:
        ended = run("echo(value=1)", gone=True)
        self.assertEqual(ended.exit_code, 70)
        self.assertIn("the channel to the worker is closed", ended.err)


class LoopTest(unittest.TestCase):
    def test_calls_without_a_loop(self) -> None:
        self.assertEqual(run("(await echo(value=1)) + (await echo(value=2))").value, 3)

    def test_gather(self) -> None:
        code = """
import asyncio
order = []
async def call(value, seconds):
    order.append(await echo(value=value, seconds=seconds))
await asyncio.gather(call(1, .6), call(2, .3), call(3, 0))
order
"""
        self.assertEqual(run(code).value, [3, 2, 1])

    def test_timers_run_while_a_call_is_open(self) -> None:
        code = """
import asyncio
order = []
async def tick():
    await asyncio.sleep(.01)
    order.append("tick")
async def call():
    order.append(await echo(value="call", seconds=1))
await asyncio.gather(call(), tick())
order
"""
        self.assertEqual(run(code).value, ["tick", "call"])

    def test_wait_for(self) -> None:
        code = """
import asyncio
try:
    await asyncio.wait_for(echo(value=1, seconds=3600), .05)
except TimeoutError:
    late = await echo(value="late")
late
"""
        self.assertEqual(run(code).value, "late")

    def test_run_of_the_users_own(self) -> None:
        code = """
import asyncio
async def main():
    queue = asyncio.Queue()
    async def put():
        await queue.put(await echo(value=5))
    task = asyncio.create_task(put())
    got = await queue.get()
    await task
    return got, await asyncio.to_thread(pow, 2, 5)
[*asyncio.run(main()), asyncio.run(asyncio.sleep(0, 7))]
"""
        self.assertEqual(run(code).value, [5, 32, 7])

    def test_to_thread_raises(self) -> None:
        ended = run("import asyncio\nawait asyncio.to_thread(int, 'x')")
        self.assertEqual(ended.error["type"], "ValueError")

    def test_deadlock(self) -> None:
        ended = run("import asyncio\nawait asyncio.Event().wait()")
        self.assertEqual(ended.error["type"], "RuntimeError")
        self.assertIn("deadlock", ended.error["message"])
        self.assertNotIn("airlock_boot", ended.error["traceback"])

    def test_deadlock_ends_what_waits(self) -> None:
        code = "import asyncio\ntry:\n    await asyncio.Queue().get()\nfinally:\n    print('cleaned up')"
        self.assertEqual(run(code).out, "cleaned up\n")


class MissingTest(unittest.TestCase):
    def test_words(self) -> None:
        for code, kind in {
            "import threading\nthreading.Thread(target=print).start()": "RuntimeError",
            "import _thread\n_thread.start_new_thread(print, ())": "RuntimeError",
            "from concurrent.futures import *\nThreadPoolExecutor().submit(print)": "RuntimeError",
            "import subprocess\nsubprocess.run(['true'])": "OSError",
            "import os\nos.system('true')": "OSError",
            "import os\nos.popen('true')": "OSError",
            "import multiprocessing\nmultiprocessing.Process(target=print).start()": "OSError",
            "import multiprocessing\nmultiprocessing.Pool()": "OSError",
            "import asyncio\nawait asyncio.create_subprocess_exec('true')": "OSError",
            "import asyncio\nawait asyncio.create_subprocess_shell('true')": "OSError",
            "import asyncio\nawait asyncio.open_connection('localhost', 1)": "OSError",
            "import asyncio\nasyncio.get_running_loop().add_reader(0, print)\nawait asyncio.sleep(0)": "OSError",
            "import socket\nsocket.socket()": "OSError",
            "import socket\nsocket.create_connection(('localhost', 1))": "OSError",
            "import urllib.request\nurllib.request.urlopen('http://localhost')": "urllib.error.URLError",
        }.items():
            with self.subTest(code):
                ended = run(code)
                self.assertEqual(ended.error["type"], kind)
                self.assertRegex(ended.error["message"], "in the wasm backend: .*require another backend")

    def test_a_thread_that_failed_is_no_more_to_wait_for(self) -> None:
        code = """
import threading
try:
    threading.Thread(target=print).start()
except RuntimeError:
    pass
threading.active_count()
"""
        self.assertEqual(run(code).value, 1)


if __name__ == "__main__":
    unittest.main()
