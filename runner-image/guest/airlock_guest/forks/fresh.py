"""What user code can see of its interpreter is made what it is in one that has just been started.

What stays different is listed in backends/forkserver: more modules are loaded, the hash seed and addresses are those
of the template, and asyncio counts its tasks from where the template stopped.
"""

import gc
import io
import os
import signal
import sys

from .. import streams
from . import kernel

_OURS = "airlock_guest.forks"


class Restorer:
    """Makes forks fresh, as cheaply as it can be had.

    Each page that a fork writes to is copied, 1.6 µs and 4 KiB a guest, and looking at an object writes to it. So all
    that can be is done in the template.
    """

    def __init__(self) -> None:
        """Prepares the template, whose last act before it is frozen this is."""
        self._names = tuple(name for name in sys.modules if name == _OURS or name.startswith(_OURS + "."))
        for name in self._names:
            kernel.immortalise(sys.modules[name])
        self._package = vars(sys.modules["airlock_guest"])
        self._argv = [word.replace("/template.py", "/main.py") for word in sys.orig_argv]
        _make_streams()

    def restore(self, has_input: bool) -> None:
        """Undoes in a guest what being a template has done to its interpreter."""
        for name in self._names:
            del sys.modules[name]
        del self._package["forks"]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.orig_argv = self._argv
        if has_input:
            _reopen_stdin()
        _catch_up()
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


def _catch_up() -> None:
    """Tells modules that they are in another process where os.fork does not."""
    if threading := sys.modules.get("threading"):
        threading.main_thread()._set_native_id()  # os.fork leaves the template's


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
