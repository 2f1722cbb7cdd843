"""One emulated GPU: memory, code objects, launches.

`Machine(target, ...)` allocates buffers, loads code objects and launches kernels; a launch gives exact counters and,
for sampled workgroups, traces for the timing engine. What a kernel must not do ends in an :class:`EmulationError`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Self

import numpy as np

from rocm_perf_lab.core.geometry import Dim3, Geometry
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.execution import Dispatch
from rocm_perf_lab.emulator.host_services import HostServices
from rocm_perf_lab.emulator.initial_state import DISPATCH_PACKET_BYTES, InitialState, dispatch_packet, initial_state
from rocm_perf_lab.emulator.kernarg import GRID_SYNC_ARGUMENT, GRID_SYNC_NAME, grid_sync_block, pack_kernarg
from rocm_perf_lab.emulator.launch_limits import LaunchRefused, require_launchable, require_resident
from rocm_perf_lab.emulator.launching import LaunchResult, PreparedLaunch
from rocm_perf_lab.emulator.loader import LoadedCodeObject, load_code_object
from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
from rocm_perf_lab.emulator.ordering import results_depend_on_order
from rocm_perf_lab.emulator.translation import KernelTranslator, TranslatedKernel
from rocm_perf_lab.toolchain.descriptor import allocated_registers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.checks import Check
    from rocm_perf_lab.emulator.host_services import LaunchServices
    from rocm_perf_lab.emulator.sampling import SamplePolicy
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

EMULATED_ARCHITECTURE = "gfx942"
_DYNAMIC_STACK_BYTES = 16384
_ARCHITECTURAL_VGPRS = 256
_KERNARG_ALIGNMENT = 64
"""Runtimes hand out the segment in such units; compilers load past its end, up to its alignment."""


class Machine:
    """One emulated GPU; a context manager that gives its memory back.

    Args:
        target: Limits of the GPU; its architecture must be gfx942.
        max_instructions: Wave instructions that one launch may execute.
        threads: Threads of one launch at most; counters and results do not depend on it.
        sample: Which workgroups are traced; None traces none.
        checks: What to look for beyond faults; a checked launch runs on one thread.
    """

    def __init__(
        self,
        target: Target,
        *,
        max_instructions: int,
        threads: int = 1,
        sample: SamplePolicy | None = None,
        checks: frozenset[Check] = frozenset(),
    ) -> None:
        if target.architecture != EMULATED_ARCHITECTURE:
            raise LaunchRefused(
                f"the emulator executes {EMULATED_ARCHITECTURE}, {target.name} is {target.architecture}",
                where="target",
                hint="Take target=mi300x or target=mi325x, or a real device.",
            )
        self._target = target
        self._max_instructions = max_instructions
        self._threads = threads
        self._sample = sample
        self._checks = checks
        self._runtime = load_runtime()
        self._translator = KernelTranslator(self._runtime)
        self.memory = DeviceMemory(self._runtime)
        self._services = HostServices(self._runtime, self.memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give all memory back; loaded code objects and allocations are gone."""
        self.memory.close()

    def allocate(self, name: str, nbytes: int, address: int | None = None) -> Allocation:
        """A zeroed buffer, at a chosen address where one is given."""
        return self.memory.allocate(name, nbytes, address)

    def write(self, allocation: Allocation, content: bytes | NDArray[np.generic]) -> None:
        """Copy to the start of a buffer.

        Raises:
            LaunchRefused: `content` is larger than the buffer.
        """
        raw = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else _bytes_of(content)
        if len(raw) > allocation.nbytes:
            raise LaunchRefused(f"{len(raw):,} bytes do not fit in buffer {allocation.name!r} of {allocation.nbytes:,}")
        self.memory.view(allocation)[: len(raw)] = raw

    def forget_content(self, allocation: Allocation) -> None:
        """Count the content of a buffer as nobody's: reading it before writing it is a finding."""
        self.memory.forget_content(allocation)

    def read(self, allocation: Allocation) -> bytes:
        """The content of a buffer."""
        return self.memory.view(allocation).tobytes()

    def free(self, allocation: Allocation) -> None:
        """Give a buffer back; a kernel that still uses it faults."""
        self.memory.free(allocation)

    def load(self, code_object: CodeObject, address: int | None = None) -> LoadedCodeObject:
        """Put a code object into device memory, at a chosen address where one is given.

        Raises:
            LaunchRefused: It is of another architecture.
            DeviceMemoryError: The address is taken.
        """
        if code_object.architecture != EMULATED_ARCHITECTURE:
            raise LaunchRefused(
                f"the code object is for {code_object.architecture}, the emulator executes {EMULATED_ARCHITECTURE}",
                hint=f"Compile for {EMULATED_ARCHITECTURE}.",
            )
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
            loaded: The code object.
            symbol: Symbol of the kernel in it.
            grid: Workgroups, partial ones too.
            block: Work-items per workgroup.
            arguments: In the kernel's order: buffers or device addresses, and encoded scalars.
            dynamic_lds_bytes: LDS on top of the kernel's static LDS.
            remainder: Work-items of the last workgroup of an axis where it is partial.
            cooperative: All workgroups are resident at once and may wait for each other.
            source_line: Source line of an address of the code object, for messages.

        Raises:
            LaunchRefused: Geometry or LDS that the hardware does not take, or more workgroups than may be resident at once.
            EmulationError: The kernel did what it must not do.
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
        """The block that the workgroups of a cooperative launch meet at.

        Raises:
            LaunchRefused: The workgroups do not fit on the GPU all at once.
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
    ) -> PreparedLaunch:
        """A launch with its kernarg segment as it is, to be run once or many times; close it to give its memory back.

        Args:
            loaded: The code object.
            symbol: Symbol of the kernel in it.
            geometry: Of the dispatch.
            kernarg: The whole segment, hidden arguments included.
            kernarg_address: Where the segment already lies in device memory; None puts it somewhere.
            scratch_bytes: Scratch of a work-item, where the dispatch asks for more than the kernel does.
            source_line: Source line of an address of the code object, for messages.

        Raises:
            LaunchRefused: Geometry or LDS that the hardware does not take.
        """
        kernel = loaded.kernel(symbol)
        require_launchable(kernel, geometry, self._target)
        translated = self._translator.translate(loaded, kernel)
        scratch_bytes = max(scratch_bytes, _scratch_bytes(kernel))
        with ExitStack() as owned:
            packet_memory = self._allocate_for(owned, "dispatch packet", DISPATCH_PACKET_BYTES)
            if kernarg_address is None:
                kernarg_address = self._place_kernarg(owned, kernarg)
            packet = dispatch_packet(
                geometry,
                lds_bytes=kernel.lds_bytes + geometry.dynamic_lds_bytes,
                scratch_bytes=scratch_bytes,
                kernel_object=loaded.load_address + kernel.descriptor_address,
                kernarg_address=kernarg_address,
            )
            self.write(packet_memory, packet)
            state = initial_state(
                kernel.descriptor,
                kernarg=kernarg,
                kernarg_address=kernarg_address,
                dispatch_packet_address=packet_memory.address,
                scratch_bytes=scratch_bytes,
                workgroups=geometry.grid,
            )
            dispatch = self._dispatch(kernel, geometry, translated, state, scratch_bytes)
            return PreparedLaunch(
                dispatch=replace(dispatch, cooperative=_is_cooperative(kernel, kernarg)),
                translated=translated,
                runtime=self._runtime,
                memory=self.memory,
                checks=self._checks,
                owned=owned.pop_all(),
                services=self._host_services(loaded, kernel, translated, kernarg_address),
                source_line=source_line,
                named_barriers=bool(kernel.language),
            )

    def _host_services(
        self, loaded: LoadedCodeObject, kernel: KernelMetadata, translated: TranslatedKernel, kernarg_address: int
    ) -> LaunchServices | None:
        """Who calls the host takes turns by atomics that return; other kernels may have its arguments, and use none of them."""
        if not results_depend_on_order(translated.program):
            return None
        return self._services.of_kernel(kernel, kernarg_address, loaded.elf)

    def _place_kernarg(self, owner: ExitStack, kernarg: bytes) -> int:
        """Put the arguments into a segment of their own; its address."""
        segment = self._allocate_for(owner, "kernel arguments", -len(kernarg) % _KERNARG_ALIGNMENT + len(kernarg))
        self.write(segment, kernarg)
        return segment.address

    def _allocate_for(self, owner: ExitStack, name: str, nbytes: int) -> Allocation:
        """A buffer that is given back with its owner."""
        allocation = self.memory.allocate(name, nbytes)
        owner.callback(self.memory.free, allocation)
        return allocation

    def _dispatch(
        self,
        kernel: KernelMetadata,
        geometry: Geometry,
        translated: TranslatedKernel,
        state: InitialState,
        scratch_bytes: int,
    ) -> Dispatch:
        registers = allocated_registers(kernel.descriptor, EMULATED_ARCHITECTURE)
        return Dispatch(
            kernel_address=translated.address,
            geometry=geometry,
            state=state,
            lds_bytes=kernel.lds_bytes + geometry.dynamic_lds_bytes,
            scratch_bytes=scratch_bytes,
            vgpr_rows=min(_ARCHITECTURAL_VGPRS, registers.vgprs),
            agpr_rows=min(_ARCHITECTURAL_VGPRS, registers.agprs),
            block_count=len(translated.program.blocks),
            max_instructions=self._max_instructions,
            threads=1 if results_depend_on_order(translated.program) else self._threads,
            traced_workgroups=self._sample.choose(prod(geometry.grid)) if self._sample else (),
        )


def _bytes_of(content: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Without a copy where the array is contiguous."""
    return np.ascontiguousarray(content).reshape(-1).view(np.uint8)


def _is_cooperative(kernel: KernelMetadata, kernarg: bytes) -> bool:
    """Only a cooperative launch brings a block to meet at."""
    return any(any(kernarg[a.offset : a.offset + a.size]) for a in kernel.arguments if a.value_kind == GRID_SYNC_ARGUMENT)


def _scratch_bytes(kernel: KernelMetadata) -> int:
    return kernel.descriptor.scratch_bytes + (_DYNAMIC_STACK_BYTES if kernel.uses_dynamic_stack else 0)
