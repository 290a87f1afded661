"""Fills the holes in a template's memory, so that what its forks allocate comes to lie side by side.

Python hands memory out from the pool that a free block of the wanted size is in, and the C library from its list of
free chunks. In a process that has imported much these are strewn over all its pages, and a fork that takes a block
copies the page of it and that of its pool's head. Once the holes are taken, a size begins with a pool of its own, whose
head is on the page of its first blocks, and a chunk follows the one before. That is 50 pages fewer of 440 for a short
job, for 300 KB of a template that were free.
"""

from . import kernel

# Pools are as large, and aligned to it, since 3.10; they were a page before, and a size has a few more blocks filled.
_POOL = 16 << 10
# A pool's head is shorter.
_HEAD = 64
# Sizes are multiples of 16 up to this; what is larger is the C library's.
_LARGEST = 512
# What a bytes object takes besides its content, less than 16 of it for the byte at its end.
_BYTES = 40
# More than any size has holes.
_MOST = 20_000


def fill() -> object:
    """Returns what fills the holes that Python sees to, which is to be kept; what fills the others is for ever."""
    kept: "list[object]" = []
    for size in range(16, _LARGEST + 1, 16):
        _fill_pools(size, kept)
    kernel.fill_heap(_LARGEST)
    return kept


def _fill_pools(size: int, kept: "list[object]") -> None:
    for count in range(_MOST):
        block = _block(size, count)
        if id(block) % _POOL < _HEAD:
            return  # the first block of a pool that was empty, which it is again
        kept.append(block)


def _block(size: int, count: int) -> object:
    """Returns an object of just that size, which the collector does not know."""
    if size == 16:
        return object()
    return float(count) if size == 32 else bytes(size - _BYTES)
