"""The interpreter that is started once, warmed up, and forked for each slot."""

import gc
import importlib
import json
import os
import signal
import sys

from .. import code, run, workspace
from ..wire import Channel
from . import fresh, kernel, rehearsal, room, text
from .control import Control
from .slot import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..run import Ahead

_CONTROL = 3
_ORDER = 4
# Imported for every guest: what the guest's own code needs at some time, and what most programs ask for.
_COMMON = (
    "airlock_guest.calls",
    "airlock_guest.execution",
    "airlock_guest.job",
    "airlock_guest.report",
    "_sitebuiltins",
    "ast",
    "asyncio",
    "base64",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "functools",
    "heapq",
    "inspect",
    "io",
    "itertools",
    "json",
    "math",
    "operator",
    "os",
    "random",
    "re",
    "string",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
)
_WARM_ROUNDS = 4


def serve() -> "Ahead":
    """Forks slots as the worker asks for them. Returns in a guest, and only there, what it has for its job."""
    order = _read_order()
    text.enlarge()
    program = kernel.Filter(bytes.fromhex(order["filter"]))
    _import(order["modules"])
    _warm_up()
    _give_up_rights(order["root"])
    control = Control(_CONTROL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # slots that end need no farewell
    restorer = fresh.Restorer()
    rehearsal.rehearse()
    ahead = run.prepare(Channel(run.CHANNEL))
    # What an operator's modules want to have done in a child is done.
    fork = os.fork if order["modules"] else kernel.fork
    for thing in (order, program, restorer):
        kernel.immortalise(thing)
    gc.disable()
    gc.collect()
    kernel.immortalise(room.fill())
    gc.freeze()  # or each collection of a guest's would copy the template's memory, 4 to 23 ms
    control.send({"ready": True})
    while True:
        message, descriptors = control.receive()
        if message is None:
            os._exit(0)
        if _fork_slot(descriptors[0]):
            os.close(control.detach())
            Slot(descriptors[0], program, restorer, fork).serve()
            return ahead
        os.close(descriptors[0])


def _fork_slot(descriptor: int) -> bool:
    """Reports whether this process is the new slot. Others of the template run on where it cannot be."""
    try:
        return os.fork() == 0
    except OSError as error:
        refused = Control(descriptor)
        refused.fail(error)
        refused.detach()
        return False


def _read_order() -> dict:
    with open(_ORDER, "rb") as file:
        return json.load(file)


def _import(modules: "list[str]") -> None:
    """Imports what guests shall find loaded.

    asyncio comes without ssl: a guest has no network to use it on, importing it takes 5 ms, and a generator of random
    numbers that were used here would go on alike in every guest.
    """
    sys.modules["ssl"] = None
    for name in _COMMON:
        importlib.import_module(name)
    del sys.modules["ssl"]
    added = workspace.packages()
    sys.path += added
    for name in modules:
        importlib.import_module(name)
    if added:
        del sys.path[-len(added) :]


def _warm_up() -> None:
    """Goes once through what every guest goes through, so that it finds caches filled."""
    import asyncio

    for _ in range(_WARM_ROUNDS):
        asyncio.run(_warm())
        code.compile_job("import math\nx = [n for n in range(3)]\nawait f(x)\nx")
    asyncio.set_event_loop_policy(None)


async def _warm() -> None:
    import asyncio

    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))


def _give_up_rights(root: bool) -> None:
    if root:
        os.setgroups([])
    kernel.drop_bounding_set()
    kernel.no_new_privileges()
    kernel.undumpable()
    os.umask(0o077)
    if root:
        kernel.keep_capabilities(kernel.CAP_SYS_ADMIN, kernel.CAP_SETUID, kernel.CAP_SETGID)
    else:
        kernel.keep_capabilities(kernel.CAP_SYS_ADMIN)
