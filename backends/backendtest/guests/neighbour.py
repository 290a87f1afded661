# Is there to be found by another guest, until the host says that it is over.
import socket

libc.prctl(15, TOKEN.encode(), 0, 0, 0)
held, port = [], 0
try:
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0" + TOKEN)
    s.listen()
    held.append(s)
except OSError:
    pass
try:
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    held.append(s)
    port = s.getsockname()[1]
except OSError:
    pass
await settled(port=port)
return "unharmed"
