"""The files that come back: what the job's globs cover below the workspace, when the program has ended.

The walk follows no link, opens nothing but regular files with one name, and takes everything in the order of names.
The program's threads and children may still run, so a file is read from one descriptor, no further than the size it
had, and is given up when it has changed meanwhile. The worker checks every path again.
"""

import os
import stat
from binascii import b2a_base64

from .values import printable
from .wire import quote

TYPE_CHECKING = False  # typing itself costs 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FILES = 256
MAX_PATH = 512
_MAX_SEEN = 100_000
_PIECE = 256 * 1024
_ANY_DEPTH = "**"
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

# Where a path stands in the globs: the number of a glob, and how many of its parts are behind.
States = "frozenset[tuple[int, int]]"


class Globs:
    """The job's globs, which the worker has checked."""

    def __init__(self, globs: "list[str]") -> None:
        self._globs = [[part if part == _ANY_DEPTH else _tokens(part) for part in glob.split("/")] for glob in globs]
        self.start = self._with_nothing({(number, 0) for number in range(len(globs))})

    def step(self, states: "States", name: str) -> "States":
        """Returns where a path stands with one more part."""
        after = set()
        for number, at in states:
            if at < len(self._globs[number]):
                part = self._globs[number][at]
                if part == _ANY_DEPTH:
                    after.add((number, at))
                elif _matches(part, name):
                    after.add((number, at + 1))
        return self._with_nothing(after)

    def cover(self, states: "States") -> bool:
        """Reports whether a glob covers the whole path."""
        return any(at == len(self._globs[number]) for number, at in states)

    def covers(self, path: str) -> bool:
        """Reports whether a glob covers the path."""
        states = self.start
        for name in path.split("/"):
            states = self.step(states, name)
        return self.cover(states)

    def _with_nothing(self, states: "set[tuple[int, int]]") -> "States":
        """Adds what is reached when ** stands for no part."""
        for number, at in list(states):
            while self._globs[number][at : at + 1] == [_ANY_DEPTH]:
                at += 1
                states.add((number, at))
        return frozenset(states)


class Collector:
    """One walk over the workspace, which is the current directory. Tell sends a frame."""

    def __init__(self, globs: "list[str]", room: int, tell: "Callable[[str], None]") -> None:
        self.left_out = 0
        self._program: "tuple[str, object]" = ("", None)
        self._globs = Globs(globs)
        self._room = room
        self._tell = tell
        self._named = 0
        self._seen = 0
        self._open = ""  # the path of which not all pieces are sent

    def run(self, name: str, ours: "object") -> None:
        """Sends what the globs cover, except the program under that name if it is still the file that we wrote."""
        self._program = name, ours
        pending = [("", self._globs.start)]
        try:
            while pending:
                pending += self._visit(*pending.pop())
        except BaseException:
            if self._open:
                self._refuse(self._open, "unreadable", 0)
            raise

    def _visit(self, path: str, states: "States") -> "list[tuple[str, States]]":
        """Sends a file, or returns what is to be visited in a folder, last one first."""
        covered = self._globs.cover(states) and path != ""
        try:
            found = os.lstat(path or ".")
        except OSError:
            if covered:
                self._name(path, "unreadable", 0)
            return []
        if stat.S_ISDIR(found.st_mode):
            return self._folder(path, states)
        if stat.S_ISLNK(found.st_mode):
            if covered or os.path.isdir(path):
                self._name(path, "link", found.st_size)
        elif path == self._program[0] and _same(found, self._program[1]):
            pass
        elif covered and not stat.S_ISREG(found.st_mode):
            self._name(path, "not_regular", 0)
        elif covered and found.st_nlink != 1:
            self._name(path, "hard_link", found.st_size)
        elif covered:
            self._file(path, found)
        return []

    def _folder(self, path: str, states: "States") -> "list[tuple[str, States]]":
        if path and not _plain(path):
            self._name(path, "name", 0)
            return []
        try:
            names = self._list(path or ".")
        except OSError:
            self._name(path, "unreadable", 0)
            return []
        steps = ((name, self._globs.step(states, name)) for name in sorted(names, reverse=True))
        return [(f"{path}/{name}" if path else name, after) for name, after in steps if after]

    def _list(self, path: str) -> "list[str]":
        names = []
        with os.scandir(path) as entries:
            for entry in entries:
                if self._seen == _MAX_SEEN:
                    self.left_out += 1
                    break
                self._seen += 1
                names.append(entry.name)
        return names

    def _file(self, path: str, found: os.stat_result) -> None:
        if not _plain(path):
            self._name(path, "name", 0)
            return
        if found.st_size > self._room:
            self._name(path, "too_large", found.st_size)
            return
        if not self._may_name():
            return
        try:
            descriptor = os.open(path, _OPEN)
        except OSError:
            self._refuse(path, "unreadable", found.st_size)
            return
        try:
            self._read(path, descriptor, found)
        except OSError as error:
            if isinstance(error, ConnectionError):  # the channel's, not the file's
                raise
            self._refuse(path, "unreadable", found.st_size)
        finally:
            os.close(descriptor)

    def _read(self, path: str, descriptor: int, found: os.stat_result) -> None:
        if not _same(os.fstat(descriptor), found):
            self._refuse(path, "changed", found.st_size)
            return
        self._open, left = path, found.st_size
        while True:
            data = os.read(descriptor, min(_PIECE, left))
            left -= len(data)
            if left == 0 or not data:
                break
            self._content(path, data, ',"more":true')
        if left or not _same(os.fstat(descriptor), found):
            self._refuse(path, "changed", found.st_size)
            return
        self._content(path, data, "")
        self._open = ""
        self._room -= found.st_size

    def _name(self, path: str, why: str, size: int) -> None:
        if self._may_name():
            self._refuse(path, why, size)

    def _may_name(self) -> bool:
        """Counts one more file; False if that is one too many."""
        if self._named == MAX_FILES:
            self.left_out += 1
            return False
        self._named += 1
        return True

    def _content(self, path: str, data: bytes, more: str) -> None:
        text = b2a_base64(data, newline=False).decode()
        self._tell(f'"method":"artifact","params":{{"path":{quote(path)},"base64":"{text}"{more}}}')

    def _refuse(self, path: str, why: str, size: int) -> None:
        self._open = ""
        if not _plain(path):
            path, why, size = _shown(path), "name", 0
        said = f',"size":{size}' if size else ""
        self._tell(f'"method":"artifact","params":{{"path":{quote(path)},"refused":"{why}"{said}}}')


def _same(one: "object", other: "object") -> bool:
    """Reports whether nothing shows that the file is another or was written to."""
    return all(
        getattr(one, field) == getattr(other, field, None)
        for field in ("st_dev", "st_ino", "st_mode", "st_nlink", "st_size", "st_mtime_ns")
    )


def _plain(path: str) -> bool:
    """Reports whether a path can be shown and carried as it is. No lone surrogate, from bytes, is printable."""
    return path.isprintable() and "\\" not in path and len(path.encode()) <= MAX_PATH


def _shown(path: str) -> str:
    """Returns a path with what cannot be shown as escapes."""
    shown = "".join(character if _plain(character) else _escape(character) for character in path[:MAX_PATH])
    return printable(shown, MAX_PATH)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _tokens(part: str) -> "list[object]":
    """Takes a part of a glob apart: "*", None for ?, and else the characters that are wanted, or not, as ranges."""
    found: "list[object]" = []
    at = 0
    while at < len(part):
        if part[at] == "[":
            end = part.index("]", at)
            found.append(_class(part[at + 1 : end]))
            at = end
        else:
            found.append({"*": "*", "?": None}.get(part[at], (False, [(part[at], part[at])])))
        at += 1
    return found


def _class(text: str) -> "tuple[bool, list[tuple[str, str]]]":
    negated = text[0] in "!^"
    text, ranges = text[negated:], []
    while text:
        size = 3 if text[1:2] == "-" else 1
        ranges.append((text[0], text[size - 1]))
        text = text[size:]
    return negated, ranges


def _matches(tokens: "list[object]", name: str) -> bool:
    """Matches with one way back, to the last star: what the earlier ones took leaves that one every choice."""
    token, at, star, begun = 0, 0, -1, 0
    while at < len(name):
        if token < len(tokens) and tokens[token] == "*":
            star, begun = token, at
            token += 1
        elif token < len(tokens) and _takes(tokens[token], name[at]):
            token, at = token + 1, at + 1
        elif star >= 0:
            begun += 1
            token, at = star + 1, begun
        else:
            return False
    return all(rest == "*" for rest in tokens[token:])


def _takes(token: "object", character: str) -> bool:
    if token is None:
        return True
    negated, ranges = token  # type: ignore[misc]
    return any(low <= character <= high for low, high in ranges) != negated
