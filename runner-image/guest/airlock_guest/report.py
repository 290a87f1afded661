"""Exceptions as the error of a result.

The traceback is Python's own, with its carets, notes, causes and groups, less the frames that are not the user's.
Whatever an exception does when it is looked at, there is a report.
"""

import sys

from .code import NAME
from .values import printable, type_name
from .wire import quote

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_MAX_MESSAGE = 16 * 1024
_MAX_TRACEBACK = 64 * 1024
_HERE = __file__.rpartition("report.py")[0]
# What starts the package, and is not the user's either. In WebAssembly another module adds itself.
starts = [_HERE.rstrip("/\\").rpartition("airlock_guest")[0] + "main.py"]


def describe(error: BaseException, source: str, library: "list[str]") -> str:
    """Returns the error as JSON. Library is where the standard library's modules are found."""
    try:
        _fill_syntax_error(error, source)
        trace = _traceback(error, source, library)
    except BaseException:
        trace = _plain_traceback(error)
    parts = {"type": type_name(type(error)), "message": _message(error), "traceback": trace}
    return "{" + ",".join(f'"{key}":{quote(text)}' for key, text in parts.items()) + "}"


def _message(error: BaseException) -> str:
    try:
        return printable(str(error), _MAX_MESSAGE)
    except BaseException:
        return "<exception str() failed>"


def _fill_syntax_error(error: BaseException, source: str) -> None:
    """Gives a syntax error its line, which the compiler has only where the parser found the error."""
    if isinstance(error, SyntaxError) and error.filename == NAME and type(error.lineno) is int:
        lines = source.splitlines()
        if 0 < error.lineno <= len(lines):
            error.text = lines[error.lineno - 1]


def _traceback(error: BaseException, source: str, library: "list[str]") -> str:
    # A file traceback.py or re.py among the job's own must not be found.
    paths, sys.path = sys.path, library
    try:
        import linecache
        import traceback
    finally:
        sys.path = paths
    linecache.cache[NAME] = (len(source), None, source.splitlines(True), NAME)
    report = traceback.TracebackException(type(error), error, error.__traceback__, lookup_lines=False, compact=True)
    for part in _parts(report):
        _keep_user_frames(part)
        if len(getattr(part, "_str", None) or "") > _MAX_MESSAGE:
            part._str = printable(part._str, _MAX_MESSAGE)
    return printable("".join(report.format()), _MAX_TRACEBACK)


def _parts(report: "Any") -> list:
    """Returns the exception's report with those of its causes and members."""
    found, at = [report], 0
    while at < len(found):
        part = found[at]
        found += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or [])]
        found[at:] = [each for each in found[at:] if each is not None]
        at += 1
    return found


def _keep_user_frames(part: "Any") -> None:
    frames = [frame for frame in part.stack if not _ours(frame.filename)]
    while frames and "/asyncio/" in frames[0].filename.replace("\\", "/"):
        del frames[0]
    if frames:
        part.stack[:] = frames
    else:
        part.stack = None  # as for the syntax error of a script: no heading without a frame


def _ours(filename: str) -> bool:
    return filename.startswith(_HERE) or filename in starts


def _plain_traceback(error: BaseException) -> str:
    """Writes the frames alone, with nothing that can fail."""
    lines, trace = ["Traceback (most recent call last):"], error.__traceback__
    while trace is not None:
        lines += _plain_frame(trace)
        trace = trace.tb_next
    return printable("\n".join(lines) + f"\n{type_name(type(error))}\n", _MAX_TRACEBACK)


def _plain_frame(trace: "TracebackType") -> "list[str]":
    code = trace.tb_frame.f_code
    if _ours(code.co_filename):
        return []
    return [f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}']
