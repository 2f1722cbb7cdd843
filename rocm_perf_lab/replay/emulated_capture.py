"""Capture of a dispatch on the emulator: memory before the dispatch, changed pages, code object and arguments.

Input is a machine with filled buffers and a kernarg segment; the kernel runs once and a capture directory is written.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab import __version__
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.emulator.kernarg import pack_kernarg
from rocm_perf_lab.emulator.loader import ALLOCATION_NAME
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.replay.format import (
    PAGE_BYTES,
    CapturedAgent,
    CapturedAllocation,
    CapturedCodeObject,
    CapturedEnvironment,
    CapturedKernel,
    CapturedPacket,
    CapturedQueue,
    CapturedRuntime,
    CapturedVariable,
    CaptureMode,
    CodePointer,
    CodePointers,
    DispatchDocument,
    DispatchIndex,
    MemoryDocument,
    Region,
)
from rocm_perf_lab.replay.kernarg import explicit_arguments
from rocm_perf_lab.replay.pointer_scan import AddressRanges, reachable, words_of
from rocm_perf_lab.replay.writer import CaptureWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.device.protocol import Device, Launch
    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.machine import EmulatedGpu
    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

_KERNARG_NAME = "kernel arguments"
_KERNARG_ALIGNMENT = 64
_KERNARG_POOL = 1  # HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT
_COARSE_POOL = 4  # HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED
_HEADER = 2 | 1 << 8 | 2 << 9 | 2 << 11
"""Kernel dispatch, barrier bit, acquire and release at system scope."""
_LISTED_CODE_POINTERS = 1000
_CPU, _GPU = 0, 1


@dataclass(frozen=True)
class EmulatedDispatch:
    """Dispatch to capture. `argument_types` are element types of pointer arguments (`f32`), by name or `@offset`."""

    loaded: LoadedCodeObject
    symbol: str
    geometry: Geometry
    kernarg: bytes
    argument_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def kernel(self) -> KernelMetadata:
        """Metadata of the kernel."""
        return self.loaded.kernel(self.symbol)


def capture_described_launch(
    device: Device, launch: Launch, directory: Path, *, kernel: KernelDescription, target: Target, mode: CaptureMode = "reachable"
) -> None:
    """Run a launch of a described kernel on the emulator and capture it.

    Args:
        device: An emulator.
        launch: The launch to run.
        directory: New or empty directory of the capture.
        kernel: Description of the kernel; its argument types are stored with the capture.
        target: GPU that the device emulates.
        mode: Memory to capture, see :func:`capture_dispatch`.

    Raises:
        LabError: The device is a GPU.
        CaptureNotWritten: The directory is not empty, or the disk is full.
        EmulationError: The kernel faulted or exceeded the instruction limit.
    """
    if not isinstance(device, EmulatorDevice):
        raise LabError(
            f"a described kernel is captured on the emulator, but the device is {device.identity.name}",
            where=f"kernel {kernel.name}",
            hint="Add device=emulator, or capture an application: rocm-perf replay capture --kernel NAME -- ./app",
        )
    with device.machine() as machine:
        capture_launch(machine, launch, directory, target=target, mode=mode, argument_types=_argument_types(kernel, launch))


def capture_launch(
    machine: EmulatedGpu, launch: Launch, directory: Path, *, target: Target, mode: CaptureMode, argument_types: Mapping[str, str]
) -> LaunchResult:
    """Set up a launch on a new machine, run it and capture it; see :func:`capture_dispatch`."""
    addresses: list[int | bytes] = []
    for argument in launch.arguments:
        if isinstance(argument, BufferValue):
            allocation = machine.allocate(argument.name, argument.data.nbytes)
            machine.write(allocation, argument.data)
            addresses.append(allocation.address)
        else:
            addresses.append(argument.encoded)
    loaded = machine.load(launch.code_object)
    for variable in launch.variables:
        loaded.fill_global(variable.name, variable.data.tobytes())
    kernel = loaded.kernel(launch.symbol)
    meeting = machine.grid_sync(kernel, launch.geometry).address if launch.cooperative else 0
    kernarg = pack_kernarg(kernel, addresses, launch.geometry, grid_sync_address=meeting)
    dispatch = EmulatedDispatch(loaded, launch.symbol, launch.geometry, kernarg, argument_types)
    return capture_dispatch(machine, dispatch, directory, target=target, mode=mode)


def capture_dispatch(
    machine: EmulatedGpu, dispatch: EmulatedDispatch, directory: Path, *, target: Target, mode: CaptureMode
) -> LaunchResult:
    """Run a dispatch on a machine and write its capture to a new directory.

    Args:
        machine: Machine whose live allocations are the device memory.
        dispatch: Dispatch to run.
        directory: New or empty directory of the capture.
        target: GPU that the machine emulates.
        mode: `reachable` captures memory reachable from the arguments, `full` all memory, `arguments` the memory that the
            arguments point to.

    Raises:
        CaptureNotWritten: The directory is not empty, or the disk is full; the partial capture is removed.
        EmulationError: The kernel faulted or exceeded the instruction limit; no capture is written.
    """
    kernarg_size = -len(dispatch.kernarg) % _KERNARG_ALIGNMENT + len(dispatch.kernarg)
    kernarg_memory = machine.allocate(_KERNARG_NAME, max(kernarg_size, _KERNARG_ALIGNMENT))
    machine.write(kernarg_memory, dispatch.kernarg)
    buffers = [a for a in machine.memory.allocations if a.name != ALLOCATION_NAME and not machine.memory.is_freed(a) and a.nbytes]
    before = {a.address: _pages(a) for a in buffers}
    referrers = _chosen(mode, dispatch.kernarg, before, kernarg_memory.address)
    variables = list(_variables(dispatch.loaded))
    variables_before = _variable_bytes(dispatch.loaded, variables)
    with CaptureWriter(directory) as writer:
        with machine.prepare(
            dispatch.loaded, dispatch.symbol, dispatch.geometry, dispatch.kernarg, kernarg_address=kernarg_memory.address
        ) as prepared:
            result = prepared.run(traced=False)
        kept = {a: before[a.address] for a in buffers if a.address in referrers}
        regions = tuple(
            _region(writer, allocation, content, referrers[allocation.address], is_kernarg=allocation is kernarg_memory)
            for allocation, content in kept.items()
        )
        writer.write_kernarg(dispatch.kernarg)
        writer.write_code_object(dispatch.loaded.code_object.data)
        writer.write_variables(variables_before, _variable_bytes(dispatch.loaded, variables))
        contents = {allocation.address: content for allocation, content in kept.items()}
        document = _document(dispatch, kernarg_memory.address, target, tuple(variables), contents)
        writer.finish(document, MemoryDocument(mode=mode, regions=regions), writer="emulator", emulated=True)
    return result


def _region(
    writer: CaptureWriter, allocation: Allocation, before: NDArray[np.uint8], reached_from: tuple[str, ...], *, is_kernarg: bool
) -> Region:
    """Write an allocation: its content before the dispatch, and the pages that the dispatch changed."""
    base = allocation.address
    blob = writer.write_region(base, before)
    return Region(
        base=base,
        size=allocation.mapped_bytes,
        requested=(CapturedAllocation(base=base, size=allocation.nbytes),),
        kind="pool",
        location="cpu" if is_kernarg else "gpu",
        agent=_CPU if is_kernarg else _GPU,
        pool_flags=_KERNARG_POOL if is_kernarg else _COARSE_POOL,
        access_agents=(_CPU, _GPU),
        reached_from=reached_from,
        contains_kernarg=is_kernarg,
        file=blob.file,
        zero_pages=blob.zero_pages,
        after=writer.write_after(base, before, _pages(allocation)),
    )


def _pages(allocation: Allocation) -> NDArray[np.uint8]:
    """Return a copy of all pages of an allocation, including the rest of the last one."""
    import ctypes

    content = (ctypes.c_uint8 * allocation.mapped_bytes).from_address(allocation.address)
    return np.ctypeslib.as_array(content).copy()


def _chosen(
    mode: CaptureMode, kernarg: bytes, before: Mapping[int, NDArray[np.uint8]], kernarg_base: int
) -> dict[int, tuple[str, ...]]:
    """Return the sources of pointers into each captured range, by its base; the kernarg segment is always included."""
    reached = reachable(kernarg, before)
    if mode == "full":
        return {base: reached.get(base, ()) for base in before}
    if mode == "arguments":
        reached = {base: ("kernarg",) for base, names in reached.items() if "kernarg" in names}
    return {kernarg_base: (), **reached}


def _variables(loaded: LoadedCodeObject) -> Iterator[CapturedVariable]:
    offset = 0
    for symbol in (loaded.elf.symbols[name] for name in loaded.variables):
        yield CapturedVariable(name=symbol.name, address=loaded.load_address + symbol.address, size=symbol.size, offset=offset)
        offset += symbol.size


def _variable_bytes(loaded: LoadedCodeObject, variables: list[CapturedVariable]) -> bytes:
    return b"".join(loaded.device_global(variable.name).tobytes() for variable in variables)


def _document(
    dispatch: EmulatedDispatch,
    kernarg_address: int,
    target: Target,
    variables: tuple[CapturedVariable, ...],
    contents: Mapping[int, NDArray[np.uint8]],
) -> DispatchDocument:
    kernel, geometry, loaded = dispatch.kernel, dispatch.geometry, dispatch.loaded
    return DispatchDocument(
        kernel=CapturedKernel(
            symbol=f"{kernel.symbol}.kd",
            mangled_name=kernel.symbol,
            name=kernel.name,
            kernel_object=loaded.load_address + kernel.descriptor_address,
            kernarg_size=len(dispatch.kernarg),
            group_segment_size=kernel.lds_bytes,
            private_segment_size=kernel.scratch_bytes,
        ),
        packet=CapturedPacket(
            header=_HEADER,
            setup=geometry.dimensions,
            workgroup_size=geometry.block,
            grid_size=geometry.work_items,
            private_segment_size=kernel.scratch_bytes,
            group_segment_size=kernel.lds_bytes + geometry.dynamic_lds_bytes,
            kernarg_address=kernarg_address,
            completion_signal=0,
        ),
        index=DispatchIndex(kernel=0, process=0),
        queue=CapturedQueue(id=0, type=0, size=64, agent=_GPU),
        agent=_GPU,
        agents=(CapturedAgent(type="cpu", name="host"), _emulated_gpu(target)),
        code_object=CapturedCodeObject(
            sha256=loaded.code_object.sha256,
            load_base=loaded.load_address,
            load_size=loaded.allocation.nbytes,
            load_delta=loaded.load_address,
        ),
        variables=variables,
        argument_types=dict(dispatch.argument_types),
        code_pointers=_code_pointers(loaded, contents),
        environment=CapturedEnvironment(
            runtime=CapturedRuntime(version=__version__, path="rocm_perf_lab.emulator"), pid=os.getpid(), command=tuple(sys.argv)
        ),
    )


def _emulated_gpu(target: Target) -> CapturedAgent:
    return CapturedAgent(
        type="gpu",
        name=target.architecture,
        product=f"{target.product_name} (emulated)",
        isa=f"amdgcn-amd-amdhsa--{target.architecture}",
        compute_units=target.compute_units,
        wavefront_size=64,
    )


def _code_pointers(loaded: LoadedCodeObject, contents: Mapping[int, NDArray[np.uint8]]) -> CodePointers:
    code = AddressRanges.of([(loaded.load_address, max(loaded.allocation.nbytes, PAGE_BYTES))])
    places: list[CodePointer] = []
    count = 0
    for base, content in sorted(contents.items()):
        words = words_of(content)
        found = np.flatnonzero(code.holding(words) >= 0)
        count += len(found)
        room = _LISTED_CODE_POINTERS - len(places)
        places += [CodePointer(address=base + 8 * int(i), value=int(words[i])) for i in found[:room]]
    return CodePointers(count=count, places=tuple(places))


def _argument_types(description: KernelDescription, launch: Launch) -> Mapping[str, str]:
    """Return the element types of buffer arguments by offset; compilers rarely record them."""
    kernel = next(k for k in launch.code_object.kernels if k.symbol == launch.symbol)
    dtypes = {argument.name: argument.dtype for argument in description.arguments if isinstance(argument, BufferArgument)}
    pairs = zip(explicit_arguments(kernel), launch.arguments, strict=False)
    return {f"@{place.offset}": dtypes[value.name] for place, value in pairs if value.name in dtypes}
