"""Runs of chosen workgroups on buffers of many GiB, of which only the pages that the kernel accesses exist.

The content of a page is a function of the seed, the buffer and the page, so every run of a shape sees the same values.
"""

from __future__ import annotations

import ctypes
import weakref
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.kernarg import pack_kernarg
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import PAGE_BYTES, DeviceMemory
from rocm_perf_lab.languages.arguments import (
    ArangeInit,
    BufferArgument,
    ConstantInit,
    IntegersInit,
    NormalInit,
    UniformInit,
)
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.toolchain.source_lines import line_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.memory import SparsePages
    from rocm_perf_lab.emulator.translation import KernelTranslator
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult

    Bytes = NDArray[np.uint8]

_TABLE_ELEMENTS = 1 << 17
_MASK = (1 << 64) - 1
_FIRST_RESERVED = 0x3000_0000_0000
_GAP_BYTES = 40 << 30
"""Unused addresses between buffers: an index that is wrong by 2^32 elements of 8 bytes leads there."""


@dataclass(frozen=True)
class SparseBuffer:
    """Buffer of a large shape; `shape` in elements."""

    argument: BufferArgument
    shape: tuple[int, ...]
    nbytes: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        return DTYPES[self.argument.dtype]


@dataclass
class PageContents:
    """Initial content of the pages of one shape: parts of a table of values, from a place that depends on seed and page.

    Args:
        buffers: Buffers by name.
        params: Params of the shape, for ranges of integers.
        seed: Seed of all values.
    """

    buffers: Mapping[str, SparseBuffer]
    params: Mapping[str, Any]
    seed: int
    _tables: dict[str, Bytes] = field(default_factory=dict)

    def page(self, name: str, page: int) -> Bytes:
        """Return the bytes of a page, (PAGE_BYTES,); callers do not change them."""
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


def _mixed(value: int) -> int:
    """Return a number of 64 bits that depends on all bits of another (splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


class AddressArena:
    """Addresses of large buffers, reserved once per kernel: processes with a limit of memory inherit them.

    They are apart from those of emulated GPUs, whose addresses are in messages and must not depend on reserved ones.
    """

    def __init__(self) -> None:
        self._memory = DeviceMemory(load_runtime(), _FIRST_RESERVED)
        weakref.finalize(self, self._memory.close)
        self._places: list[tuple[int, int]] = []

    def addresses(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return one address per size in bytes, with unused addresses between them."""
        for index, nbytes in enumerate(sizes):
            if index == len(self._places):
                self._places.append((0, 0))
            if self._places[index][1] < nbytes:
                self._places[index] = (self._memory.reserve(nbytes + _GAP_BYTES) + _GAP_BYTES // 2, nbytes)
        return tuple(address for address, _ in self._places[: len(sizes)])

    def close(self) -> None:
        """Give all addresses back."""
        self._memory.close()


@dataclass(frozen=True)
class SparseLaunch:
    """Launch of a large shape: `launch` has placeholders of one element in the place of its buffers."""

    launch: Launch
    geometry: Geometry
    buffers: Mapping[str, SparseBuffer]

    @property
    def workgroups(self) -> int:
        """Workgroups of the grid."""
        x, y, z = self.geometry.grid
        return x * y * z


def sparse_launch(description: KernelDescription, build: BuildResult, symbol: str) -> SparseLaunch:
    """Return the launch of a description whose buffers may be of any size.

    Raises:
        LabError: The params do not describe a launch, for example because a scalar does not fit its type.
    """
    small = tuple(a.model_copy(update={"shape": (1,)}) if isinstance(a, BufferArgument) else a for a in description.arguments)
    launch = build_launch(description.model_copy(update={"arguments": small}), build.code_object, symbol, build.contract)
    buffers = {a.name: _sparse(a, description) for a in description.arguments if isinstance(a, BufferArgument)}
    return SparseLaunch(launch, launch.geometry, buffers)


def _sparse(argument: BufferArgument, description: KernelDescription) -> SparseBuffer:
    shape = tuple(evaluate_integer(e, description.params, where=argument.name) for e in argument.shape)
    count = 1
    for size in shape:
        count *= size
    return SparseBuffer(argument, shape, count * DTYPES[argument.dtype].itemsize)


class SparseSession:
    """Loaded kernel on sparse buffers; a context manager that frees the pages.

    Args:
        target: GPU.
        launch: Launch of a large shape.
        arena: Addresses of the buffers.
        contents: Initial content.
        budget: Wave instructions of one workgroup.
        translator: Translator of the kernel, to be shared by sessions that are not open at the same time.

    `writes` has the changed bytes by workgroup, buffer and page, and `is_overlapping` tells whether two workgroups changed one.
    """

    def __init__(
        self,
        target: Target,
        launch: SparseLaunch,
        arena: AddressArena,
        contents: PageContents,
        budget: int,
        translator: KernelTranslator,
    ) -> None:
        self._contents = contents
        self._owned = ExitStack()
        self._buffers = launch.buffers
        self._accessed: dict[str, list[int]] = {name: [] for name in launch.buffers}
        self._final: dict[tuple[str, int], Bytes] = {}
        self.writes: dict[int, dict[tuple[str, int], NDArray[np.bool_]]] = {}
        self.instructions: dict[int, int] = {}
        self.is_overlapping = False
        self._written: dict[tuple[str, int], NDArray[np.bool_]] = {}
        machine = self._owned.enter_context(EmulatedGpu(target, max_instructions=budget, translator=translator))
        loaded = machine.load(launch.launch.code_object)  # first, so that code is at the same address in every session
        addresses = arena.addresses([buffer.nbytes for buffer in launch.buffers.values()])
        self._addresses = dict(zip(launch.buffers, addresses, strict=True))
        self._pages: dict[str, SparsePages] = {}
        for name, buffer in launch.buffers.items():
            self._pages[name] = machine.memory.adopt_sparse(name, buffer.nbytes, self._addresses[name], partial(self._fill, name))
        self._owned.callback(self._discard)
        self._prepare(machine, loaded, launch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._owned.close()

    def run(self, workgroup: int) -> None:
        """Run one workgroup, by linear id, on the initial content, unless it ran before; its changes are then in `writes`.

        Raises:
            EmulationError: The kernel faulted or exceeded its budget.
        """
        if workgroup in self.writes:
            return
        result = self._prepared.run(traced=False, workgroups=(workgroup,))
        self.instructions[workgroup] = int(result.counters["SQ_INSTS"])
        self.writes[workgroup] = {}
        for name, accessed in self._accessed.items():
            pages = np.array(accessed, np.int64)
            written = self._pages[name].pages.written
            for page in pages[written[pages] != 0].tolist():
                written[page] = 0
                content, before = self._content(name, page), self._contents.page(name, page)
                changed = content != before
                if changed.any():
                    self.writes[workgroup][name, page] = changed
                    self._final[name, page] = np.where(changed, content, self.page(name, page))
                    content[:] = before  # the next workgroup may write the same values
                    known = self._written.get((name, page))
                    self.is_overlapping |= known is not None and bool((known & changed).any())
                    self._written[name, page] = changed if known is None else known | changed

    @property
    def accessed_pages(self) -> int:
        """Number of pages in memory."""
        return sum(len(pages) for pages in self._accessed.values())

    def written_pages(self) -> dict[tuple[str, int], NDArray[np.bool_]]:
        """Return the changed bytes, (PAGE_BYTES,), of each changed page, by buffer and page."""
        return dict(self._written)

    def page(self, name: str, page: int) -> Bytes:
        """Return the bytes of a page after all workgroups that ran, (PAGE_BYTES,)."""
        return self._final.get((name, page), self._contents.page(name, page))

    def elements_of(self, workgroup: int, name: str) -> tuple[int, int] | None:
        """Return the first and the last element of a buffer that a workgroup changed, or None if it changed none."""
        pages = {page: changed for (buffer, page), changed in self.writes.get(workgroup, {}).items() if buffer == name}
        if not pages:
            return None
        first, last, size = min(pages), max(pages), self._buffers[name].dtype.itemsize
        end = last * PAGE_BYTES + PAGE_BYTES - 1 - int(np.argmax(pages[last][::-1]))
        return (first * PAGE_BYTES + int(np.argmax(pages[first]))) // size, end // size

    def changed(self, workgroup: int, name: str, element: int) -> bool:
        """Return whether a workgroup changed an element of a buffer."""
        size = self._buffers[name].dtype.itemsize
        page, byte = divmod(element * size, PAGE_BYTES)
        changed = self.writes[workgroup].get((name, page))
        return changed is not None and bool(changed[byte : byte + size].any())

    def shared_element(self, one: int, other: int, name: str) -> int | None:
        """Return the first element of a buffer that two workgroups changed, or None."""
        mine, theirs = self.writes.get(one, {}), self.writes.get(other, {})
        for buffer, page in sorted(mine.keys() & theirs.keys()):
            both = mine[buffer, page] & theirs[buffer, page]
            if buffer == name and both.any():
                return (page * PAGE_BYTES + int(np.argmax(both))) // self._buffers[name].dtype.itemsize
        return None

    def _prepare(self, machine: EmulatedGpu, loaded: LoadedCodeObject, launch: SparseLaunch) -> None:
        one = launch.launch
        for variable in one.variables:
            loaded.fill_global(variable.name, variable.data.tobytes())
        values = [self._addresses[a.name] if isinstance(a, BufferValue) else a.encoded for a in one.arguments]
        kernarg = pack_kernarg(loaded.kernel(one.symbol), values, launch.geometry)

        def line_of(address: int) -> str | None:
            found = line_table(one.code_object)(address)
            return f"{found.file}:{found.line}" if found is not None else None

        self._prepared = self._owned.enter_context(
            machine.prepare(loaded, one.symbol, launch.geometry, kernarg, source_line=line_of)
        )

    def _content(self, name: str, page: int) -> Bytes:
        address = self._addresses[name] + page * PAGE_BYTES
        return np.ctypeslib.as_array((ctypes.c_uint8 * PAGE_BYTES).from_address(address))

    def _fill(self, name: str, address: int) -> None:
        page = (address - self._addresses[name]) // PAGE_BYTES
        self._accessed[name].append(page)
        self._content(name, page)[:] = self._contents.page(name, page)

    def _discard(self) -> None:
        for sparse in self._pages.values():
            sparse.discard()
