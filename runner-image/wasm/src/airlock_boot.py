"""Runs the guest package in a CPython for WASI, which has one thread, no processes and no sockets.

The host calls init once and copies the memory it leaves; in each copy it calls run once, for one job. The channel is
the built-in module _airlock, which carries whole frames; with it comes an event loop that waits in it. What is missing
here has its words from airlock_missing.
"""

import asyncio
import gc
import importlib
import os
import random
import sys

import _airlock
import airlock_missing
from airlock_guest import report
from airlock_guest import run as guest
from airlock_guest.wire import MAX_FRAME, Channel, ProtocolError
from airlock_missing import INSTEAD, lacking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

WORKSPACE = "/workspace"
# The folder with the guest package.
PACKAGE = "/guest"
# What stands for the channel where a descriptor is asked for. No descriptor has it.
CHANNEL = 1 << 30
_FOREVER = -1
# The longest wait that the host is asked for at once, in seconds: a loop that has longer to wait asks again.
_LONGEST = 86400.0
# Loaded into the image, since later it would cost each job its time.
_COMMON = (
    "airlock_guest.artifacts",
    "_sitebuiltins",
    "ast",
    "base64",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "inspect",
    "json",
    "math",
    "re",
    "string",
    "textwrap",
    "traceback",
    "typing",
)


class HostChannel(Channel):
    """The guest's end of a channel that the host keeps: frames come and go whole."""

    def __init__(self) -> None:
        self.descriptor = CHANNEL
        self.tagged = False
        self._received = bytearray()
        self._closed = False

    def fill(self) -> None:
        self._check_open()
        length = _airlock.wait(_FOREVER)
        if not 2 <= length <= MAX_FRAME:
            raise ProtocolError(f"a frame of {length} bytes")
        self._received += length.to_bytes(4, "big") + _airlock.take(length)

    def readable(self) -> bool:
        return wait(0.0)

    def close(self) -> None:
        self._closed = True

    def _write(self, body: bytes) -> None:
        self._check_open()
        _airlock.send(body)

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionError("the channel to the worker is closed")


def wait(seconds: "float | None") -> bool:
    """Waits until there is a frame, the channel is closed or the time is over; False for the last. None has no end."""
    time = _FOREVER if seconds is None else max(0, int(min(seconds, _LONGEST) * 1e6 + 0.999))
    try:
        return _airlock.wait(time) >= 0
    except ConnectionError:
        return True  # whoever reads learns it


class Loop(asyncio.BaseEventLoop):
    """An event loop that waits for timers and for the channel, the only thing here that anybody can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self  # what the base class asks to wait
        self._reader: "asyncio.Handle | None" = None

    def select(self, timeout: "float | None") -> "list[asyncio.Handle]":
        """Waits as long as nothing is to be done, and returns what is then."""
        if self._reader is not None:
            return [self._reader] if wait(timeout) else []
        if timeout is None:
            raise RuntimeError(
                "deadlock: every task waits for something that only another task could do, "
                "and no tool call and no timer is left: look at what is awaited and never set"
            )
        if timeout > 0:
            import time

            time.sleep(min(timeout, _LONGEST))
        return []

    def add_reader(self, descriptor: int, callback: "Callable[..., object]", *args: "Any") -> None:
        if descriptor != CHANNEL:
            lacking("waiting for descriptors")
        self._reader = asyncio.Handle(callback, args, self)

    def remove_reader(self, descriptor: int) -> bool:
        found = self._reader is not None and descriptor == CHANNEL
        if found:
            self._reader = None
        return found

    def add_writer(self, descriptor: int, callback: "Callable[..., object]", *args: "Any") -> None:
        lacking("waiting for descriptors")

    def remove_writer(self, descriptor: int) -> bool:
        return False

    def run_in_executor(self, executor: "Any", call: "Callable[..., Any]", *args: "Any") -> "asyncio.Future":
        """Makes the call at once, in the only thread there is."""
        self._check_closed()
        future = self.create_future()
        try:
            future.set_result(call(*args))
        except (SystemExit, KeyboardInterrupt):
            raise
        except StopIteration as error:  # which no future takes
            future.set_exception(RuntimeError(f"{call!r} raised {error!r}"))
        except BaseException as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, *_: "Any") -> "NoReturn":
        raise NotImplementedError(f"there are no signals in the wasm backend: {INSTEAD}")

    async def subprocess_exec(self, *_: "Any", **__: "Any") -> "NoReturn":
        lacking("subprocess")

    async def subprocess_shell(self, *_: "Any", **__: "Any") -> "NoReturn":
        lacking("subprocess")

    async def connect_read_pipe(self, *_: "Any") -> "NoReturn":
        lacking("waiting for pipes")

    async def connect_write_pipe(self, *_: "Any") -> "NoReturn":
        lacking("waiting for pipes")

    def _process_events(self, events: "list[asyncio.Handle]") -> None:
        for handle in events:
            self._ready.append(handle)

    def _write_to_self(self) -> None:
        """Does nothing: there is no other thread that could need the loop woken."""


class Policy(asyncio.events.BaseDefaultEventLoopPolicy):
    """Has asyncio.run and asyncio.new_event_loop make a Loop."""

    _loop_factory = Loop


def init() -> int:
    """Makes the state that every job starts from, and returns 0."""
    for name in _COMMON:
        importlib.import_module(name)
    asyncio.set_event_loop_policy(Policy())
    airlock_missing.refuse()
    report.starts += [init.__code__.co_filename, airlock_missing.refuse.__code__.co_filename]
    os.chdir(WORKSPACE)
    _ready.append(guest.prepare(HostChannel()))
    _warm_up()
    # The package finds its own modules; the path is the user's.
    sys.path.remove(PACKAGE)
    # A job's collections would otherwise copy the pages of what all jobs share.
    gc.collect()
    gc.freeze()
    return 0


# What the guest package made ahead, until the job takes it.
_ready: "list[Any]" = []


def _warm_up() -> None:
    from airlock_guest.code import compile_job

    asyncio.run(_warm())
    compile_job("import math\nx = [n for n in range(3)]\nawait f(x)\nx")


async def _warm() -> None:
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))


def run() -> int:
    """Runs one job and returns its exit code. It is called once in a copy of the memory that init left."""
    random.seed()  # all copies would draw alike
    return guest.serve(_ready.pop())
