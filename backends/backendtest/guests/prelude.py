# What the stories' guests share. MARKER and CONTROL are bound by the host.
import errno, os, signal, sys, time

try:
    import ctypes
except ModuleNotFoundError:  # a guest that has no native code
    ctypes = libc = None
else:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
attacks = {}


def mark():
    """Names this process, and those it forks, so that the host can find them."""
    if libc:
        libc.prctl(15, MARKER.encode(), 0, 0, 0)


def detached(work):
    """Runs work in a grandchild with a session of its own, which init adopts."""
    ready, set_ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(set_ready, b"1")
            os.close(set_ready)
            os.close(ready)
            work()
        os._exit(0)
    os.waitpid(child, 0)
    os.close(set_ready)
    os.read(ready, 1)


def attack(name, harmful=False):
    """Tries a deed in a child, since it may be killed for it, and records
    whether it got through: when it returns something true."""

    def run(deed):
        if not hasattr(os, "fork"):
            try:
                attacks[name] = "got through" if deed() else "no effect"
            except BaseException as e:
                attacks[name] = repr(e)[:300]
            return deed
        if harmful and CONTROL:
            attacks[name] = "not tried: it would harm the host"
            return deed
        answer, tell = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            try:
                os.write(tell, b"got through" if deed() else b"no effect")
            except BaseException as e:
                os.write(tell, repr(e).encode()[:300])
            os._exit(0)
        os.close(tell)
        text = b""
        while piece := os.read(answer, 400):
            text += piece
        os.close(answer)
        _, status = os.waitpid(child, 0)
        attacks[name] = text.decode() or f"killed by signal {status & 127}"
        return deed

    return run


def reached(result):
    """Whether a system call got past the wall: it worked, or failed for its
    arguments and not for a lack of permission."""
    if result >= 0:
        return True
    code = ctypes.get_errno()
    if code not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return True
    raise OSError(code, os.strerror(code))
