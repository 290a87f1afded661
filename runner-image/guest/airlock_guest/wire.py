"""Frames and strict JSON: the section "Framing" of broker/PROTOCOL.md."""

from _io import FileIO

# The C functions under json. Importing json itself costs 6 ms, nearly as much as the interpreter.
from _json import encode_basestring as quote
from _json import make_scanner

from . import system

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from typing import Any

MAX_FRAME = 8 * 1024 * 1024
# How deep the worker's frames nest. The guest's own may nest to 64.
MAX_DEPTH = 66
_PIECE = 64 * 1024
# From how many characters on a document is worth other ways.
_LARGE = 32 * 1024


class ProtocolError(Exception):
    """The worker sent what the contract forbids."""


class Channel:
    """Frames on one descriptor. One thread may read while another writes; calls.py sees to it.

    Methods raise ConnectionError when the worker is gone.
    """

    def __init__(self, descriptor: int) -> None:
        # Subprocesses must not inherit it: they would keep it open, and could speak for the guest.
        system.set_inheritable(descriptor, False)
        self.descriptor = descriptor
        self._file = FileIO(descriptor, "r+", closefd=False)
        self._received = bytearray()
        self.tagged = False  # whether the last frame may hold a form of "Values"

    def send(self, text: str) -> None:
        """Sends one object. It blocks until the worker has room for it."""
        body = text.encode()
        if not 2 <= len(body) <= MAX_FRAME:
            raise ProtocolError(f"a frame of {len(body)} bytes")
        self._write(body)

    def _write(self, body: bytes) -> None:
        rest = memoryview(len(body).to_bytes(4, "big") + body)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except (OSError, TypeError) as error:  # TypeError: None was written, the user made it non-blocking
            raise _closed(error) from None

    def receive(self) -> dict:
        """Waits for one object."""
        while True:
            frame = self.next_frame()
            if frame is not None:
                return frame
            self.fill()

    def fill(self) -> None:
        """Reads what is there, waiting only if nothing is."""
        try:
            piece = self._file.read(_PIECE)
        except OSError as error:
            raise _closed(error) from None
        if not piece:
            raise ConnectionError("the worker closed the channel")
        self._received += piece

    def readable(self) -> bool:
        """Reports whether fill would not wait."""
        from select import select

        return bool(select([self.descriptor], [], [], 0)[0])

    def next_frame(self) -> "dict | None":
        """Returns the next object that was read completely."""
        data = self._received
        if len(data) < 4:
            return None
        length = int.from_bytes(data[:4], "big")
        if not 2 <= length <= MAX_FRAME:
            raise ProtocolError(f"a frame of {length} bytes")
        if len(data) < 4 + length:
            return None
        body = bytes(data[4 : 4 + length])
        del data[: 4 + length]
        # The text may spell the tag with escapes.
        self.tagged = b'"$airlock"' in body or b"\\u" in body
        return decode(body)

    def close(self) -> None:
        """Closes the descriptor, unless the user's code already has."""
        try:
            system.close(self.descriptor)
        except OSError:
            pass


def _closed(error: Exception) -> Exception:
    """Returns the error to raise for one of a system call, or for one that a signal handler raised during it."""
    ours = isinstance(error, TypeError) or getattr(error, "errno", None) is not None
    return ConnectionError("the channel to the worker is closed") if ours else error


def decode(body: bytes) -> dict:
    """Decodes one strict JSON object."""
    try:
        text = body.decode().strip(" \t\r\n")
        value = _scan_large(text) if len(text) > _LARGE else None
        if value is None:
            value = _scan(text)
            # Walking every answer would double its price; without these signs there is nothing to find.
            if "\\u" in text or text.count("[") + text.count("{") > MAX_DEPTH:
                _check(value, 1)
    except (ValueError, StopIteration, RecursionError) as error:
        raise ProtocolError(f"not strict JSON: {error}") from None
    if type(value) is not dict:
        raise ProtocolError("not an object")
    return value


def _scan_large(text: str) -> "Any":
    """Decodes a document without a call of Python for each object, or returns None for one that needs more care.

    That is a list of 5,000 tools in 19 ms in place of 45. Where nothing stands between a key and its colon, each key
    adds one to the sequences '":', and so may strings: if there are just as many as keys in the objects that came of
    it, then no key was there twice.
    """
    if "\n" in text or "\t" in text or "\r" in text or " :" in text:
        return None
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        return None  # perhaps half a surrogate
    try:
        value, end = make_scanner(_RulesForLarge)(text, 0)
    except ValueError:
        return None  # _scan knows what is wrong, or how to read it
    keys, depth = _measure(value)
    return value if end == len(text) and depth <= MAX_DEPTH and keys == text.count('":') else None


def _measure(value: "Any") -> "tuple[int, int]":
    """Returns how many keys the objects have, and how deep all of it nests."""
    keys = depth = 0
    members = [value]
    while depth <= MAX_DEPTH:
        objects = [member for member in members if type(member) is dict]
        arrays = [member for member in members if type(member) is list]
        if not objects and not arrays:
            break
        depth += 1
        keys += sum(map(len, objects))
        members = [member for values in map(dict.values, objects) for member in values]
        for array in arrays:
            members += array
    return keys, depth


def _scan(text: str) -> "Any":
    try:
        value, end = make_scanner(_Rules)(text, 0)
    except ProtocolError:
        raise
    except ValueError:
        # Perhaps an integer with more digits than int() takes at once.
        value, end = make_scanner(_RulesForLongIntegers)(text, 0)
    if end != len(text):
        raise ValueError("more than one document")
    return value


def _object(pairs: "list[tuple[str, object]]") -> dict:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ProtocolError("duplicate key")
    return result


def _constant(name: str) -> None:
    raise ProtocolError(f"{name} is not JSON")


def _integer(text: str) -> int:
    # 640 digits is the lowest limit that sys.set_int_max_str_digits accepts.
    value, digits = 0, text.lstrip("-")
    for at in range(0, len(digits), 600):
        piece = digits[at : at + 600]
        value = value * 10 ** len(piece) + int(piece)
    return -value if text.startswith("-") else value


class _Rules:
    """What make_scanner reads from its argument."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_object)
    array_hook = None
    parse_float = float
    parse_int: "Any" = int
    parse_constant = staticmethod(_constant)
    memo: "dict[str, str]" = {}


class _RulesForLongIntegers(_Rules):
    parse_int = staticmethod(_integer)


class _RulesForLarge(_Rules):
    object_pairs_hook = None  # type: ignore[assignment]


def _check(value: "Any", depth: int) -> None:
    """Refuses lone surrogates, which the scanner takes, and objects that nest too deep."""
    if type(value) is str:
        value.encode()
    elif type(value) is dict or type(value) is list:
        if depth > MAX_DEPTH:
            raise ProtocolError(f"nested deeper than {MAX_DEPTH}")
        members = [*value, *value.values()] if type(value) is dict else value
        for member in members:
            _check(member, depth + 1)
