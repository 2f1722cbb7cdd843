"""Pages of sparse buffers: initial content, bytes changed by a kernel, and final content.

Only changed parts are stored, because a kernel may change a few bytes in each of many pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.emulator.memory import PAGE_BYTES
from rocm_perf_lab.languages.arguments import (
    ArangeInit,
    BufferArgument,
    ConstantInit,
    IntegersInit,
    NormalInit,
    UniformInit,
)
from rocm_perf_lab.languages.data_types import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Place = tuple[str, int]
    """Name of a buffer, and index of a page in it."""

_TABLE_ELEMENTS = 1 << 17
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class SparseBuffer:
    """Buffer of a large shape; `shape` is in elements."""

    argument: BufferArgument
    shape: tuple[int, ...]
    nbytes: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        return DTYPES[self.argument.dtype]


@dataclass
class PageContents:
    """Initial content of the pages of one shape: slices of a table of values, at an offset that depends on seed and page.

    Args:
        buffers: Buffers by name.
        params: Params of the shape, which determine ranges of integers.
        seed: Seed of all values.
    """

    buffers: Mapping[str, SparseBuffer]
    params: Mapping[str, Any]
    seed: int
    _tables: dict[str, Bytes] = field(default_factory=dict)

    def page(self, name: str, page: int) -> Bytes:
        """Return the bytes of a page, shape (PAGE_BYTES,); callers must not change them."""
        buffer = self.buffers[name]
        size = buffer.dtype.itemsize
        if isinstance(buffer.argument.init, ArangeInit):
            first = page * (PAGE_BYTES // size)
            return np.arange(first, first + PAGE_BYTES // size).astype(buffer.dtype).view(np.uint8)
        if name not in self._tables:
            self._tables[name] = self._table(name)
        start = _mixed(self.seed ^ _mixed(page)) % _TABLE_ELEMENTS * size
        return self._tables[name][start : start + PAGE_BYTES]

    def _table(self, name: str) -> Bytes:
        buffer = self.buffers[name]
        count = _TABLE_ELEMENTS + PAGE_BYTES // buffer.dtype.itemsize
        random = np.random.default_rng([self.seed, list(self.buffers).index(name)])
        init = buffer.argument.init
        values: NDArray[Any]
        match init:
            case NormalInit():
                values = random.normal(init.mean, init.std, count)
            case UniformInit():
                values = random.uniform(init.low, init.high, count)
            case IntegersInit():
                limits = [evaluate_integer(limit, self.params, where=name) for limit in (init.low, init.high)]
                values = random.integers(limits[0], limits[1], count)
            case ConstantInit():
                values = np.full(count, init.value)
            case _:
                return random.integers(0, 256, count * buffer.dtype.itemsize, np.uint8)
        return np.ascontiguousarray(values.astype(buffer.dtype)).view(np.uint8)


@dataclass(frozen=True, slots=True)
class ChangedBytes:
    """Non-empty set of bytes of one page.

    Args:
        first: Smallest offset in the page in bytes.
        last: Largest offset in bytes.
        bits: Packed bits of the bytes from `first` to `last`.
    """

    first: int
    last: int
    bits: bytes

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> ChangedBytes:
        """Return the set of the true elements of a mask of shape (PAGE_BYTES,) with at least one true element."""
        first, last = int(np.argmax(mask)), len(mask) - 1 - int(np.argmax(mask[::-1]))
        return cls(first, last, np.packbits(mask[first : last + 1]).tobytes())

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Mask of the page, shape (PAGE_BYTES,)."""
        whole = np.zeros(PAGE_BYTES, np.bool_)
        whole[self.first : self.last + 1] = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=self.last - self.first + 1)
        return whole

    def has_any(self, start: int, stop: int) -> bool:
        """Return whether the set contains an offset in `range(start, stop)`."""
        return bool(self.mask[start:stop].any())

    def meets(self, other: ChangedBytes) -> bool:
        """Return whether two sets have a common byte."""
        apart = self.last < other.first or other.last < self.first
        return not apart and bool((self.mask & other.mask).any())

    def with_all(self, other: ChangedBytes | None) -> ChangedBytes:
        """Return the union with another set; None is the empty set."""
        return self if other is None else ChangedBytes.of(self.mask | other.mask)


@dataclass(frozen=True)
class FinalPages:
    """Content of pages after a kernel ran: the initial content with changed parts."""

    contents: PageContents
    _parts: dict[Place, tuple[int, bytes]] = field(default_factory=dict)

    def page(self, place: Place) -> Bytes:
        """Return the bytes of a page, shape (PAGE_BYTES,); callers must not change them."""
        initial = self.contents.page(*place)
        if place not in self._parts:
            return initial
        start, part = self._parts[place]
        return np.concatenate([initial[:start], np.frombuffer(part, np.uint8), initial[start + len(part) :]])

    def add(self, place: Place, changed: ChangedBytes, content: Bytes) -> None:
        """Copy the changed bytes of a page from `content`, shape (PAGE_BYTES,)."""
        start, part = self._parts.get(place, (changed.first, b""))
        first, stop = min(start, changed.first), max(start + len(part), changed.last + 1)
        page = np.where(changed.mask, content, self.page(place))
        self._parts[place] = first, page[first:stop].tobytes()

    def copy(self) -> FinalPages:
        """Return an independent copy."""
        return FinalPages(self.contents, dict(self._parts))


def _mixed(value: int) -> int:
    """Return a 64-bit hash of a 64-bit number (splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
