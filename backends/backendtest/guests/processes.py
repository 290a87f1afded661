# Finding, tracing, reading and killing a process of the host.
@attack("found in /proc")
def _():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if TAG.encode() in f.read():
                    return True
        except OSError:
            pass


@attack("signal 0")
def _(): return os.kill(VICTIM, 0) is None


@attack("trace")
def _():
    if libc.ptrace(16, VICTIM, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(VICTIM, 0x40000000)
    libc.ptrace(17, VICTIM, None, None)
    return True


@attack("memory map")
def _():
    with open(f"/proc/{VICTIM}/maps") as f:
        return f.read()


@attack("pidfd")
def _(): return os.pidfd_open(VICTIM)


@attack("descriptor of another")
def _():
    handle = os.pidfd_open(VICTIM)
    return libc.syscall(438, handle, 0, 0) >= 0


@attack("type into a terminal")
def _():
    import fcntl
    for fd in range(3):
        try:
            fcntl.ioctl(fd, 0x5412, b"x")
            return True
        except OSError as e:
            last = e
    raise last


@attack("priority of another")
def _():
    os.setpriority(os.PRIO_PROCESS, VICTIM, 5)
    return os.getpriority(os.PRIO_PROCESS, VICTIM) == 5


@attack("kill")
def _(): return os.kill(VICTIM, signal.SIGKILL) is None


return attacks
