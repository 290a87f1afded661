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


@attack("canary file by links of /proc")
def _():
    places = ["/proc/self/root", "/proc/1/root", "/proc/self/root/..", "/proc/self/cwd/../../../..", "/proc/thread-self/root"]
    places += [f"/proc/self/fd/{n}" for n in range(4)]
    return any_of(lambda p: read(p + CANARY) == b"chirp", places)


@attack("home directory")
def _(): return any_of(lambda p: read(p) == b"chirp", HOMES)


@attack("credentials")
def _():
    names = [".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/authorized_keys", ".aws/credentials", ".kube/config", ".docker/config.json", ".netrc", ".gnupg", ".bash_history"]
    homes = ["/root"] + [f"/home/{n}" for n in (os.listdir("/home") if os.path.isdir("/home") else [])]
    return any_of(os.stat, [f"{h}/{n}" for h in homes for n in names] + ["/var/run/secrets/kubernetes.io/serviceaccount/token"])


@attack("shells and compilers")
def _():
    import shutil
    path = "/bin:/sbin:/usr/bin:/usr/sbin:/usr/local/bin:/usr/local/sbin"
    names = ("sh", "bash", "dash", "busybox", "apt", "dpkg", "rpm", "apk", "gcc", "cc", "ld", "git", "curl", "wget", "perl", "nsenter", "unshare")
    return [n for n in names if shutil.which(n, path=path)]


@attack("set-user-ID files of its own")
def _(): return any(os.path.isdir(p) and not os.statvfs(p).f_flag & os.ST_NOSUID for p in ("/tmp", "/workspace", "/dev/shm", "/var/tmp"))


@attack("set-user-ID programs")
def _():
    for place in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", os.path.dirname(sys.executable)):
        for n in os.listdir(place) if os.path.isdir(place) else ():
            path = os.path.join(place, n)
            if os.path.exists(path) and os.stat(path).st_mode & 0o6000 and not os.statvfs(path).f_flag & os.ST_NOSUID:
                return True


@attack("remove what is mounted", harmful=True)
def _():
    def remove(path):
        os.rename(path, path + "-" + MARKER)
        return True
    return any_of(remove, ["/tmp", "/workspace", "/usr", "/lib", "/dev", "/proc", "/airlock"])


@attack("replace device nodes", harmful=True)
def _():
    def replace(path):
        os.unlink(path)
        os.symlink("/tmp", path)
        return True
    return any_of(replace, ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/pts", "/dev/shm", "/dev/stdin"])


@attack("compiled files", harmful=True)
def _():
    return any_of(lambda p: os.open(p, os.O_RDWR), [json.__cached__ for json in (__import__("json"),)] + ["/airlock/main.py", "/airlock/first.py"])


@attack("paths of the host in mountinfo")
def _():
    with open("/proc/self/mountinfo") as f:
        for line in f:
            before, after = line.split(" - ")
            kind, source, options = after.split(None, 2)
            if "upperdir=" in options or "lowerdir=" in options or source.startswith("/dev/"):
                return True


@attack("sysrq and buses")
def _(): return any_of(lambda p: os.open(p, os.O_WRONLY), ["/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/acpi/wakeup"])


@attack("counters of the host")
def _(): return any_of(read, ["/proc/" + n for n in ("meminfo", "loadavg", "cpuinfo", "stat", "uptime", "version", "diskstats", "vmstat")])


@attack("boot id")
def _(): return read("/proc/sys/kernel/random/boot_id").decode().strip() == BOOT


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
