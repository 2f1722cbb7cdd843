"""Runs of selected workgroups on buffers of many GiB; only accessed pages are allocated.

The content of a page is a function of seed, buffer and page, so that all runs of a shape have the same inputs.
"""

from __future__ import annotations

import ctypes
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.kernarg import pack_kernarg
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import PAGE_BYTES, DeviceMemory
from rocm_perf_lab.languages.arguments import (
    BufferArgument,
)
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.toolchain.source_lines import line_table
from rocm_perf_lab.verify.sparse_pages import ChangedBytes, FinalPages, SparseBuffer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.memory import SparsePages
    from rocm_perf_lab.emulator.translation import KernelTranslator
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.sparse_pages import Bytes, PageContents, Place


_FIRST_RESERVED = 0x3000_0000_0000
_GAP_BYTES = 40 << 30
"""Size in bytes of the unused addresses between buffers: an index that is wrong by 2^32 elements of 8 bytes leads there."""


class AddressArena:
    """Addresses of large buffers, reserved once per kernel, since processes with a memory limit inherit them.

    They do not overlap the addresses of emulated GPUs, which occur in messages and must not depend on reservations.
    """

    def __init__(self) -> None:
        self._memory = DeviceMemory(load_runtime(), _FIRST_RESERVED)
        weakref.finalize(self, self._memory.close)
        self._places: list[tuple[int, int]] = []

    def addresses(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return one address per size (in bytes), with unused addresses between the buffers."""
        for index, nbytes in enumerate(sizes):
            if index == len(self._places):
                self._places.append((0, 0))
            if self._places[index][1] < nbytes:
                self._places[index] = (self._memory.reserve(nbytes + _GAP_BYTES) + _GAP_BYTES // 2, nbytes)
        return tuple(address for address, _ in self._places[: len(sizes)])

    def close(self) -> None:
        """Release all addresses."""
        self._memory.close()


@dataclass(frozen=True)
class SparseLaunch:
    """Launch of a large shape: `launch` has placeholders of one element instead of the buffers."""

    launch: Launch
    geometry: Geometry
    buffers: Mapping[str, SparseBuffer]

    @property
    def workgroups(self) -> int:
        """Number of workgroups of the grid."""
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
        budget: Limit of wave instructions per workgroup.
        translator: Translator of the kernel, to be shared by sessions that are not open at the same time.

    `writes` contains the changed bytes by workgroup and place, `final` the pages after all workgroups that ran, and
    `is_overlapping` is true if two workgroups changed the same byte.
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
        self.final = FinalPages(contents)
        self.writes: dict[int, dict[Place, ChangedBytes]] = {}
        self.instructions: dict[int, int] = {}
        self.is_overlapping = False
        self._written: dict[Place, ChangedBytes] = {}
        machine = self._owned.enter_context(EmulatedGpu(target, max_instructions=budget, translator=translator))
        loaded = machine.load(launch.launch.code_object)  # Loaded first, so that the code has the same address in every session.
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
        """Run one workgroup, by linear id, on the initial content, unless it ran before, and add its changes to `writes`.

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
                self._keep(workgroup, (name, page))

    def _keep(self, workgroup: int, place: Place) -> None:
        """Store the changes of a page and restore its initial content, since the next workgroup may write the same values."""
        content, before = self._content(*place), self._contents.page(*place)
        mask = content != before
        if not mask.any():
            return
        changed = ChangedBytes.of(mask)
        self.writes[workgroup][place] = changed
        self.final.add(place, changed, content)
        content[:] = before
        known = self._written.get(place)
        self.is_overlapping |= known is not None and known.meets(changed)
        self._written[place] = changed.with_all(known)

    @property
    def accessed_pages(self) -> int:
        """Number of pages in memory."""
        return sum(len(pages) for pages in self._accessed.values())

    def written_pages(self) -> dict[Place, ChangedBytes]:
        """Return the changed bytes of each changed page."""
        return dict(self._written)

    def elements_of(self, workgroup: int, name: str) -> tuple[int, int] | None:
        """Return the first and the last element of a buffer that a workgroup changed, or None if it changed none."""
        pages = {page: changed for (buffer, page), changed in self.writes.get(workgroup, {}).items() if buffer == name}
        if not pages:
            return None
        first, last, size = min(pages), max(pages), self._buffers[name].dtype.itemsize
        return (first * PAGE_BYTES + pages[first].first) // size, (last * PAGE_BYTES + pages[last].last) // size

    def changed(self, workgroup: int, name: str, element: int) -> bool:
        """Return whether a workgroup changed an element of a buffer."""
        size = self._buffers[name].dtype.itemsize
        page, byte = divmod(element * size, PAGE_BYTES)
        changed = self.writes[workgroup].get((name, page))
        return changed is not None and changed.has_any(byte, byte + size)

    def shared_element(self, one: int, other: int, name: str) -> int | None:
        """Return the first element of a buffer that two workgroups changed, or None."""
        mine, theirs = self.writes.get(one, {}), self.writes.get(other, {})
        for buffer, page in sorted(mine.keys() & theirs.keys()):
            both = mine[buffer, page].mask & theirs[buffer, page].mask
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
