"""Puts the interpreter's program text on huge pages.

A fork does not inherit which pages of a file are mapped: each guest would fault its way through the interpreter anew,
40 to 60 faults, and the processor would look up 600 small pages. A huge page is inherited with one entry, and since
nobody writes to text, none is ever split. The copy is the template's own memory, shared by its forks: 4 MiB for
Debian's Python, in place of a file's pages that others may share.
"""

import ctypes

from . import kernel

_HUGE = 2 << 20
_PAGE = 4 << 10
_LOAD = 1  # PT_LOAD
_WRITABLE = 2  # PF_W
_RELOCATABLE = 3  # ET_DYN


class _Header(ctypes.Structure):
    """Elf64_Ehdr."""

    _fields_ = [
        ("ident", ctypes.c_ubyte * 16),
        ("kind", ctypes.c_uint16),
        ("machine", ctypes.c_uint16),
        ("version", ctypes.c_uint32),
        ("entry", ctypes.c_uint64),
        ("segments", ctypes.c_uint64),
        ("sections", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("size", ctypes.c_uint16),
        ("segment_size", ctypes.c_uint16),
        ("segment_count", ctypes.c_uint16),
    ]


class _Segment(ctypes.Structure):
    """Elf64_Phdr."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("in_file", ctypes.c_uint64),
        ("in_memory", ctypes.c_uint64),
        ("alignment", ctypes.c_uint64),
    ]


def enlarge() -> int:
    """Moves what it can and returns how many bytes that are. Where the system has no huge pages to give, all stays."""
    moved = 0
    for start, end in _whole(_read_only(kernel.base_of(ctypes.pythonapi.Py_Initialize))):
        try:
            kernel.replace_with_huge(start, end - start, _HUGE)
        except OSError:
            continue
        moved += end - start
    return moved


def _read_only(base: int) -> "list[tuple[int, int]]":
    """Returns where the segments lie that are not written to, of the object that is loaded at base."""
    header = _Header.from_address(base)
    if bytes(header.ident[:5]) != b"\x7fELF\x02" or header.segment_size != ctypes.sizeof(_Segment):
        return []
    bias = base if header.kind == _RELOCATABLE else 0
    found = []
    for segment in (_Segment * header.segment_count).from_address(base + header.segments):
        if segment.kind == _LOAD and not segment.flags & _WRITABLE:
            start, end = bias + segment.address, bias + segment.address + segment.in_memory
            found.append((start & -_PAGE, (end + _PAGE - 1) & -_PAGE))
    return found


def _whole(parts: "list[tuple[int, int]]") -> "list[tuple[int, int]]":
    """Returns the huge pages that are covered completely, neighbours as one."""
    joined: "list[tuple[int, int]]" = []
    for start, end in sorted(parts):
        if joined and joined[-1][1] == start:
            start = joined.pop()[0]
        joined.append((start, end))
    aligned = [((start + _HUGE - 1) & -_HUGE, end & -_HUGE) for start, end in joined]
    return [(start, end) for start, end in aligned if start < end]
