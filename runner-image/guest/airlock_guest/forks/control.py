"""Messages between the worker and a template or a slot: one JSON object a datagram, descriptors beside it."""

import _socket
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST = 1 << 12
_MANY = 4
_ROOM = _socket.CMSG_SPACE(_MANY * 4)


class Control:
    """One end of a control socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = _socket.socket(fileno=descriptor)
        self._last: "tuple[bytes, Any]" = (b"", None)

    def fileno(self) -> int:
        return self._socket.fileno()

    def detach(self) -> int:
        """Gives the descriptor away, so that no finaliser closes what takes its number later."""
        return self._socket.detach()

    def send(self, message: dict) -> None:
        self._socket.send(json.dumps(message, separators=(",", ":")).encode())

    def write(self, message: bytes) -> None:
        """Sends a message that is JSON already."""
        self._socket.send(message)

    def fail(self, error: OSError) -> None:
        """Says what could not be done, to whoever is still there."""
        try:
            self.send({"failed": {"what": str(error), "errno": error.errno or 0}})
        except OSError:
            pass

    def receive(self) -> "tuple[Any, list[int]]":
        """Returns the next message and its descriptors; None at the end."""
        data, rest, flags, _ = self._socket.recvmsg(_MOST, _ROOM, _socket.MSG_CMSG_CLOEXEC)
        descriptors: "list[int]" = []
        for level, kind, content in rest:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                descriptors += memoryview(content[: len(content) & ~3]).cast("i").tolist()
        if flags & (_socket.MSG_CTRUNC | _socket.MSG_TRUNC):
            raise OSError("a control message was cut")
        # Guests of the same limits have the same order, to the byte.
        if data != self._last[0]:
            self._last = (data, json.loads(data) if data else None)
        return self._last[1], descriptors
