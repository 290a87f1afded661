# System calls that would widen what a guest can do.
import stat

NUMBERS = {
    "x86_64": dict(ptrace=101, personality=135, kexec_load=246, add_key=248, keyctl=250, perf_event_open=298, open_by_handle_at=304,
                   setns=308, process_vm_readv=310, bpf=321, userfaultfd=323, init_module=175, reboot=169, swapon=167, pivot_root=155, acct=163,
                   quotactl=179, mq_open=240, shmget=29, inotify_init1=294, fanotify_init=300, ioprio_set=251, iopl=172),
    "aarch64": dict(ptrace=117, personality=92, kexec_load=104, add_key=217, keyctl=219, perf_event_open=241, open_by_handle_at=265,
                    setns=268, process_vm_readv=270, bpf=280, userfaultfd=282, init_module=105, reboot=142, swapon=224, pivot_root=41, acct=89,
                    quotactl=60, mq_open=180, shmget=194, inotify_init1=26, fanotify_init=262, ioprio_set=30, iopl=1000),
}[os.uname().machine]
NUMBERS.update(io_uring_setup=425, open_tree=428, fsopen=430, mount_setattr=442, landlock_create_ruleset=444)
NEWNS, NEWUSER, NEWPID, NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000


def scratch():
    """A name that no other attack uses, since one may be killed before it has tidied."""
    return f"/tmp/{MARKER}-{os.getpid()}"


def call(name, *args):
    return reached(libc.syscall(NUMBERS[name], *args))


def must(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


@attack("mount")
def _():
    os.mkdir(scratch())
    try:
        must(libc.mount(b"none", scratch().encode(), b"tmpfs", 0, None))
        return must(libc.umount2(scratch().encode(), 2))
    finally:
        os.rmdir(scratch())


@attack("fsopen")
def _(): return call("fsopen", b"tmpfs", 0)


@attack("open_tree")
def _(): return call("open_tree", -100, b"/tmp", 1)


@attack("mount_setattr")
def _(): return call("mount_setattr", 0, 0, 0, 0, 0)


@attack("unmount")
def _(): return must(libc.umount2(b"/usr", 2))


@attack("namespace: mount")
def _(): return must(libc.unshare(NEWNS))


@attack("namespace: network")
def _(): return must(libc.unshare(NEWNET))


@attack("namespace: pid")
def _(): return must(libc.unshare(NEWPID))


@attack("namespace: user")
def _(): return must(libc.unshare(NEWUSER))


@attack("setns")
def _(): return call("setns", -1, 0)


@attack("chroot")
def _(): return os.chroot("/tmp") is None


@attack("setuid 0")
def _(): return os.setuid(0) is None


@attack("setuid another")
def _(): return os.setuid(12345) is None


@attack("setgid 0")
def _(): return os.setgid(0) is None


@attack("setgroups")
def _(): return os.setgroups([0]) is None


@attack("chown")
def _():
    open(scratch(), "w").close()
    try:
        return os.chown(scratch(), 12345, 12345) is None
    finally:
        os.unlink(scratch())


@attack("mknod: a device")
def _():
    os.mknod(scratch(), stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.unlink(scratch())
    return True


@attack("file capabilities")
def _():
    open(scratch(), "w").close()
    try:
        return os.setxattr(scratch(), "security.capability", b"\x01\0\0\x02" + b"\0\x04\0\0" + b"\0" * 12) is None
    finally:
        os.unlink(scratch())


@attack("host name")
def _():
    name = os.uname().nodename.encode()
    return must(libc.sethostname(name, len(name)))


@attack("clock", harmful=True)
def _(): return time.clock_settime(time.CLOCK_REALTIME, time.time()) is None


@attack("priority")
def _(): return os.setpriority(os.PRIO_PROCESS, 0, -5) is None


@attack("real-time class")
def _(): return os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) is None


@attack("keyring")
def _(): return call("keyctl", 0, -4, 1)


@attack("add_key")
def _(): return call("add_key", b"user", b"airlock", b"x", 1, -3)


@attack("ptrace")
def _(): return call("ptrace", 0, 0, 0, 0)


@attack("process_vm_readv")
def _(): return call("process_vm_readv", os.getppid(), 0, 0, 0, 0, 0)


@attack("bpf")
def _(): return call("bpf", 0, 0, 0)


@attack("perf_event_open")
def _(): return call("perf_event_open", 0, 0, 0, 0, 0)


@attack("io_uring")
def _(): return call("io_uring_setup", 1, 0)


@attack("userfaultfd")
def _(): return call("userfaultfd", 0)


@attack("open_by_handle_at")
def _(): return call("open_by_handle_at", -1, 0, 0)


@attack("init_module")
def _(): return call("init_module", 0, 0, b"")


@attack("kexec_load")
def _(): return call("kexec_load", 0, 0, 0, 0)


@attack("reboot")
def _(): return call("reboot", 0, 0, 0, 0)


@attack("swapon")
def _(): return call("swapon", b"/nowhere", 0)


@attack("pivot_root")
def _(): return call("pivot_root", b"/nowhere", b"/nowhere")


@attack("accounting")
def _(): return call("acct", b"/nowhere")


@attack("quota")
def _(): return call("quotactl", -1, 0, 0, 0)


@attack("message queue")
def _(): return call("mq_open", b"airlock-nowhere", 0, 0, 0)


@attack("System V memory")
def _(): return call("shmget", 0, 0, 0)


@attack("inotify")
def _(): return call("inotify_init1", 0)


@attack("fanotify")
def _(): return call("fanotify_init", 0, 0)


@attack("I/O class")
def _(): return call("ioprio_set", 1, 0, 2 << 13)


@attack("affinity")
def _(): return os.sched_setaffinity(0, os.sched_getaffinity(0)) is None


@attack("personality")
def _(): return call("personality", 0xffffffff)


@attack("ports", harmful=True)
def _(): return call("iopl", 3)


@attack("tracer")
def _(): return reached(libc.prctl(0x59616d61, -1, 0, 0, 0))


@attack("memory layout")
def _(): return reached(libc.prctl(35, 1, 0, 0, 0))


@attack("dumpable")
def _(): return libc.prctl(4, 1, 0, 0, 0) == 0


@attack("x32 numbers")
def _(): return reached(libc.syscall(0x40000000 | 39))


return attacks
