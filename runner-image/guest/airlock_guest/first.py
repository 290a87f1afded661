"""The first process of a container, which carries the guest's streams over the container's own.

A container has one stream in and one out that a program may keep for itself; its standard error is the third. The
guest needs five: its channel both ways, stdin, stdout, stderr. So this process, which never runs the user's code,
puts frames around the bytes of each: one byte that says what they are, four that say how many, the most significant
first. FRAMES lists them. Each side may send only as many bytes of the channel and of stdin as the other has granted,
WINDOW at the start, so that neither ever holds more, and one that is not read keeps nobody else waiting.

It also is the init of the container's processes. It reaps them, kills the rest when the guest's main process is over,
and reports how that one ended as the kernel told it, which the container's own exit code cannot: there 137 may be a
kill or a number. With it goes what the kernel counted of all that was reaped, for a worker that cannot read the
container's counters; what a guest has reaped unseen, by ignoring SIGCHLD, is not in it. The guest cannot speak for it. The kernel shields the first process of a pid namespace from signals
of its own namespace, and the interpreter's file may be run but not read, so that the kernel lets nobody look into the
memory or at the descriptors of a process that runs it. main() refuses to start without that.
"""

import sys
from _signal import SIG_DFL, SIGCHLD, SIGINT, SIGKILL, default_int_handler, set_wakeup_fd, signal

import posix
from select import POLLIN, POLLOUT, poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The version of all this, in the greeting. A worker takes no other.
VERSION = 3

WINDOW = 256 * 1024
_PIECE = 64 * 1024
# Beyond that much unsent, the guest's streams are not read: what is held back is held by the kernel.
_UNSENT = 256 * 1024
_DESCRIPTORS = 256
_WRITABLE = ("/tmp", "/workspace", "/dev/shm")

# What frames hold. From the worker: bytes for the channel, the channel's end, bytes for stdin, stdin's end, a grant
# of so many bytes of the channel, the order to kill. To the worker: this process is ready, bytes of the channel, the
# guest closed the channel, bytes of stdout and stderr, grants of the channel and of stdin, the end.
#
# The body of the first to the worker is text, lines of a name, a colon and a value; those that are not the kernel's are
# Airlock, which is VERSION, Python, Kernel, and CPU, the microseconds that this process has used. That of the last is
# the guest's wait status in 4 bytes, one byte of flags, _FULL and _MANY, and 8 bytes each of the microseconds of
# processor time and of the bytes of the largest process's peak, of the guest and all its children that were waited for.
FRAMES = "cCiIgk" "rcCoegsx"
_FULL, _MANY = 1, 2  # a file system is full; the guest had more than one process or thread

_ENVIRONMENT = {
    "HOME": "/workspace",
    "TMPDIR": "/tmp",
    "PWD": "/workspace",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def main() -> bool:
    """Starts the guest and returns True in its process; does not return in this one."""
    if posix.getpid() != 1:
        _refuse("it is for the first process of a container only")
    if posix.getuid() == 0 or posix.stat("/proc/1/mem").st_uid != 0:
        _refuse("the image lets a guest read the interpreter that watches over it: make the image anew")
    signal(SIGINT, SIG_DFL)
    first = First()
    if first.start():
        return True
    try:
        first.attend()
    except ConnectionError:
        pass  # the worker is gone, and so is the guest when this process is
    posix._exit(0)


def _refuse(why: str) -> None:
    posix.write(2, f"airlock: cannot start a guest: {why}\n".encode())
    posix._exit(71)


class First:
    """The streams of the guest, as this process has them, and what is on the way."""

    def __init__(self) -> None:
        from _socket import AF_UNIX, SOCK_STREAM, socketpair

        self.stdin_end, self.stdin = posix.pipe()
        self.stdout, self.stdout_end = posix.pipe()
        self.stderr, self.stderr_end = posix.pipe()
        ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
        self.channel, self.channel_end = ours.detach(), theirs.detach()
        self.woken, self.wake = posix.pipe()
        self.received = bytearray()  # from the worker
        self.unsent = bytearray()  # to the worker
        self.to_channel, self.to_stdin = bytearray(), bytearray()
        self.channel_over = self.stdin_over = False  # the worker sent its end
        self.granted = WINDOW
        self.guest = 0
        self.status = -1

    def start(self) -> bool:
        """Forks the guest. Returns True there."""
        self.guest = posix.fork()
        if self.guest == 0:
            self._become_guest()
            return True
        for fd in (self.stdin_end, self.stdout_end, self.stderr_end, self.channel_end):
            posix.close(fd)
        for fd in (0, 1, self.stdin, self.stdout, self.stderr, self.channel, self.woken, self.wake):
            posix.set_blocking(fd, False)
        signal(SIGCHLD, lambda *_: None)
        set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        # Now, as there may be no memory to load it when the guest is over.
        from resource import RUSAGE_SELF, getrusage

        self.send("r", _posture(_microseconds(getrusage(RUSAGE_SELF))))
        return False

    def _become_guest(self) -> None:
        signal(SIGINT, default_int_handler)
        for fd, number in ((self.stdin_end, 0), (self.stdout_end, 1), (self.stderr_end, 2), (self.channel_end, 3)):
            posix.dup2(fd, number)
        posix.closerange(4, _DESCRIPTORS)
        posix.umask(0o077)
        for name in list(posix.environ):
            posix.unsetenv(name)
        posix.environ.clear()
        here = posix.readlink(sys.executable).rpartition("/")[0]
        for name, content in {**_ENVIRONMENT, "PATH": here}.items():
            posix.putenv(name, content)
            posix.environ[name.encode()] = content.encode()
        sys.executable = sys._base_executable = here + "/python3"

    def attend(self) -> None:
        """Carries bytes until the guest is over, then reports its end and waits for the worker to hang up."""
        self.reap()
        while self.status < 0:
            self.turn()
        self.kill_all()
        self.last_words()
        self.send("x", self.ending())
        while True:
            self.turn()

    def ending(self) -> bytes:
        """Says how the guest ended and what it has used, once all of it is dead and reaped."""
        from resource import RUSAGE_CHILDREN, getrusage

        used = getrusage(RUSAGE_CHILDREN)
        flags = _FULL * _full() | _MANY * (_last_pid() != self.guest)
        numbers = (_microseconds(used), used.ru_maxrss * 1024)
        return self.status.to_bytes(4, "big") + bytes([flags]) + b"".join(n.to_bytes(8, "big") for n in numbers)

    def turn(self) -> None:
        """Waits until something can be moved, and moves it."""
        waiting = poll()
        waiting.register(0, POLLIN)
        waiting.register(self.woken, POLLIN)
        if self.unsent:
            waiting.register(1, POLLOUT)
        self.watch_guest(waiting)
        for fd, _ in waiting.poll():
            if fd == 0:
                self.receive()
            elif fd == 1:
                self.flush()
            elif fd == self.woken:
                posix.read(fd, _PIECE)
                self.reap()
            elif fd == self.channel:
                self.move_channel()
            elif fd == self.stdin:
                self.move_stdin()
            elif fd == self.stdout:
                self.stdout = self.carry(fd, "o")
            elif fd == self.stderr:
                self.stderr = self.carry(fd, "e")
        if self.unsent:
            self.flush()

    def watch_guest(self, waiting: "Any") -> None:
        room = len(self.unsent) < _UNSENT
        for fd in (self.stdout, self.stderr):
            if room and fd >= 0:
                waiting.register(fd, POLLIN)
        if self.stdin >= 0 and self.to_stdin:
            waiting.register(self.stdin, POLLOUT)
        wanted = (POLLIN if room and self.granted > 0 else 0) | (POLLOUT if self.to_channel else 0)
        if self.channel >= 0 and wanted:
            waiting.register(self.channel, wanted)

    def carry(self, fd: int, kind: str) -> int:
        """Takes what is in a stream of the guest. Returns its descriptor, or -1 at its end."""
        try:
            piece = posix.read(fd, _PIECE)
        except BlockingIOError:
            return fd
        if not piece:
            posix.close(fd)
            return -1
        self.send(kind, piece)
        return fd

    def move_channel(self) -> None:
        self.write_channel()
        if self.channel < 0 or len(self.unsent) >= _UNSENT or self.granted <= 0:
            return
        self.read_channel(min(_PIECE, self.granted))

    def read_channel(self, size: int) -> bool:
        """Takes what the guest said. Returns False when nothing is there."""
        try:
            piece = posix.read(self.channel, size)
        except BlockingIOError:
            return False
        except OSError:  # reset: the guest closed it with our bytes unread
            piece = b""
        if not piece:
            self.close_channel()
            return False
        self.granted -= len(piece)
        self.send("c", piece)
        return True

    def write_channel(self) -> None:
        try:
            if self.to_channel:
                count = posix.write(self.channel, self.to_channel)
                del self.to_channel[:count]
                self.send("g", count.to_bytes(4, "big"))
        except BlockingIOError:
            return
        except OSError:
            self.to_channel.clear()  # what the guest said before it closed is still to be read
        if self.channel_over and not self.to_channel:
            self.channel_over = False
            self.shut_channel()

    def shut_channel(self) -> None:
        from _socket import SHUT_WR, socket

        end = socket(fileno=posix.dup(self.channel))
        try:
            end.shutdown(SHUT_WR)
        except OSError:
            pass
        end.close()

    def close_channel(self) -> None:
        posix.close(self.channel)
        self.channel = -1
        self.to_channel.clear()
        self.send("C", b"")

    def move_stdin(self) -> None:
        try:
            count = posix.write(self.stdin, self.to_stdin)
            del self.to_stdin[:count]
            self.send("s", count.to_bytes(4, "big"))
        except BlockingIOError:
            return
        except OSError:
            self.stdin_over = True
            self.to_stdin.clear()
        self.end_stdin()

    def end_stdin(self) -> None:
        if self.stdin_over and not self.to_stdin and self.stdin >= 0:
            posix.close(self.stdin)
            self.stdin = -1

    def receive(self) -> None:
        """Takes what the worker sent."""
        try:
            piece = posix.read(0, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            raise ConnectionError("the worker hung up")
        self.received += piece
        data = self.received
        while len(data) >= 5 and len(data) >= 5 + (length := int.from_bytes(data[1:5], "big")):
            kind, body = chr(data[0]), bytes(data[5 : 5 + length])
            del data[: 5 + length]
            self.obey(kind, body)

    def obey(self, kind: str, body: bytes) -> None:
        if kind == "c" and self.channel >= 0:
            self.to_channel += body
            self.write_channel()
        elif kind == "C" and self.channel >= 0:
            self.channel_over = True
            self.write_channel()
        elif kind == "i" and self.stdin >= 0:
            self.to_stdin += body
        elif kind == "I":
            self.stdin_over = True
            self.end_stdin()
        elif kind == "g":
            self.granted += int.from_bytes(body, "big")
        elif kind == "k":
            self.kill_all()

    def send(self, kind: str, body: bytes) -> None:
        self.unsent += kind.encode() + len(body).to_bytes(4, "big") + body

    def flush(self) -> None:
        try:
            count = posix.write(1, self.unsent)
        except BlockingIOError:
            return
        except OSError:
            raise ConnectionError("the worker hung up") from None
        del self.unsent[:count]

    def reap(self) -> None:
        """Takes the dead, and notes how the guest's main process ended."""
        while True:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.guest:
                self.status = status

    def kill_all(self) -> None:
        """Kills everything of the guest and waits until it is gone."""
        while True:
            try:
                posix.kill(-1, SIGKILL)
                pid, status = posix.waitpid(-1, 0)
            except (ChildProcessError, ProcessLookupError):
                self.reap()
                return
            if pid == self.guest:
                self.status = status

    def last_words(self) -> None:
        """Takes what the dead left in their pipes, which is no more than the kernel holds."""
        while self.stdout >= 0:
            self.stdout = self.carry(self.stdout, "o")
        while self.stderr >= 0:
            self.stderr = self.carry(self.stderr, "e")
        while self.channel >= 0 and self.read_channel(_PIECE):
            pass


def _posture(used: int) -> bytes:
    """Returns the greeting: what this process, from which the guest was forked, is, also as the kernel sees it."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    text = f"Airlock:{VERSION}\nPython:{version}\nKernel:{posix.uname().release}\nCPU:{used}\n".encode()
    status = posix.open("/proc/self/status", posix.O_RDONLY)
    for line in posix.read(status, _PIECE).splitlines(True):
        if line.startswith((b"NoNewPrivs:", b"Seccomp:", b"Cap", b"Uid:", b"Gid:")):
            text += line
    posix.close(status)
    return text


def _microseconds(used: "Any") -> int:
    """Returns the processor time of a process or of several."""
    return round((used.ru_utime + used.ru_stime) * 1e6)


def _last_pid() -> int:
    """Returns the number that the kernel gave last to a process or thread of this container, or 0 if it does not say."""
    try:
        fd = posix.open("/proc/sys/kernel/ns_last_pid", posix.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(posix.read(fd, 32))
    except (OSError, ValueError):
        return 0
    finally:
        posix.close(fd)


def _full() -> bool:
    """Reports whether a file system that the guest may write to is full."""
    for path in _WRITABLE:
        try:
            room = posix.statvfs(path)
        except OSError:
            continue
        if room.f_bfree == 0 or room.f_files and room.f_ffree == 0:
            return True
    return False
