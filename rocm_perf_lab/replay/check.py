"""Comparison of the memory after a replay with the memory after the captured dispatch, byte for byte or by element type.

Only pages that one of the two dispatches wrote are compared. Bytes that differ between two replays of the captured code object
are ignored, because the kernel does not determine them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.replay.errors import ReplayError
from rocm_perf_lab.replay.format import PAGE_BYTES
from rocm_perf_lab.replay.kernarg import explicit_arguments, service_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.replayer import Replayer
    from rocm_perf_lab.toolchain.code_object import KernelArgument

NanPolicy = Literal["equal", "exact", "forbid"]
_LISTED = 16
_COMPARED_PAGES = 512
_C_TYPES = {
    "char": "i8", "signed char": "i8", "unsigned char": "u8", "uchar": "u8", "short": "i16", "unsigned short": "u16",
    "ushort": "u16", "int": "i32", "unsigned int": "u32", "uint": "u32", "unsigned": "u32", "long": "i64", "unsigned long": "u64",
    "long long": "i64", "unsigned long long": "u64", "ulong": "u64", "float": "f32", "double": "f64", "half": "f16",
    "_Float16": "f16", "__half": "f16", "__bf16": "bf16", "__hip_bfloat16": "bf16", "hip_bfloat16": "bf16",
}  # fmt: skip


@dataclass(frozen=True)
class Tolerances:
    """Tolerances for floating-point values. If both are zero and `nan` is exact, memory is compared byte for byte.

    A float is correct if |actual - expected| <= atol + rtol * |expected|. `nan`: `equal` accepts any NaN if a NaN is expected,
    `exact` requires the same bits, `forbid` rejects every NaN.
    """

    rtol: float = 0.0
    atol: float = 0.0
    nan: NanPolicy = "exact"
    types: Mapping[str, str] = field(default_factory=dict)
    """Element types by argument name or `@offset`; they override those of the capture and the code object."""

    @property
    def is_exact(self) -> bool:
        """Return whether memory is compared byte for byte."""
        return not self.rtol and not self.atol and self.nan == "exact"


@dataclass(frozen=True)
class Mismatch:
    """Wrong elements of one allocation; `first` is the address of the first one."""

    base: int
    argument: str | None
    dtype: str
    elements: int
    first: int
    actual: str
    expected: str
    largest_error: float | None

    def __str__(self) -> str:
        name = f"argument {self.argument}" if self.argument else f"region {self.base:#x}"
        error = f", largest error {self.largest_error:.3g}" if self.largest_error is not None else ""
        unit = "bytes" if self.dtype == "bytes" else f"elements ({self.dtype})"
        return (
            f"{name}: {self.elements:,} {unit} differ, first at {self.first:#x}: {self.actual} instead of {self.expected}{error}"
        )


@dataclass(frozen=True)
class MemoryState:
    """Pages changed by a dispatch, by region base: ascending page numbers (k,), and their bytes (k, 4096)."""

    pages: Mapping[int, tuple[NDArray[np.intp], NDArray[np.uint8]]]

    @classmethod
    def captured(cls, capture: Capture) -> MemoryState:
        """Return the memory after the captured dispatch."""
        pages = {}
        for region in capture.regions:
            if region.after is not None:
                numbers = np.concatenate([np.arange(first, first + count) for first, count in region.after.runs])
                pages[region.base] = (numbers, capture.contents.after_pages(region).reshape(-1, PAGE_BYTES))
        return cls(pages)

    @classmethod
    def now(cls, capture: Capture, replayer: Replayer) -> MemoryState:
        """Return a copy of the current memory of a replay."""
        images = {region.base: region for region in capture.regions}
        pages = {}
        for base, content, known in replayer.memory():
            rows = content.reshape(-1, PAGE_BYTES)
            changed = known
            if changed is None:
                changed = _changed_pages(rows, capture.image(images[base]).reshape(-1, PAGE_BYTES))
            pages[base] = (changed, rows[changed].copy())
        return cls(pages)

    def numbers(self, base: int) -> NDArray[np.intp]:
        """Return the numbers of a region's changed pages, shape (k,)."""
        return self.pages[base][0] if base in self.pages else np.zeros(0, dtype=np.intp)

    def rows(self, base: int, numbers: NDArray[np.intp], image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the bytes of pages, shape (k, 4096); unchanged pages are from `image`, shape (pages, 4096)."""
        rows = image[numbers].copy()
        if base in self.pages:
            own, content = self.pages[base]
            place = np.searchsorted(own, numbers)
            known = (
                (place < len(own)) & (own[np.minimum(place, len(own) - 1)] == numbers)
                if len(own)
                else np.zeros(len(numbers), bool)
            )
            rows[known] = content[place[known]]
        return rows


@dataclass(frozen=True)
class _Typed:
    """Allocation with a known element type: [begin, end), with elements aligned to `begin`."""

    begin: int
    end: int
    argument: str
    dtype: str


class MemoryCheck:
    """Comparison of the memory of replays with an expected state.

    Args:
        capture: The capture.
        expected: Expected memory.
        tolerances: Tolerances for floating-point values.
        indeterminate: Addresses of ignored bytes in ascending order, (k,).
    """

    def __init__(
        self, capture: Capture, expected: MemoryState, tolerances: Tolerances, indeterminate: NDArray[np.uint64] | None = None
    ) -> None:
        self._capture = capture
        self._expected = expected
        self._tolerances = tolerances
        self._indeterminate = indeterminate if indeterminate is not None else np.zeros(0, dtype=np.uint64)
        self._ignored = tuple(service_blocks(capture))
        self._typed = () if tolerances.is_exact else tuple(_typed_blocks(capture, tolerances.types))

    def mismatches(self, actual: MemoryState) -> list[Mismatch]:
        """Return the mismatches, one per allocation, at most 16."""
        found: list[Mismatch] = []
        forbids_nan = self._tolerances.nan == "forbid"
        for region in self._capture.regions:
            image = self._capture.image(region).reshape(-1, PAGE_BYTES)
            numbers = np.union1d(self._expected.numbers(region.base), actual.numbers(region.base)).astype(np.intp)
            for start in range(0, len(numbers), _COMPARED_PAGES):
                some = numbers[start : start + _COMPARED_PAGES]
                got, want = actual.rows(region.base, some, image), self._expected.rows(region.base, some, image)
                if forbids_nan or not np.array_equal(got, want):
                    found += self._of_pages(region.base, some, got, want)
        return _merged(found)[:_LISTED]

    def _of_pages(
        self, base: int, numbers: NDArray[np.intp], got: NDArray[np.uint8], want: NDArray[np.uint8]
    ) -> Iterator[Mismatch]:
        wrong = got != want
        addresses = (np.uint64(base) + numbers.astype(np.uint64)[:, None] * np.uint64(PAGE_BYTES)) + np.arange(
            PAGE_BYTES, dtype=np.uint64
        )
        wrong &= ~np.isin(addresses, self._indeterminate)
        dispatch = self._capture.dispatch
        kernarg = dispatch.packet.kernarg_address
        wrong &= ~((addresses >= kernarg) & (addresses < kernarg + dispatch.kernel.kernarg_size))
        for begin, end in self._ignored:
            wrong &= ~((addresses >= begin) & (addresses < end))
        for block in self._typed:
            size = DTYPES[block.dtype].itemsize
            for row in range(len(numbers)) if self._tolerances.nan == "forbid" else np.flatnonzero(wrong.any(axis=1)):
                page = int(addresses[row, 0])
                begin, end = max(block.begin, page), min(block.end, page + PAGE_BYTES)
                begin += -(begin - block.begin) % size
                end -= (end - begin) % size if end > begin else 0
                if begin >= end:
                    continue
                span = slice(begin - page, end - page)
                mismatch = _typed_mismatch(block, begin, got[row, span], want[row, span], wrong[row, span], self._tolerances)
                wrong[row, span] = False
                if mismatch is not None:
                    yield mismatch
        if wrong.any():
            row, column = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            yield Mismatch(
                base=base,
                argument=None,
                dtype="bytes",
                elements=int(wrong.sum()),
                first=int(addresses[row, column]),
                actual=f"{int(got[row, column]):#04x}",
                expected=f"{int(want[row, column]):#04x}",
                largest_error=None,
            )


def differing_addresses(capture: Capture, one: MemoryState, other: MemoryState) -> NDArray[np.uint64]:
    """Return the addresses of the bytes in which two states differ, in ascending order, (k,)."""
    found = []
    for region in capture.regions:
        image = capture.image(region).reshape(-1, PAGE_BYTES)
        numbers = np.union1d(one.numbers(region.base), other.numbers(region.base)).astype(np.intp)
        for start in range(0, len(numbers), _COMPARED_PAGES):
            some = numbers[start : start + _COMPARED_PAGES]
            rows, columns = np.nonzero(one.rows(region.base, some, image) != other.rows(region.base, some, image))
            found.append(
                np.uint64(region.base) + some[rows].astype(np.uint64) * np.uint64(PAGE_BYTES) + columns.astype(np.uint64)
            )
    return np.concatenate(found) if found else np.zeros(0, dtype=np.uint64)


def element_types(capture: Capture) -> dict[int, str]:
    """Return the element types of pointer arguments, such as `f32`, by offset of the argument.

    Sources, in this order: the capture, `.type_name` in the code object metadata, the parameters of the demangled C++ name.
    """
    from rocm_perf_lab.toolchain.demangle import demangle

    arguments = explicit_arguments(capture.kernel)
    listed = re.search(r"\((.*)\)$", demangle(capture.dispatch.kernel.mangled_name))
    parameters = listed[1].split(", ") if listed else []
    types = {}
    for number, argument in enumerate(arguments):
        parameter = parameters[number] if len(parameters) == len(arguments) else ""
        dtype = _named(argument, capture.dispatch.argument_types) or element_type(argument.type_name) or element_type(parameter)
        if dtype is not None and argument.size == _POINTER_BYTES:
            types[argument.offset] = dtype
    return types


_POINTER_BYTES = 8


def require_pointers(capture: Capture, types: Mapping[str, str]) -> None:
    """Check that element types are specified only for pointer arguments.

    Args:
        capture: The capture.
        types: Element types by argument name or `@offset`.

    Raises:
        ReplayError: A name or offset is not that of a pointer argument.
    """
    pointers = [argument for argument in explicit_arguments(capture.kernel) if argument.size == _POINTER_BYTES]
    known = {name for argument in pointers for name in (argument.name, f"@{argument.offset}") if name}
    unknown = [name for name in types if name not in known]
    if unknown:
        shown = ", ".join(
            f"{argument.name} (@{argument.offset})" if argument.name else f"@{argument.offset}" for argument in pointers
        )
        raise ReplayError(
            f"{capture.kernel.name} has no pointer argument {unknown[0]!r}",
            where="--type",
            hint=f"Its pointers are {shown}." if pointers else "It has no pointers.",
        )


def _typed_blocks(capture: Capture, given: Mapping[str, str]) -> Iterator[_Typed]:
    known = element_types(capture)
    for number, argument in enumerate(explicit_arguments(capture.kernel)):
        dtype = _named(argument, given) or known.get(argument.offset)
        if dtype is None or dtype not in DTYPES or argument.size != _POINTER_BYTES:
            continue
        pointer = int.from_bytes(capture.kernarg[argument.offset : argument.offset + argument.size], "little")
        region = capture.memory.region_at(pointer)
        if region is None:
            continue
        holding = (b for b in region.requested if b.base <= pointer < b.base + b.size)
        block = next(holding, None)
        begin, end = (block.base, block.base + block.size) if block is not None else (region.base, region.end)
        begin += (pointer - begin) % DTYPES[dtype].itemsize
        yield _Typed(begin, end, argument.name or str(number), dtype)


def _named(argument: KernelArgument, types: Mapping[str, str]) -> str | None:
    return types.get(argument.name) if argument.name in types else types.get(f"@{argument.offset}")


def element_type(declared: str) -> str | None:
    """Return the element type of a pointer declaration: `f32` for `float const*`; None if unknown."""
    if not declared.endswith("*"):
        return None
    return scalar_type(declared[:-1])


def scalar_type(declared: str) -> str | None:
    """Return the data type of a scalar declaration: `i32` for `int const`; None if unknown."""
    plain = " ".join(word for word in declared.split() if word not in ("const", "volatile", "__restrict__"))
    return _C_TYPES.get(plain)


def _typed_mismatch(
    block: _Typed,
    begin: int,
    got: NDArray[np.uint8],
    want: NDArray[np.uint8],
    suspect: NDArray[np.bool_],
    tolerances: Tolerances,
) -> Mismatch | None:
    dtype = DTYPES[block.dtype]
    chosen = suspect.reshape(-1, dtype.itemsize).any(axis=1)
    if tolerances.nan == "forbid" and dtype.kind not in "iu":
        chosen |= np.isnan(np.ascontiguousarray(got).view(dtype).astype(np.float64))
    elements = np.flatnonzero(chosen)
    actual = np.ascontiguousarray(got).view(dtype)[elements]
    expected = np.ascontiguousarray(want).view(dtype)[elements]
    largest = None
    if dtype.kind in "iu":
        wrong = np.ones(len(elements), dtype=bool)
    else:
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(a - e)
            near: NDArray[np.bool_] = np.isfinite(a) & np.isfinite(e) & (error <= tolerances.atol + tolerances.rtol * np.abs(e))
        both_nan = np.isnan(a) & np.isnan(e) if tolerances.nan == "equal" else np.zeros(len(a), dtype=bool)
        wrong = ~(near | (a == e) | both_nan)
        finite = error[wrong & np.isfinite(error)]
        largest = float(finite.max()) if len(finite) else None
    if not wrong.any():
        return None
    first = int(np.flatnonzero(wrong)[0])
    return Mismatch(
        base=block.begin,
        argument=block.argument,
        dtype=block.dtype,
        elements=int(wrong.sum()),
        first=begin + int(elements[first]) * dtype.itemsize,
        actual=_shown(actual[first]),
        expected=_shown(expected[first]),
        largest_error=largest,
    )


def _shown(value: Any) -> str:
    return str(value.item()) if value.dtype.kind in "iu" else f"{float(value):.9g}"


def _merged(found: Iterable[Mismatch]) -> list[Mismatch]:
    """Merge the mismatches of chunks of pages to one per allocation."""
    merged: dict[tuple[int, str | None], Mismatch] = {}
    for mismatch in found:
        key = (mismatch.base, mismatch.argument)
        before = merged.get(key)
        if before is None:
            merged[key] = mismatch
            continue
        errors = [e for e in (before.largest_error, mismatch.largest_error) if e is not None]
        merged[key] = Mismatch(
            base=before.base,
            argument=before.argument,
            dtype=before.dtype,
            elements=before.elements + mismatch.elements,
            first=before.first,
            actual=before.actual,
            expected=before.expected,
            largest_error=max(errors, default=None),
        )
    return list(merged.values())


def _changed_pages(rows: NDArray[np.uint8], image: NDArray[np.uint8]) -> NDArray[np.intp]:
    found = []
    for start in range(0, len(rows), _COMPARED_PAGES):
        differs = (rows[start : start + _COMPARED_PAGES] != image[start : start + _COMPARED_PAGES]).any(axis=1)
        found.append(np.flatnonzero(differs) + start)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)


def variable_mismatches(capture: Capture, now: Mapping[str, bytes], expected: bytes) -> Sequence[str]:
    """Return the names of module variables that differ from `expected` (layout of variables.bin); code addresses are ignored."""
    wrong = []
    part = capture.dispatch.code_object
    for variable in capture.dispatch.variables:
        want = expected[variable.offset : variable.offset + variable.size]
        got = now.get(variable.name)
        if got is None or got == want:
            continue
        words = len(want) // 8 * 8
        pointers = np.frombuffer(want[:words], np.uint64) - np.uint64(part.load_base) < part.load_size
        same = np.frombuffer(got[:words], np.uint64) == np.frombuffer(want[:words], np.uint64)
        if not (same | pointers).all() or got[words:] != want[words:]:
            wrong.append(variable.name)
    return wrong
