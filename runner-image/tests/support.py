"""Real guests for the tests: each is a process of its own, with its channel as descriptor 3, played by the test."""

import atexit
import base64
import compileall
import functools
import json
import os
import pathlib
import py_compile
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

GUEST = pathlib.Path(__file__).resolve().parent.parent / "guest"
TIMEOUT = 60

sys.path.insert(0, str(GUEST))

MATH = [
    {
        "namespace": "math",
        "name": "add",
        "description": "Adds two numbers.",
        "input_schema": {"type": "object", "properties": {"a": {}, "b": {}}},
    },
    {"namespace": "math", "name": "echo"},
]


@functools.lru_cache
def installed() -> str:
    """Returns the guest's main.py in a folder that is compiled, as backends start it."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = shutil.copytree(GUEST, pathlib.Path(folder, "guest"), ignore=shutil.ignore_patterns("__pycache__", "*.go"))
    compileall.compile_dir(target, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    return str(target / "main.py")


class Guest:
    """One guest process and the worker's end of its channel."""

    def __init__(self, **environment: str) -> None:
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(TIMEOUT)
        self.workspace = tempfile.mkdtemp()
        self.process = subprocess.Popen(
            # The shell moves the channel to descriptor 3, and leaves one open that is nobody's.
            ["/bin/sh", "-c", f'exec "$0" "$@" 3<&{theirs.fileno()} {theirs.fileno()}<&- 9</dev/null']
            + [sys.executable, "-I", "-S", "-B", installed()],
            pass_fds=(theirs.fileno(),),
            cwd=self.workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()

    def __enter__(self) -> "Guest":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.channel.close()
        shutil.rmtree(self.workspace, ignore_errors=True)

    def receive(self) -> "dict | None":
        """Returns the guest's next frame, or None at its end."""
        head = self._exactly(4)
        return json.loads(self._exactly(struct.unpack(">I", head)[0])) if head else None

    def send(self, frame: dict) -> None:
        self.send_bytes(json.dumps(frame).encode())

    def send_bytes(self, body: bytes) -> None:
        self.channel.sendall(struct.pack(">I", len(body)) + body)

    def wait(self) -> "tuple[int, bytes, bytes]":
        """Returns the exit code, stdout and stderr of a guest that ends by itself."""
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out, err

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.channel.recv(count - len(data))
            if not piece:
                return b""
            data += piece
        return data


class Ended:
    """How a guest ended and what it said."""

    def __init__(self, requests: "list[dict]", code: int, out: bytes, err: bytes, files: "dict[str, bytes]") -> None:
        self.requests = requests
        self.exit_code = code
        self.out = out.decode()
        self.err = err.decode()
        self.files = files
        results = [frame["params"] for frame in requests if frame["method"] == "result"]
        assert len(results) <= 1, f"got {len(results)} results, want at most one"
        self.result = results[0] if results else None

    @property
    def artifacts(self) -> "dict[str, bytes | str]":
        """What came back: content, or why there is none. Each file's frames must follow each other."""
        found: "dict[str, bytes | str]" = {}
        begun = b""
        for frame in self.requests:
            if frame["method"] == "artifact":
                path, why = frame["params"]["path"], frame["params"].get("refused")
                begun += base64.b64decode(frame["params"].get("base64", ""))
                assert path not in found, f"{path} came twice"
                if not frame["params"].get("more"):
                    found[path], begun = why or begun, b""
        assert not begun, "a file without its end"
        return found

    @property
    def value(self) -> object:
        assert self.result is not None and "value" in self.result, f"no value: {self.result}, {self.err}"
        return self.result["value"]

    @property
    def error(self) -> dict:
        assert self.result is not None and "error" in self.result, f"no error: {self.result}, {self.err}"
        return self.result["error"]


def answer(request: dict) -> dict:
    """A worker whose math tools work."""
    arguments = request["params"]["arguments"] if request["method"] == "call_tool" else {}
    if "a" in arguments:
        return {"id": request["id"], "ok": True, "value": {"sum": arguments["a"] + arguments["b"]}}
    return {"id": request["id"], "ok": True, "value": arguments}


def run(code: str, answer=answer, **params: object) -> Ended:
    """Runs code in a guest until it ends; answer makes the reply to each call."""
    requests = []
    with Guest() as guest:
        hello = guest.receive()
        assert hello and hello["method"] == "hello", hello
        guest.send({"method": "job", "params": {"code": code, "tools": MATH, **params}})
        while (request := guest.receive()) is not None:
            requests.append(request)
            if request["method"] == "artifact":
                continue
            reply = {"id": request["id"], "ok": True} if request["method"] == "result" else answer(request)
            guest.send(reply)
        ended = guest.wait()
        files = _files(guest.workspace)
        if files.get("main.py") == code.encode("utf-8", "surrogatepass"):
            del files["main.py"]  # the program itself, which has a test of its own
        return Ended(requests, *ended, files)


def _files(root: str) -> "dict[str, bytes]":
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = pathlib.Path(folder, name)
            if path.is_file() and path.stat().st_size < 64 << 20:  # no pipe, no sparse one
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found
