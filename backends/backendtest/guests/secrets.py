# Looking for the secret in the environment of the host's processes.
def holds(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return SECRET.encode() in f.read()


@attack("own environment")
def _(): return any(SECRET in v for v in os.environ.values()) or os.path.exists("/proc/self/environ") and holds("self")


@attack("environment of another process")
def _():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and holds(pid):
                return True
        except OSError:
            pass


@attack("core files")
def _():
    import resource
    return resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)


return attacks
