# Reading and writing files of the host.
import stat


def read(path):
    with open(path, "rb") as f:
        return f.read(1 << 16)


def others():
    return [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]


def any_of(deed, candidates):
    last = OSError("nothing to try")
    for c in candidates:
        try:
            if deed(c):
                return True
        except OSError as e:
            last = e
    raise last


def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(path)
    return True


@attack("shadow")
def _(): return read("/etc/shadow")


@attack("canary file")
def _(): return read(CANARY) == b"chirp"


@attack("canary file by another's root")
def _(): return any_of(lambda p: read(f"/proc/{p}/root{CANARY}") == b"chirp", others())


@attack("canary file by a link")
def _():
    link = "/tmp/link-" + MARKER
    os.symlink(CANARY, link)
    try:
        return read(link) == b"chirp"
    finally:
        os.unlink(link)


@attack("the host's /etc")
def _():
    hashes = __import__("hashlib")
    return any_of(lambda p: hashes.sha256(read(p)).hexdigest() == ETC[p], ETC)


@attack("host name")
def _(): return os.uname().nodename == HOSTNAME


@attack("write to the host")
def _(): return create(os.path.join(os.path.dirname(CANARY), "written"))


@attack("write to the system", harmful=True)
def _():
    places = ["/", "/usr", "/usr/bin", "/etc", "/lib", "/bin", "/sbin", "/dev", "/proc", os.path.dirname(os.__file__)]
    return any_of(lambda p: create(f"{p}/{MARKER}"), places)


@attack("change the standard library", harmful=True)
def _(): return os.open(os.__file__, os.O_RDWR)


@attack("kernel knobs")
def _():
    with open("/proc/sys/kernel/hostname", "r+") as f:
        f.write(f.read())
    return True


@attack("kernel secrets")
def _(): return any_of(read, ["/proc/" + n for n in ("cmdline", "kallsyms", "keys", "timer_list", "kcore", "kmsg", "sched_debug")])


@attack("/sys")
def _(): return os.listdir("/sys/class")


@attack("cgroups")
def _(): return os.listdir("/sys/fs/cgroup")


@attack("devices")
def _():
    usual = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    found = []
    for place, _, names in os.walk("/dev"):
        for n in names:
            mode = os.lstat(os.path.join(place, n)).st_mode
            if n not in usual and (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
                found.append(n)
    return found


@attack("sockets of services")
def _():
    paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"]
    return any_of(os.stat, paths)


return attacks
