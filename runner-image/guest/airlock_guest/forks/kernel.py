"""The system calls that a template needs and Python lacks. Each raises OSError with its own name."""

import ctypes
import mmap
import os
import signal

NEWNS = 0x00020000
NEWCGROUP = 0x02000000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWPID = 0x20000000
NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4

CAP_SETGID = 6
CAP_SETUID = 7
CAP_SYS_ADMIN = 21

_CLONE_VM = 0x100
_CLONE_FILES = 0x400
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITIES_V3 = 0x20080522
_MADV_HUGEPAGE = 14
_MADV_COLLAPSE = 25
_MREMAP_MAYMOVE_FIXED = 3
_SYS_CLOSE_RANGE = 436  # on every architecture
_SYS_PIDFD_OPEN = 434

_libc = ctypes.PyDLL(None, use_errno=True)  # these calls do not wait, so the interpreter's lock is kept
_int, _long, _ulong, _text = ctypes.c_int, ctypes.c_long, ctypes.c_ulong, ctypes.c_char_p


def _function(name: str, *arguments, result=_int):
    function = getattr(_libc, name)
    function.argtypes, function.restype = arguments, result
    return function


_unshare = _function("unshare", _int)
_setns = _function("setns", _int, _int)
_mount = _function("mount", _text, _text, _text, _ulong, _text)
_prctl = _function("prctl", _int, _ulong, _ulong, _ulong, _ulong)
_capset = _function("capset", ctypes.c_void_p, ctypes.c_void_p)
_syscall = _function("syscall", _long, _ulong, _ulong, _ulong, result=_long)
_fork = _function("fork")
_clone = _function("clone", ctypes.c_void_p, ctypes.c_void_p, _int, ctypes.c_void_p)
_mmap = _function("mmap", ctypes.c_void_p, _ulong, _int, _int, _int, _long, result=ctypes.c_void_p)
_munmap = _function("munmap", ctypes.c_void_p, _ulong)
_mprotect = _function("mprotect", ctypes.c_void_p, _ulong, _int)
_madvise = _function("madvise", ctypes.c_void_p, _ulong, _int)
_mremap = _function("mremap", ctypes.c_void_p, _ulong, _ulong, _int, ctypes.c_void_p, result=ctypes.c_void_p)
_malloc = _function("malloc", _ulong, result=ctypes.c_void_p)
_free = _function("free", ctypes.c_void_p, result=None)
_dladdr = _function("dladdr", ctypes.c_void_p, ctypes.c_void_p)
_pause = ctypes.cast(_libc.pause, ctypes.c_void_p)


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def unshare(flags: int) -> None:
    _check(_unshare(flags), "unshare")


def fork() -> int:
    """Forks as os.fork does, but for what modules have asked to be done in a child.

    That and what the interpreter does there put right what other threads may have left behind. It is all Python, and
    writes to 200 pages of a guest; for a process that has one thread it changes nothing but what fresh.py sees to.
    """
    return _check(_fork(), "fork")


def setns(descriptor: int, kind: int) -> None:
    _check(_setns(descriptor, kind), "setns")


def pidfd_open(pid: int) -> int:
    return _check(_syscall(_SYS_PIDFD_OPEN, pid, 0, 0), "pidfd_open")


def close_from(first: int) -> None:
    _check(_syscall(_SYS_CLOSE_RANGE, first, 0xFFFFFFFF, 0), "close_range")


def mount_tmpfs(path: str, options: str) -> None:
    _check(_mount(b"tmpfs", path.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options.encode()), f"mount {path}")


def no_new_privileges() -> None:
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def undumpable() -> None:
    """Keeps what the process is made of from others of its user. A change of user undoes it."""
    _check(_prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")


def die_with_parent() -> None:
    """Has the kernel kill this process when its parent dies. A change of user undoes it."""
    _check(_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "pdeathsig")


def drop_bounding_set() -> None:
    """Gives every capability up for what this process may start, and the ambient ones."""
    _check(_prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient capabilities")
    capability = 0
    while _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if capability == 0:
        _check(-1, "bounding set")


_header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
# Effective, permitted and inheritable, of the low 32 and then the high 32.
_Sets = ctypes.c_uint32 * 6
_none = _Sets()


def keep_capabilities(*kept: int) -> None:
    """Gives up all capabilities but these."""
    mask = sum(1 << capability for capability in kept)
    _check(_capset(_header, _Sets(mask, mask, 0, 0, 0, 0)), "capset")


def drop_capabilities() -> None:
    """Gives up all capabilities."""
    _check(_capset(_header, _none), "capset")


def immortalise(thing: object) -> None:
    """Has an object never be freed: that would write to every page that it is on, and copy them in a fork."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def base_of(function: "ctypes._FuncPointer") -> int:
    """Returns where the program or library is loaded that has the function."""
    # Dl_info: the file's name, the base, the nearest symbol's name and address.
    found = (ctypes.c_void_p * 4)()
    if not _dladdr(ctypes.cast(function, ctypes.c_void_p), found):
        raise OSError("dladdr: no such function")
    return found[1] or 0


def replace_with_huge(start: int, length: int, alignment: int) -> None:
    """Puts a copy on huge pages, read-only and executable, in the place of what lies there, which nobody may write to.

    Whatever fails does so before anything is replaced.
    """
    room = _mmap(None, length + alignment, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if room in (None, ctypes.c_void_p(-1).value):
        _check(-1, "mmap")
    copy = (room + alignment - 1) & -alignment
    try:
        _check(_madvise(copy, length, _MADV_HUGEPAGE), "madvise")
        ctypes.memmove(copy, start, length)
        # They are huge already where the kernel gives such pages on a touch; this does it, or says no, everywhere.
        _check(_madvise(copy, length, _MADV_COLLAPSE), "collapse")
        _check(_mprotect(copy, length, mmap.PROT_READ | mmap.PROT_EXEC), "mprotect")
        if _mremap(copy, length, length, _MREMAP_MAYMOVE_FIXED, start) != start:
            _check(-1, "mremap")
    finally:
        _munmap(room, length + alignment)


# The C library maps what is larger.
_LARGEST_CHUNK = 100 << 10
_MOST_CHUNKS = 5_000


def fill_heap(smallest: int) -> None:
    """Takes the chunks that lie free between others, from the largest to the smallest, and never gives them back."""
    size = _LARGEST_CHUNK
    while size > smallest:
        before = _malloc(size)
        for _ in range(_MOST_CHUNKS):
            chunk = _malloc(size)
            if chunk is None or before is None or 0 < chunk - before <= size + 32:
                _free(chunk)  # they follow one another, at the end of the heap
                _free(before)
                break
            before = chunk
        size = size * 3 // 4 if size > 4 << 10 else size - 16


class Filter:
    """A system-call filter as the kernel takes it."""

    class _Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    def __init__(self, instructions: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(instructions, len(instructions))
        self._program = self._Program(len(instructions) // 8, ctypes.cast(self._buffer, ctypes.c_void_p))
        self._address = ctypes.addressof(self._program)

    def install(self) -> None:
        """Installs the filter for this process and all it will start."""
        _check(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, self._address, 0, 0), "seccomp")


class Init:
    """Starts the first process of a new pid namespace.

    It only waits: a guest that were the first itself would be deaf to most signals, and os.abort() would look like a
    segmentation fault. It shares this process's memory and descriptors, so that it costs no copy and keeps none open,
    has a stack of its own, never returns from the C library, and ends before the next is started. Orphans that it inherits vanish when they end,
    since it ignores the signal that tells of them.
    """

    _STACK = 16 << 10

    def __init__(self) -> None:
        self._stack = mmap.mmap(-1, self._STACK, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._stack))
        self._top = (start + self._STACK) & ~0xF

    def start(self) -> int:
        """Starts it and returns its pid. What unshare(NEWPID) made is its namespace."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            return _check(_clone(_pause, self._top, _CLONE_VM | _CLONE_FILES | signal.SIGCHLD, None), "clone")
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
