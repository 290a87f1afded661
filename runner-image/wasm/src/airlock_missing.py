"""Has what a guest of WebAssembly lacks fail at once, in words that say how to ask for a backend that has it.

What a program may look for before it uses it fails as it does in any Python without it, so that hasattr, try and except
ImportError, and importlib.util.find_spec find what they look for missing:

    a module            ModuleNotFoundError, from an import only; looking for it finds nothing
    a name of a module  AttributeError, or ImportError from an import of the name
    a call              OSError with ENOTSUP, and for a thread the RuntimeError of a Python that can start none
"""

import errno
import opcode
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, NoReturn

INSTEAD = "require another backend for it, by requires.backends or submit --backend forkserver,bubblewrap,docker"
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]

# What the modules have on Linux, less the constants, whose names are upper case.
_NAMES = {
    "os": """
        chown chroot copy_file_range ctermid dup2 eventfd eventfd_read eventfd_write execv execve fchdir fchmod fchown
        fork forkpty fstatvfs fwalk get_terminal_size getegid geteuid getgid getgrouplist getgroups getloadavg getlogin
        getpgid getpgrp getppid getpriority getrandom getresgid getresuid getsid getuid getxattr grantpt initgroups kill
        killpg lchown listxattr lockf login_tty major makedev memfd_create minor mkfifo mknod nice openpty pidfd_open
        pipe pipe2 posix_fallocate posix_openpt posix_spawn posix_spawnp preadv ptsname pwritev readv register_at_fork
        removexattr sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler
        sched_param sched_rr_get_interval sched_setaffinity sched_setparam sched_setscheduler sendfile setegid seteuid
        setgid setgroups setns setpgid setpgrp setpriority setregid setresgid setresuid setreuid setsid setuid setxattr
        spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe splice statvfs sync tcgetpgrp tcsetpgrp
        timerfd_create timerfd_gettime timerfd_gettime_ns timerfd_settime timerfd_settime_ns ttyname umask unlockpt
        unshare wait wait3 wait4 waitid waitid_result waitpid waitstatus_to_exitcode writev
    """,
    "select": "epoll",
    "signal": """
        ItimerError Sigmasks alarm getitimer pause pidfd_send_signal pthread_kill pthread_sigmask setitimer siginterrupt
        sigpending sigtimedwait sigwait sigwaitinfo struct_siginfo valid_signals
    """,
    "socket": """
        gethostbyaddr gethostbyname_ex getnameinfo getprotobyname getservbyname getservbyport if_indextoname
        if_nameindex if_nametoindex inet_ntoa recv_fds send_fds sethostname
    """,
    "time": "clock_settime clock_settime_ns pthread_getcpuclockid thread_time thread_time_ns tzset",
}
# What multiprocessing makes of processes, shared memory and pipes.
_SHARED = """
    Array Barrier BoundedSemaphore Condition Event JoinableQueue Lock Manager Pipe Pool Queue RLock RawArray RawValue
    Semaphore SimpleQueue Value
"""


def lacking(what: str, more: str = "") -> "NoReturn":
    """Raises the error of a call that nothing can answer here."""
    raise OSError(errno.ENOTSUP, _sentence(what) + more)


def refuse() -> None:
    """Puts words in the place of everything that is missing. Importing what is there takes as long as before."""
    for module, names in _NAMES.items():
        _refuse_names(__import__(module), frozenset(names.split()))
    sys.meta_path.append(_Missing)
    _refuse_threads()
    _refuse_processes()
    _refuse_sockets()
    _refuse_descriptors()


def _sentence(what: str) -> str:
    return f"there is no {what} in the wasm backend: {INSTEAD}"


def _refuse_names(module: "ModuleType", names: "frozenset[str]") -> None:
    def __getattr__(name: str) -> "NoReturn":
        text = f"module {module.__name__!r} has no attribute {name!r}"
        if name not in names and not name.isupper():
            raise AttributeError(text)
        text += f" in the wasm backend: {INSTEAD}"
        if _imports(sys._getframe(1)):
            raise ImportError(text, name=module.__name__)
        # Without obj, so that no other name is suggested.
        raise AttributeError(text, name=name)

    module.__getattr__ = __getattr__


def _imports(frame: "Any") -> bool:
    """Reports whether a frame is at from … import …, which would have its own words for an AttributeError."""
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


class _Missing:
    """The last finder of all, which is asked for what no other has."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises the error of an import. Whoever only looks finds nothing, as everywhere."""
        if path is not None or sys._getframe(2).f_code.co_name != "_find_and_load_unlocked":
            return
        if name in sys.stdlib_module_names:
            why = f"the Python of the wasm backend was built without it: {INSTEAD}"
        else:
            why = f"the wasm backend has Python's own modules and the job's files only: {INSTEAD}, whose Python has it"
        raise ModuleNotFoundError(f"No module named {name!r}: {why}", name=name)


def _call_of(what: str, more: str = "") -> "Callable[..., NoReturn]":
    def refused(*_: object, **__: object) -> "NoReturn":
        lacking(what, more)

    return refused


def _refuse_threads() -> None:
    import _thread
    import threading
    from concurrent.futures import thread

    def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError(f"can't start new thread: there are none in the wasm backend: use asyncio, whose to_thread runs inline, or {INSTEAD}")

    _thread.start_new_thread = _thread.start_new = _thread.start_joinable_thread = no_thread
    threading.Thread.start = no_thread
    thread.ThreadPoolExecutor.submit = no_thread


def _refuse_processes() -> None:
    import multiprocessing.context
    import subprocess

    no_process = _call_of("subprocess")
    subprocess.Popen.__init__ = os.system = no_process
    for name in ("execl", "execle", "execlp", "execlpe", "execvp", "execvpe"):
        setattr(os, name, no_process)
    multiprocessing.process.BaseProcess.start = no_process
    for name in _SHARED.split():
        setattr(multiprocessing.context.BaseContext, name, no_process)
        setattr(multiprocessing, name, no_process)
    _refuse_process_pools()


def _refuse_process_pools() -> None:
    """Has the pools, which are loaded when they are first asked for, give their own error in our words."""
    import concurrent.futures

    load = concurrent.futures.__getattr__

    def __getattr__(name: str) -> object:
        found = load(name)
        if name == "ProcessPoolExecutor":
            pools = sys.modules["concurrent.futures.process"]
            pools._system_limits_checked, pools._system_limited = True, _sentence("subprocess")
        return found

    concurrent.futures.__getattr__ = __getattr__


def _refuse_sockets() -> None:
    import socket

    no_socket = _call_of("socket", "; to reach a network, by requires.network or --network too")
    socket.socket.__init__ = no_socket
    for name in ("getaddrinfo", "gethostbyname", "gethostname", "socketpair", "create_server", "create_connection", "fromfd"):
        setattr(socket, name, no_socket)


def _refuse_descriptors() -> None:
    def no_link(source: object, target: object, *_: object, **__: object) -> "NoReturn":
        raise PermissionError(errno.EPERM, _sentence("link"), source, None, target)

    os.dup = _call_of("second descriptor of a file")
    os.link = os.symlink = no_link
