"""Python values as JSON: the section "Values" of broker/PROTOCOL.md.

Encoding never fails for what a value is, only for want of memory: whatever an object does when it is looked at, the
worst that comes of it is its repr. Types are taken from type() and methods from the built-in classes, since __class__
and overridden methods may lie.
"""

import sys
from binascii import b2a_base64

from .wire import MAX_FRAME, quote

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from typing import Any

# How deep the JSON of a value may nest. The frame around it and a repr inside it need four of the wire's 64 levels.
MAX_DEPTH = 60
# Integers of at most this many digits are written as numbers.
MAX_DIGITS = 4000
_SURELY_SHORT = 13_287  # bits; 2**13287 has 4,000 digits
_MAX_REPR = 4096
_MAX_TYPE = 200
_MAX_NOTE = 50  # bytes; what stands in the place of what was cut


class TooLarge(BaseException):
    """The value's JSON exceeds the limit. It is no Exception, so that no handler here takes it for the value's fault."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def encode(value: "Any", limit: int, plain_tuples: bool = False) -> "tuple[str, bool]":
    """Returns the value's JSON and whether a part of it is only its repr.

    Raises TooLarge beyond limit bytes of UTF-8. Its size is exact up to the size of a frame; larger values are
    measured no further.
    """
    encoder = _Encoder(limit, plain_tuples)
    encoder.value(value, 0)
    if encoder.size > limit:
        raise TooLarge(encoder.size)
    return "".join(encoder.parts), encoder.lossy


def printable(text: str, limit: int) -> str:
    """Returns the text as valid Unicode of at most limit bytes of UTF-8: where it is longer its middle is cut out."""
    data = str.__str__(text).encode("utf-8", "backslashreplace")
    if len(data) > limit:
        half = (limit - _MAX_NOTE) // 2
        note = f"… {len(data) - 2 * half} bytes cut …".encode()
        data = data[:half] + note + data[-half:]
    return data.decode("utf-8", "ignore")


def type_name(cls: type) -> str:
    """Returns the class's name as a traceback shows it, whatever its metaclass does."""
    try:
        name, module = str.__str__(cls.__qualname__), cls.__module__
        if type(module) is str and module not in ("builtins", "__main__"):
            name = f"{module}.{name}"
        return printable(name, _MAX_TYPE)
    except BaseException:
        return printable(type.__dict__["__name__"].__get__(cls), _MAX_TYPE)


class _Encoder:
    """Writes one value."""

    def __init__(self, limit: int, plain_tuples: bool) -> None:
        self.parts: "list[str]" = []
        self.size = 0
        self.lossy = False
        self._limit = limit
        self._stop = max(limit, MAX_FRAME)
        self._plain_tuples = plain_tuples
        self._path: "set[int]" = set()

    def put(self, text: str) -> None:
        """Adds a piece. Beyond the limit pieces are only counted, so that a huge value needs no more memory."""
        self.size += len(text) if text.isascii() else len(text.encode())
        if self.size <= self._limit:
            self.parts.append(text)
        elif self.size > self._stop:
            raise TooLarge(self.size)

    def value(self, value: "Any", depth: int) -> None:
        """Writes a value with depth levels of JSON around it."""
        kind = type(value)
        if kind is str:
            self.string(value)
        elif value is None:
            self.put("null")
        elif kind is bool:
            self.put("true" if value else "false")
        elif issubclass(kind, int):
            self.integer(value)
        elif issubclass(kind, float):
            self.number(value)
        elif issubclass(kind, str):
            self.string(str.__str__(value))
        elif issubclass(kind, (list, dict, tuple, set, frozenset)):
            self.container(value, kind, depth)
        else:
            self.other(value, kind, depth)

    def string(self, text: str) -> None:
        if _is_unicode(text):
            self.put(quote(text))
        else:
            self.tagged("str", "base64", _base64(text.encode("utf-8", "surrogatepass")))

    def integer(self, number: int) -> None:
        number = int.__pos__(number)
        if number.bit_length() <= _SURELY_SHORT or -(10**MAX_DIGITS) < number < 10**MAX_DIGITS:
            self.put(_decimal(number))
        else:
            self.tagged("int", "hex", "%x" % number)

    def number(self, number: float) -> None:
        text = float.__repr__(number)
        if text in ("nan", "inf", "-inf"):
            self.tagged("float", "value", text)
        else:
            self.put(text)

    def tagged(self, tag: str, key: str, text: str) -> None:
        self.put(f'{{"$airlock":"{tag}","{key}":{quote(text)}}}')

    def container(self, value: "Any", kind: type, depth: int) -> None:
        if id(value) in self._path:
            self.opaque(value)
            return
        self._path.add(id(value))
        if issubclass(kind, dict):
            self.mapping(value, list(dict.items(value)), depth)
        elif issubclass(kind, list):
            self.array(value, list(list.__iter__(value)), depth)
        elif issubclass(kind, tuple):
            self.sequence(value, list(tuple.__iter__(value)), depth)
        else:
            self.tagged_array("set", value, _sorted_members(value, kind), depth)
        self._path.discard(id(value))

    def sequence(self, value: "Any", members: list, depth: int) -> None:
        if self._plain_tuples:
            self.array(value, members, depth)
        else:
            self.tagged_array("tuple", value, members, depth)

    def array(self, value: "Any", members: list, depth: int) -> None:
        if depth + 1 > MAX_DEPTH:
            self.opaque(value)
            return
        self.put("[")
        for at, member in enumerate(members):
            if at:
                self.put(",")
            self.value(member, depth + 1)
        self.put("]")

    def tagged_array(self, tag: str, value: "Any", members: list, depth: int) -> None:
        if depth + 2 > MAX_DEPTH:
            self.opaque(value)
            return
        self.put(f'{{"$airlock":"{tag}","items":')
        self.array(value, members, depth + 1)
        self.put("}")

    def mapping(self, value: "Any", items: list, depth: int) -> None:
        keys = _plain_keys(items)
        if keys is None:
            self.pairs(value, items, depth)
            return
        if depth + 1 > MAX_DEPTH:
            self.opaque(value)
            return
        comma = "{"
        for key, (_, member) in zip(keys, items):
            self.put(f"{comma}{quote(key)}:")
            self.value(member, depth + 1)
            comma = ","
        self.put("}" if items else "{}")

    def pairs(self, value: "Any", items: list, depth: int) -> None:
        """Writes a dict that is no JSON object as a list of pairs."""
        if depth + 3 > MAX_DEPTH:
            self.opaque(value)
            return
        self.put('{"$airlock":"dict","items":')
        self.array(value, [list(pair) for pair in items], depth + 1)
        self.put("}")

    def other(self, value: "Any", kind: type, depth: int) -> None:
        """Writes what JSON has no word for. Its class may be the user's: what it raises makes it a repr."""
        before, size, path, lossy = len(self.parts), self.size, set(self._path), self.lossy
        try:
            if issubclass(kind, (bytes, bytearray)):
                self.tagged("bytes", "base64", _base64(bytes(memoryview(value))))
            elif issubclass(kind, complex):
                self.complex_number(value)
            elif not self.known(value, kind) and not self.dataclass(value, kind, depth):
                self.opaque(value)
        except (TooLarge, MemoryError):
            raise
        except BaseException:
            del self.parts[before:]
            self.size, self._path, self.lossy = size, path, lossy
            self.opaque(value)

    def complex_number(self, value: complex) -> None:
        self.put('{"$airlock":"complex","real":')
        self.number(complex.real.__get__(value))
        self.put(',"imag":')
        self.number(complex.imag.__get__(value))
        self.put("}")

    def known(self, value: "Any", kind: type) -> bool:
        """Writes a value of datetime or decimal. If the job has one, the module is loaded."""
        dates, decimals = sys.modules.get("datetime"), sys.modules.get("decimal")
        if decimals and issubclass(kind, decimals.Decimal):
            self.tagged("decimal", "value", decimals.Decimal.__str__(value))
            return True
        if not dates:
            return False
        if issubclass(kind, dates.timedelta):
            self.put(f'{{"$airlock":"timedelta","seconds":{_seconds(value)}}}')
            return True
        for name in ("datetime", "date", "time"):  # a datetime is a date too
            cls = getattr(dates, name)
            if issubclass(kind, cls):
                self.tagged(name, "iso", cls.isoformat(value))
                return True
        return False

    def dataclass(self, value: "Any", kind: type, depth: int) -> bool:
        if not hasattr(kind, "__dataclass_fields__") or id(value) in self._path:
            return False
        items = [(field.name, getattr(value, field.name)) for field in sys.modules["dataclasses"].fields(kind)]
        self._path.add(id(value))
        self.mapping(value, items, depth)
        self._path.discard(id(value))
        return True

    def opaque(self, value: "Any") -> None:
        self.lossy = True
        name = type_name(type(value))
        try:
            text = repr(value)
        except MemoryError:
            raise
        except BaseException as error:
            text = f"<{name} whose repr() raised {type_name(type(error))}>"
        self.put(f'{{"$airlock":"repr","type":{quote(name)},"text":{quote(printable(text, _MAX_REPR))}}}')


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain_keys(items: list) -> "list[str] | None":
    """Returns the keys of a JSON object, or None where they make none.

    Two keys that are unequal in Python may have the same text, if one is of a subclass of str.
    """
    keys = []
    for key, _ in items:
        if not issubclass(type(key), str):
            return None
        text = str.__str__(key)
        if text == "$airlock" or not _is_unicode(text):
            return None
        keys.append(text)
    return keys if len(set(keys)) == len(keys) else None


def _sorted_members(value: "Any", kind: type) -> list:
    base = set if issubclass(kind, set) else frozenset
    members = list(base.__iter__(value))
    try:
        return sorted(members)
    except Exception:
        pass
    try:
        # Unlike hash order, this is the same in every run.
        return sorted(members, key=lambda member: (type(member).__name__, repr(member)))
    except Exception:
        return members


def _decimal(number: int) -> str:
    try:
        return repr(number)
    except ValueError:
        pass
    # The user's code lowered sys.set_int_max_str_digits; 640 is the lowest it takes.
    rest, pieces = abs(number), []
    while rest:
        rest, piece = divmod(rest, 10**600)
        pieces.append(f"{piece:0600d}")
    return ("-" if number < 0 else "") + "".join(reversed(pieces)).lstrip("0")


def _seconds(delta: "Any") -> str:
    """Returns a timedelta's exact seconds; a float loses microseconds beyond 285 years."""
    total = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    seconds, micros = divmod(abs(total), 1_000_000)
    fraction = f"{micros:06d}".rstrip("0") or "0"
    return f"{'-' if total < 0 else ''}{seconds}.{fraction}"


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
