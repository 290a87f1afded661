"""A place where guests run, one after another.

Net, ipc, uts and cgroup namespaces, the control groups and the user are the slot's, so that a guest is born inside
them; its pid and mount namespaces are its own. A slot never reads anything of a job.
"""

import os
import select
import signal

from . import confine, fresh, kernel
from .control import Control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# How a process exits that could not be made a guest.
_NOT_CONFINED = 99


class Slot:
    """The slot's side of its control socket."""

    def __init__(self, descriptor: int, program: kernel.Filter, restorer: fresh.Restorer, fork: "Any") -> None:
        self._control = Control(descriptor)
        self._fork = fork
        self._program = program
        self._restorer = restorer
        self._poll = select.poll()
        self._init = kernel.Init()
        kernel.immortalise(self)
        self._self = -1

    def serve(self) -> None:
        """Forks guests until the worker hangs up. Returns in a guest, and only there."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            self._set_up()
        except OSError as error:
            self._control.fail(error)
            os._exit(_NOT_CONFINED)
        self._poll.register(self._control.fileno(), select.POLLIN)
        while True:
            order, descriptors = self._next()
            if "guest" not in order:
                continue  # a kill that came after the end
            if self._run(order["guest"], descriptors):
                return

    def _set_up(self) -> None:
        kernel.die_with_parent()
        kernel.unshare(kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS)
        self._control.send({"hello": True})
        self._next()  # the worker has put this process into its control groups
        kernel.unshare(kernel.NEWCGROUP)
        self._self = kernel.pidfd_open(os.getpid())
        self._control.send({"ready": True})

    def _next(self) -> "tuple[Any, list[int]]":
        order, descriptors = self._control.receive()
        if order is None:
            os._exit(0)
        return order, descriptors

    def _run(self, order: dict, descriptors: "list[int]") -> bool:
        """Runs one guest to its end, and reports whether this process is that guest."""
        init = guest = -1
        try:
            kernel.unshare(kernel.NEWPID)
            init = self._init.start()
            guest = self._fork()
        except OSError as error:
            self._control.fail(error)
        if guest == 0:
            self._become(order, descriptors)
            return True
        # The next fork is to be in our own namespace again, or the kernel refuses the next unshare.
        kernel.setns(self._self, kernel.NEWPID)
        for descriptor in descriptors:
            os.close(descriptor)
        if guest > 0:
            self._control.write(b'{"started":true}')
            self._attend(init, guest)
        elif init > 0:
            os.kill(init, signal.SIGKILL)
            os.waitpid(init, 0)
        return False

    def _attend(self, init: int, guest: int) -> None:
        pidfd = kernel.pidfd_open(guest)
        self._poll.register(pidfd, select.POLLIN)
        gone = False
        while not gone:
            ready = [descriptor for descriptor, _ in self._poll.poll()]
            gone = pidfd in ready
            if not gone:
                message, _ = self._control.receive()
                os.kill(init, signal.SIGKILL)  # and with it all of its namespace
                if message is None:
                    os._exit(0)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(guest, 0)
        os.kill(init, signal.SIGKILL)
        os.waitpid(init, 0)  # returns when nothing is left in the namespace
        cpu = int((usage.ru_utime + usage.ru_stime) * 1e9)
        resident = usage.ru_maxrss * 1024
        self._control.write(b'{"ended":{"status":%d,"cpu":%d,"resident":%d}}' % (status, cpu, resident))

    def _become(self, order: dict, descriptors: "list[int]") -> None:
        try:
            self._control.detach()
            confine.confine(order, descriptors, self._program)
            self._restorer.restore(order.get("input", False))
        except BaseException as error:
            os.write(2, f"airlock: cannot confine the guest: {error!r}\n".encode("utf-8", "backslashreplace"))
            os._exit(_NOT_CONFINED)
