"""Emulated GPU: memory, code objects, launches.

`EmulatedGpu(target, ...)` allocates buffers, loads code objects and launches kernels. A launch returns exact counters and,
for sampled workgroups, traces for the timing engine. Invalid operations of a kernel raise :class:`EmulationError`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.arch.registry import emulated_architectures
from rocm_perf_lab.core.geometry import Dim3, Geometry
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.execution import Dispatch
from rocm_perf_lab.emulator.footprint import LINE_BYTES
from rocm_perf_lab.emulator.host_services import HostServices
from rocm_perf_lab.emulator.initial_state import DISPATCH_PACKET_BYTES, InitialState, dispatch_packet, initial_state
from rocm_perf_lab.emulator.kernarg import GRID_SYNC_ARGUMENT, GRID_SYNC_NAME, grid_sync_block, pack_kernarg
from rocm_perf_lab.emulator.launch_limits import LaunchRefused, require_launchable, require_loadable, require_resident
from rocm_perf_lab.emulator.launching import LaunchResult, PreparedLaunch
from rocm_perf_lab.emulator.loader import LoadedCodeObject, load_code_object
from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
from rocm_perf_lab.emulator.program import results_depend_on_order
from rocm_perf_lab.emulator.sampled_run import Sampling
from rocm_perf_lab.emulator.translation import KernelTranslator, TranslatedKernel
from rocm_perf_lab.toolchain.descriptor import allocated_registers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.checks import CheckKind
    from rocm_perf_lab.emulator.host_services import LaunchServices
    from rocm_perf_lab.emulator.sampling import SamplePolicy
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_DYNAMIC_STACK_BYTES = 16384
_ARCHITECTURAL_VGPRS = 256
_KERNARG_ALIGNMENT = 64
"""Runtimes allocate the segment in these units; compilers load past its end, up to its alignment."""


class EmulatedGpu:
    """Emulated GPU; a context manager that frees its memory.

    Args:
        target: Limits of the GPU; the emulator executes its architecture.
        max_instructions: Wave instructions that one launch may execute.
        threads: Maximum number of threads of a launch; counters and results do not depend on it.
        sample: Workgroups to trace; None traces none.
        checks: Checks beyond faults; a checked launch runs on one thread.
        time_limit_s: Wall-clock time that one launch may take, in seconds; None does not limit it.
        translator: Keeps native code for other emulated GPUs that load the same code objects first.
    """

    def __init__(
        self,
        target: Target,
        *,
        max_instructions: int,
        threads: int = 1,
        sample: SamplePolicy | None = None,
        checks: frozenset[CheckKind] = frozenset(),
        translator: KernelTranslator | None = None,
        time_limit_s: float | None = None,
    ) -> None:
        if target.architecture not in emulated_architectures():
            raise LaunchRefused(
                f"the emulator executes {', '.join(emulated_architectures())}, {target.name} is {target.architecture}",
                where="target",
                hint="Use a target of one of these architectures, or a real device.",
            )
        self._target = target
        self._max_instructions = max_instructions
        self._time_limit_s = time_limit_s
        self._threads = threads
        self._sample = sample
        self._checks = checks
        self._translator = translator if translator is not None else KernelTranslator(load_runtime())
        self._runtime = self._translator.runtime
        self.memory = DeviceMemory(self._runtime)
        self._services = HostServices(self._runtime, self.memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free all memory; loaded code objects and allocations become invalid."""
        self.memory.close()

    def allocate(self, name: str, nbytes: int, address: int | None = None) -> Allocation:
        """Return a zeroed buffer, at `address` if given."""
        return self.memory.allocate(name, nbytes, address)

    def write(self, allocation: Allocation, content: bytes | NDArray[np.generic]) -> None:
        """Copy `content` to the start of a buffer.

        Raises:
            LaunchRefused: `content` is larger than the buffer.
        """
        raw = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else _bytes_of(content)
        if len(raw) > allocation.nbytes:
            raise LaunchRefused(f"{len(raw):,} bytes do not fit in buffer {allocation.name!r} of {allocation.nbytes:,}")
        self.memory.view(allocation)[: len(raw)] = raw
        self.memory.forget_image(allocation)

    def forget_content(self, allocation: Allocation) -> None:
        """Mark the content of a buffer as uninitialised: a read before a write is then a finding."""
        self.memory.forget_content(allocation)

    def read(self, allocation: Allocation) -> bytes:
        """Return the content of a buffer."""
        return self.memory.view(allocation).tobytes()

    def free(self, allocation: Allocation) -> None:
        """Free a buffer; later accesses of kernels to it fault."""
        self.memory.free(allocation)

    def load(self, code_object: CodeObject, address: int | None = None) -> LoadedCodeObject:
        """Load a code object into device memory, at `address` if given.

        Raises:
            LaunchRefused: The code object is for another architecture, or for other settings than those of the GPU.
            DeviceMemoryError: The address range is in use.
        """
        code_object = code_object.for_processor(self._target.architecture)
        require_loadable(code_object, self._target)
        return load_code_object(self.memory, code_object, address)

    def launch(
        self,
        loaded: LoadedCodeObject,
        symbol: str,
        grid: Dim3,
        block: Dim3,
        arguments: Sequence[int | bytes | Allocation],
        dynamic_lds_bytes: int = 0,
        *,
        remainder: Dim3 = (0, 0, 0),
        cooperative: bool = False,
        source_line: Callable[[int], str | None] | None = None,
    ) -> LaunchResult:
        """Run a kernel to its end.

        Args:
            loaded: Loaded code object.
            symbol: Symbol of the kernel.
            grid: Workgroups, including partial ones.
            block: Work-items per workgroup.
            arguments: In the order of the kernel: buffers or device addresses, and encoded scalars.
            dynamic_lds_bytes: LDS in addition to the static LDS of the kernel.
            remainder: Work-items of the last workgroup of an axis if it is partial, else 0.
            cooperative: Keep all workgroups resident at once, so that they may wait for each other.
            source_line: Returns the source line of an address of the code object, for messages.

        Raises:
            LaunchRefused: The hardware cannot launch this geometry or LDS size, or not all workgroups fit at once.
            EmulationError: The kernel faulted, exceeded its budget, or failed an assertion.
        """
        geometry = Geometry(grid, block, dynamic_lds_bytes, remainder)
        values = [value.address if isinstance(value, Allocation) else value for value in arguments]
        kernel = loaded.kernel(symbol)
        require_launchable(kernel, geometry, self._target)
        meeting = self.grid_sync(kernel, geometry) if cooperative else None
        try:
            kernarg = pack_kernarg(kernel, values, geometry, grid_sync_address=meeting.address if meeting else 0)
            with self.prepare(loaded, symbol, geometry, kernarg, source_line=source_line) as prepared:
                return prepared.run()
        finally:
            if meeting is not None:
                self.memory.free(meeting)

    def grid_sync(self, kernel: KernelMetadata, geometry: Geometry) -> Allocation:
        """Return the memory block of the grid barrier of a cooperative launch.

        Raises:
            LaunchRefused: Not all workgroups fit on the GPU at once.
        """
        require_resident(kernel, geometry, self._target)
        block = grid_sync_block(geometry)
        allocation = self.memory.allocate(GRID_SYNC_NAME, len(block))
        self.write(allocation, block)
        return allocation

    def prepare(
        self,
        loaded: LoadedCodeObject,
        symbol: str,
        geometry: Geometry,
        kernarg: bytes,
        *,
        kernarg_address: int | None = None,
        scratch_bytes: int = 0,
        source_line: Callable[[int], str | None] | None = None,
        was_dispatched: bool = False,
    ) -> PreparedLaunch:
        """Return a launch with a given kernarg segment, to be run once or several times; close it to free its memory.

        Args:
            loaded: Loaded code object.
            symbol: Symbol of the kernel.
            geometry: Geometry of the dispatch.
            kernarg: Whole segment, including hidden arguments.
            kernarg_address: Address of the segment if it is in device memory already.
            scratch_bytes: Scratch per work-item if the dispatch requests more than the kernel.
            source_line: Returns the source line of an address of the code object, for messages.
            was_dispatched: Whether an application dispatched the kernel in this geometry.

        Raises:
            LaunchRefused: The hardware cannot launch this geometry or LDS size.
        """
        kernel = loaded.kernel(symbol)
        require_launchable(kernel, geometry, self._target, was_dispatched=was_dispatched)
        translated = self._translator.translate(loaded, kernel)
        scratch_bytes = max(scratch_bytes, scratch_bytes_of(kernel))
        with ExitStack() as owned:
            packet = self._allocate_for(owned, "dispatch packet", DISPATCH_PACKET_BYTES)
            if kernarg_address is None:
                kernarg_address = self._place_kernarg(owned, kernarg)
            self.write(packet, _packet(loaded, kernel, geometry, scratch_bytes, kernarg_address))
            state = initial_state(
                kernel.descriptor,
                kernarg=kernarg,
                kernarg_address=kernarg_address,
                dispatch_packet_address=packet.address,
                scratch_bytes=scratch_bytes,
                workgroups=geometry.grid,
                architected_scratch=translated.program.isa.architected_scratch,
                packed_work_item_ids=translated.program.isa.packed_work_item_ids,
            )
            dispatch = self._dispatch(loaded, kernel, geometry, translated, state, scratch_bytes)
            return PreparedLaunch(
                dispatch=replace(dispatch, cooperative=_is_cooperative(kernel, kernarg)),
                translated=translated,
                code=loaded.code_object.sha256,
                runtime=self._runtime,
                memory=self.memory,
                checks=self._checks,
                owned=owned.pop_all(),
                services=self._host_services(loaded, kernel, translated, kernarg_address),
                source_line=source_line,
                named_barriers=bool(kernel.language),
                sampling=self._sampling(translated),
                time_limit_s=self._time_limit_s,
            )

    def _sampling(self, translated: TranslatedKernel) -> Sampling | None:
        if self._sample is None:
            return None
        dependent = results_depend_on_order(translated.program)
        return Sampling(self._sample.workgroups, self._sample.seed, self._target.xcds, dependent)

    def _host_services(
        self, loaded: LoadedCodeObject, kernel: KernelMetadata, translated: TranslatedKernel, kernarg_address: int
    ) -> LaunchServices | None:
        """Return the host services if the kernel can use them: host calls need atomics that return a value."""
        if not results_depend_on_order(translated.program):
            return None
        return self._services.of_kernel(kernel, kernarg_address, loaded.elf)

    def _place_kernarg(self, owner: ExitStack, kernarg: bytes) -> int:
        """Copy the arguments into a new segment and return its address."""
        segment = self._allocate_for(owner, "kernel arguments", -len(kernarg) % _KERNARG_ALIGNMENT + len(kernarg))
        self.write(segment, kernarg)
        return segment.address

    def _allocate_for(self, owner: ExitStack, name: str, nbytes: int) -> Allocation:
        """Return a buffer that is freed with its owner."""
        allocation = self.memory.allocate(name, nbytes)
        owner.callback(self.memory.free, allocation)
        return allocation

    def _dispatch(
        self,
        loaded: LoadedCodeObject,
        kernel: KernelMetadata,
        geometry: Geometry,
        translated: TranslatedKernel,
        state: InitialState,
        scratch_bytes: int,
    ) -> Dispatch:
        registers = allocated_registers(kernel.descriptor, self._target.architecture)
        return Dispatch(
            code=translated.code,
            geometry=geometry,
            state=state,
            lds_bytes=kernel.lds_bytes + geometry.dynamic_lds_bytes,
            scratch_bytes=scratch_bytes,
            vgpr_rows=min(_ARCHITECTURAL_VGPRS, registers.vgprs),
            agpr_rows=min(_ARCHITECTURAL_VGPRS, registers.agprs),
            block_count=len(translated.program.blocks),
            probe_count=len(translated.program.probes),
            max_instructions=self._max_instructions,
            threads=1 if results_depend_on_order(translated.program) else self._threads,
            shares_work=results_depend_on_order(translated.program),
            xcds=self._target.xcds,
            load_address=loaded.load_address,
            has_half_lines=self._target.caches.vector_l1_line_bytes < LINE_BYTES,
        )


def _packet(
    loaded: LoadedCodeObject, kernel: KernelMetadata, geometry: Geometry, scratch_bytes: int, kernarg_address: int
) -> bytes:
    return dispatch_packet(
        geometry,
        lds_bytes=kernel.lds_bytes + geometry.dynamic_lds_bytes,
        scratch_bytes=scratch_bytes,
        kernel_object=loaded.load_address + kernel.descriptor_address,
        kernarg_address=kernarg_address,
    )


def _bytes_of(content: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return the bytes of an array, without a copy if it is contiguous."""
    return np.ascontiguousarray(content).reshape(-1).view(np.uint8)


def _is_cooperative(kernel: KernelMetadata, kernarg: bytes) -> bool:
    """Return whether the arguments contain a grid barrier, which only cooperative launches have."""
    return any(any(kernarg[a.offset : a.offset + a.size]) for a in kernel.arguments if a.value_kind == GRID_SYNC_ARGUMENT)


def scratch_bytes_of(kernel: KernelMetadata) -> int:
    """Return the scratch of a work-item, with room for a stack whose size is unknown."""
    return kernel.descriptor.scratch_bytes + (_DYNAMIC_STACK_BYTES if kernel.uses_dynamic_stack else 0)
