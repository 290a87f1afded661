# Neither the network nor the host's files are there; the value says what was met instead.
import socket

def attempt(action):
    try:
        return f"REACHED: {action()!r}"
    except OSError as error:
        return type(error).__name__

__result__ = {
    "network": attempt(lambda: socket.create_connection(("1.1.1.1", 53), timeout=2)),
    "loopback": attempt(lambda: socket.create_connection(("127.0.0.1", 4222), timeout=2)),
    "shadow": attempt(lambda: open("/etc/shadow").read()),
}
