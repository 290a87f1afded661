# Looks for the guest that runs beside it.
import socket


@attack("found in /proc")
def _():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == TOKEN:
                    return True
        except OSError:
            pass


@attack("abstract socket")
def _(): return socket.socket(socket.AF_UNIX).connect("\0" + TOKEN) is None


@attack("loopback")
def _(): return socket.socket().connect(("127.0.0.1", PORT)) is None


@attack("kill everybody", harmful=True)
def _():
    for pid in range(2, 70000):
        if pid != os.getpid() and pid != os.getppid():
            try:
                os.kill(pid, 0)
            except OSError:
                continue
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == TOKEN:
                    os.kill(pid, signal.SIGKILL)
                    return True


return attacks
