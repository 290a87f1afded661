"""What user code can see of its interpreter is made what it is in one that has just been started.

What stays different is listed in backends/forkserver: more modules are loaded, the hash seed and addresses are those
of the template, and asyncio counts its tasks from where the template stopped.
"""

import gc
import io
import os
import signal
import sys

_OURS = "airlock_guest.forks"


def make_fresh() -> None:
    """Undoes what being a template has done to this interpreter."""
    for name in list(sys.modules):
        if name == _OURS or name.startswith(_OURS + "."):
            del sys.modules[name]
    vars(sys.modules["airlock_guest"]).pop("forks", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.orig_argv = [word.replace("/template.py", "/main.py") for word in sys.orig_argv]
    _reopen_stdin()
    if threading := sys.modules.get("threading"):
        threading.main_thread()._set_native_id()  # os.fork leaves the template's
    _reseed()
    gc.enable()


def _reopen_stdin() -> None:
    """Replaces the stream, since the template's knows of its own descriptor whether one can seek on it."""
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
