"""What user code can see of its interpreter is made what it is in one that has just been started.

What stays different is listed in backends/forkserver: more modules are loaded, the hash seed and addresses are those
of the template, and asyncio counts its tasks from where the template stopped.
"""

import gc
import io
import os
import random
import signal
import sys
import threading
from _thread import get_native_id

from .. import streams
from . import kernel

_OURS = "airlock_guest.forks"
# Modules with secrets or generators that _reseed renews.
_SEEDED = {"numpy.random", "multiprocessing.process"}


class Restorer:
    """Makes forks fresh, as cheaply as it can be had.

    Each page that a fork writes to is copied, 1.6 µs and 4 KiB a guest, and looking at an object writes to it. So all
    that can be is done in the template.
    """

    def __init__(self) -> None:
        """Prepares the template, which from then on looks to what runs in it as a guest does."""
        for name in [name for name in sys.modules if name == _OURS or name.startswith(_OURS + ".")]:
            kernel.immortalise(sys.modules.pop(name))
        del vars(sys.modules["airlock_guest"])["forks"]
        sys.orig_argv = [word.replace("/template.py", "/main.py") for word in sys.orig_argv]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._main = threading.main_thread()
        # Without random.Random.seed, which is Python.
        self._reseed_random = super(random.Random, random._inst).seed
        self._others = not _SEEDED.isdisjoint(sys.modules)
        _make_streams()

    def restore(self, has_input: bool) -> None:
        """Undoes in a guest what being a template has done to its interpreter."""
        if has_input:
            _reopen_stdin()
        self._main._native_id = get_native_id()
        self._reseed_random()
        if self._others:
            _reseed()
        gc.enable()


def _make_streams() -> None:
    """Makes stdout and stderr while both are pipes, as they will be in guests: a stream asks that only once."""
    reader, writer = os.pipe()
    saved = [(number, os.dup(number)) for number in (1, 2)]
    for number, _ in saved:
        os.dup2(writer, number)
    streams.set_up()
    for number, copy in saved:
        os.dup2(copy, number)
        os.close(copy)
    os.close(reader)
    os.close(writer)


def _reopen_stdin() -> None:
    """Replaces the stream of a guest whose input is not the null device, since the template's knows of its own descriptor whether one can seek on it."""
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    stream = io.TextIOWrapper(io.BufferedReader(raw), "utf-8", "surrogateescape", "\n")
    stream.mode = "r"
    sys.stdin = sys.__stdin__ = stream


def _reseed() -> None:
    """Gives a seed of their own to generators that do not see to it themselves, as random does."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        multiprocessing.current_process().authkey = os.urandom(32)
