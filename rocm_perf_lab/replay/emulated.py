"""Replay of a capture on the emulator, with the captured memory at its captured addresses.

The emulator tracks the pages that a kernel stores to, so that restoring memory copies only these. The code object is loaded at
its captured address if that is free, which keeps pointers to code valid.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab import __version__
from rocm_perf_lab.arch.registry import emulated_architectures
from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.device.emulated_time import estimate_launch
from rocm_perf_lab.emulator.kernarg import hidden_values
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import DeviceMemoryError
from rocm_perf_lab.emulator.sampling import DEFAULT_SAMPLE
from rocm_perf_lab.replay.address_space import materialise
from rocm_perf_lab.replay.errors import ReplayError
from rocm_perf_lab.replay.kernarg import HOST_SERVICES, MEMORY_ARGUMENTS, PROCESS_ARGUMENTS, replay_kernarg
from rocm_perf_lab.replay.replayer import ReplayEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.launching import LaunchResult, PreparedLaunch
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.memory import Allocation, TrackedPages
    from rocm_perf_lab.emulator.sampling import SamplePolicy
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.format import Region
    from rocm_perf_lab.replay.kernarg import ReplayGeometry
    from rocm_perf_lab.replay.messages import CacheState
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_COPIED_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class _MappedRegion:
    region: Region
    image: NDArray[np.uint8]
    pages: TrackedPages
    blocks: tuple[Allocation, ...]

    @property
    def content(self) -> NDArray[np.uint8]:
        return _bytes_at(self.region.base, self.region.size)


@dataclass(frozen=True)
class _LoadedCode:
    """Loaded code object; `image` is its memory before a dispatch, with the captured variables."""

    loaded: LoadedCodeObject
    kernel: KernelMetadata
    prepared: PreparedLaunch
    image: NDArray[np.uint8]
    pages: TrackedPages
    kernarg: bytes
    geometry: Geometry


class EmulatedReplayer:
    """Replayer on an emulated GPU.

    Args:
        capture: The capture; this process has reserved its address ranges.
        target: GPU to emulate.
        max_instructions: Limit of wavefront instructions in one dispatch; a kernel that exceeds it is stopped with an error.
        threads: Threads that execute workgroups.
        sample: Sample of workgroups whose instruction streams the timing model uses.

    Raises:
        ReplayError: The capture is of a different architecture, or memory is insufficient.
    """

    def __init__(
        self, capture: Capture, target: Target, *, max_instructions: int, threads: int, sample: SamplePolicy = DEFAULT_SAMPLE
    ) -> None:
        _require_emulated(capture)
        self._capture = capture
        self._target = target
        self._machine = EmulatedGpu(target, max_instructions=max_instructions, threads=threads, sample=sample)
        self._regions = [self._map(region) for region in capture.regions]
        self._kernarg_region = capture.memory.region_at(capture.dispatch.packet.kernarg_address)
        self._codes: dict[str, _LoadedCode] = {}
        self._loaded: dict[str, LoadedCodeObject] = {}
        self._current: _LoadedCode | None = None
        self._counters: Mapping[str, float] = {}
        self._sample_seed: int | None = None
        self._warm = True
        self._notes: dict[str, None] = dict.fromkeys(_capture_notes(capture))

    @property
    def environment(self) -> ReplayEnvironment:
        """The emulated GPU."""
        return ReplayEnvironment(
            f"{self._target.architecture} (emulator, {self._target.name})",
            f"none (emulator {__version__})",
            True,
            self._sample_seed,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the fidelity of this replay."""
        return tuple(self._notes)

    def load(self, code_object: CodeObject, kernel: KernelMetadata, geometry: ReplayGeometry) -> None:
        """Load a code object, fill its variables and arrange its arguments."""
        key = f"{code_object.sha256} {geometry}"
        if key not in self._codes:
            self._codes[key] = self._load(code_object, kernel, geometry)
        self._current = self._codes[key]
        self.restore()
        self._put_kernarg()

    def restore(self) -> int:
        """Restore the pages that were written since the last restore; return the number of bytes copied."""
        pages = sum(mapped.pages.restore(mapped.image) for mapped in self._regions)
        code = self._code
        pages += code.pages.restore(code.image)
        if pages:
            self._put_kernarg()
        return pages * 4096

    def dispatch(self, *, timed: bool = True) -> float | None:
        """Run the kernel once; return the estimated duration in microseconds, or None if `timed` is False."""
        code = self._code
        result = code.prepared.run(traced=timed)
        if not timed:
            return None
        return self._estimate(code, result)

    def use_caches(self, state: CacheState) -> None:
        """Estimate following dispatches with this state of the memory-side cache; restored memory counts as warm."""
        self._warm = state != "cold"

    def flush(self) -> None:
        """Do nothing: the timing model starts with the selected state."""

    def clocks(self) -> Mapping[str, float]:
        """Return no clocks: the timing model assumes the maximum clock."""
        return {}

    def memory(self) -> Iterator[tuple[int, NDArray[np.uint8], NDArray[np.intp] | None]]:
        """Yield every region with the pages that were written since the last restore."""
        for mapped in self._regions:
            yield mapped.region.base, mapped.content, np.flatnonzero(mapped.pages.written)

    def variables(self) -> Mapping[str, bytes]:
        """Return the captured variables that the loaded code object has, by name."""
        loaded = self._code.loaded
        symbols = loaded.elf.symbols
        names = [variable.name for variable in self._capture.dispatch.variables if variable.name in symbols]
        return {name: loaded.device_global(name).tobytes() for name in names}

    def read(self, address: int, nbytes: int) -> bytes:
        """Return current bytes of captured memory.

        Raises:
            ReplayError: The range is not inside one captured region.
        """
        region = self._capture.memory.region_at(address)
        if region is None or region.file is None or address + nbytes > region.end:
            raise ReplayError(f"{nbytes:,} bytes at {address:#x} are not inside one captured region")
        return ctypes.string_at(address, nbytes)

    def counters(self) -> Mapping[str, float]:
        """Return exact instruction counters and estimated memory counters."""
        return self._counters

    def close(self) -> None:
        """Release the memory of the machine; captured ranges remain reserved until the process ends."""
        self._machine.close()

    @property
    def _code(self) -> _LoadedCode:
        if self._current is None:
            raise ReplayError("no code object is loaded")
        return self._current

    def _map(self, region: Region) -> _MappedRegion:
        if not materialise(region.base, region.size):
            raise ReplayError(
                f"not enough memory for region {region.base:#x} of {region.size:,} bytes",
                hint="Replay on a machine with more memory.",
            )
        image = self._capture.image(region)
        content = _bytes_at(region.base, region.size)
        for start in range(0, region.size, _COPIED_AT_ONCE):
            piece = image[start : start + _COPIED_AT_ONCE]
            if piece.any():  # New memory is zero; untouched pages are not allocated.
                content[start : start + _COPIED_AT_ONCE] = piece
        return _MappedRegion(
            region, image, self._machine.memory.track_writes(region.base, region.size), tuple(self._adopt(region))
        )

    def _adopt(self, region: Region) -> Iterator[Allocation]:
        """Register the allocations of an emulated run exactly, those of a GPU as whole pages, which a kernel may read."""
        memory = self._machine.memory
        if self._capture.emulated and region.requested:
            for block in region.requested:
                yield memory.adopt(f"captured allocation {block.base:#x}", block.size, block.base)
        else:
            yield memory.adopt(f"captured region {region.base:#x}", region.size, region.base)

    def _load(self, code_object: CodeObject, kernel: KernelMetadata, wanted: ReplayGeometry) -> _LoadedCode:
        packet = wanted.packet
        geometry = Geometry.of_work_items(packet.grid_size, packet.workgroup_size, wanted.dynamic_lds_bytes)
        if code_object.sha256 not in self._loaded:
            self._loaded[code_object.sha256] = self._load_at_captured_address(code_object)
        loaded = self._loaded[code_object.sha256]
        self._fill_variables(loaded)
        allocation = loaded.allocation
        pages = self._machine.memory.track_writes(allocation.address, allocation.mapped_bytes)
        kernarg = replay_kernarg(self._capture, kernel, _services(geometry), wanted)
        self._notes.update(dict.fromkeys(kernarg.notes))
        prepared = self._machine.prepare(
            loaded,
            kernel.symbol,
            geometry,
            kernarg.content,
            kernarg_address=self._kernarg_address(len(kernarg.content)),
            scratch_bytes=wanted.packet.private_segment_size,
            was_dispatched=wanted.packet == self._capture.dispatch.packet,
        )
        image = _bytes_at(allocation.address, allocation.mapped_bytes).copy()
        return _LoadedCode(loaded, kernel, prepared, image, pages, kernarg.content, geometry)

    def _load_at_captured_address(self, code_object: CodeObject) -> LoadedCodeObject:
        captured = self._capture.dispatch.code_object.load_delta
        if captured and captured % 4096 == 0:
            try:
                return self._machine.load(code_object, captured)
            except DeviceMemoryError:
                pass
        if self._capture.dispatch.code_pointers.count:
            count = self._capture.dispatch.code_pointers.count
            note = f"{count} pointers in captured memory refer to code, which could not be loaded at its original address"
            self._notes[note] = None
        return self._machine.load(code_object)

    def _fill_variables(self, loaded: LoadedCodeObject) -> None:
        symbols = loaded.elf.symbols
        for variable in self._capture.dispatch.described_variables:
            symbol = symbols.get(variable.name)
            if symbol is None or symbol.size != variable.size:
                self._notes[f"module variable {variable.name} was not restored: it is not in this code object"] = None
                continue
            content = self._capture.variables[variable.offset : variable.offset + variable.size]
            here = loaded.device_global(variable.name)
            here[:] = np.frombuffer(_moved(content, here.tobytes(), self._capture, loaded.load_address), np.uint8)

    def _kernarg_address(self, nbytes: int) -> int | None:
        """Return the captured address if its memory was captured and the segment fits, else None."""
        address, region = self._capture.dispatch.packet.kernarg_address, self._kernarg_region
        if region is None or region.file is None or nbytes > len(self._capture.kernarg):
            return None
        return address if address + nbytes <= region.end else None

    def _put_kernarg(self) -> None:
        """Write the segment after a restore if it is in captured memory, because hidden arguments are replaced."""
        kernarg = self._code.kernarg
        address = self._kernarg_address(len(kernarg))
        if address is not None:
            ctypes.memmove(address, kernarg, len(kernarg))

    def _estimate(self, code: _LoadedCode, result: LaunchResult) -> float:
        self._sample_seed = result.sample_seed
        timing = estimate_launch(
            self._target,
            code.kernel,
            result,
            block=code.geometry.block,
            dynamic_lds_bytes=code.geometry.dynamic_lds_bytes,
            buffers=[block for mapped in self._regions for block in mapped.blocks],
            warm=self._warm,
        )
        self._counters = {name: float(value) for name, value in {**timing.counters, **result.counters}.items()}
        return timing.duration_ns / 1e3


def _bytes_at(address: int, nbytes: int) -> NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def _require_emulated(capture: Capture) -> None:
    architecture = capture.code_object.architecture
    if architecture not in emulated_architectures():
        raise ReplayError(
            f"the capture is of {capture.code_object.described_target}, but the emulator executes "
            f"{', '.join(emulated_architectures())}",
            where=str(capture.directory),
            hint=f"Replay it on a GPU with {architecture}: --device rocm.",
        )


def _services(geometry: Geometry) -> Mapping[str, int]:
    values = hidden_values(geometry)
    return {kind: values[kind] for kind in (*PROCESS_ARGUMENTS, *HOST_SERVICES, *MEMORY_ARGUMENTS) if kind in values}


def _capture_notes(capture: Capture) -> Iterator[str]:
    yield from capture.dispatch.warnings
    for region in capture.memory.regions:
        if region.error is not None:
            yield f"region {region.base:#x} of {region.size:,} bytes was not captured: {region.error}"


def _moved(captured: bytes, fresh: bytes, capture: Capture, load_address: int) -> bytes:
    """Return the captured bytes of a variable, with relocated words replaced by their new values."""
    if load_address == capture.dispatch.code_object.load_delta:
        return captured
    part = capture.dispatch.code_object
    words = len(captured) // 8 * 8
    old, new = np.frombuffer(captured[:words], np.uint64), np.frombuffer(fresh[:words], np.uint64)
    with np.errstate(over="ignore"):
        relocated = (old - np.uint64(part.load_delta) == new - np.uint64(load_address)) & (
            old - np.uint64(part.load_base) < part.load_size
        )
    return np.where(relocated, new, old).tobytes() + captured[words:]
