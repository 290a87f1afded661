"""The forms of broker/PROTOCOL.md, section "Values", in answers: back to the Python values they stand for.

What is no such form stays the dict it is: an answer is a provider's, and nothing in it can make a call fail.
"""

from binascii import a2b_base64, b2a_base64

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from typing import Any



def revive(value: "Any") -> "Any":
    """Returns the value with every form replaced. Lists and dicts are changed in place."""
    if type(value) is list:
        value[:] = [revive(member) for member in value]
    elif type(value) is dict:
        for key in value:
            value[key] = revive(value[key])
        tag = value.get("$airlock")
        if type(tag) is str and tag in _FORMS:
            try:
                return _FORMS[tag](**{key: part for key, part in value.items() if key != "$airlock"})
            except Exception:  # not what it says it is
                return value
    return value


def _float(value: str) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[value]


def _bytes(base64: str) -> bytes:
    data = a2b_base64(base64.encode())
    if b2a_base64(data, newline=False) != base64.encode():  # before 3.11 what is no base64 is skipped
        raise ValueError(base64)
    return data


def _str(base64: str) -> str:
    return _bytes(base64).decode("utf-8", "surrogatepass")


def _int(hex: str) -> int:
    return int(hex, 16)


def _tuple(items: list) -> tuple:
    return tuple(_listed(items))


def _set(items: list) -> set:
    return set(_listed(items))


def _dict(items: list) -> dict:
    return dict(_listed(items))


def _listed(items: "Any") -> list:
    if type(items) is not list:
        raise TypeError
    return items


def _complex(real: float, imag: float) -> complex:
    return complex(real, imag)


def _decimal(value: str) -> "Any":
    from decimal import Decimal

    return Decimal(value)


def _datetime(iso: str) -> "Any":
    from datetime import datetime

    return datetime.fromisoformat(iso)


def _date(iso: str) -> "Any":
    from datetime import date

    return date.fromisoformat(iso)


def _time(iso: str) -> "Any":
    from datetime import time

    return time.fromisoformat(iso)


def _timedelta(seconds: float) -> "Any":
    from datetime import timedelta

    return timedelta(seconds=seconds)


_FORMS = {
    "float": _float,
    "bytes": _bytes,
    "str": _str,
    "int": _int,
    "tuple": _tuple,
    "set": _set,
    "dict": _dict,
    "complex": _complex,
    "decimal": _decimal,
    "datetime": _datetime,
    "date": _date,
    "time": _time,
    "timedelta": _timedelta,
}
