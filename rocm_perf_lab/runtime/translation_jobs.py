"""Jobs of the translation service that use the decoder or the compiler, executed in separate processes.

Jobs contain all their inputs; the results are small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.kernel_facts import facts_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.structures import FaultRecord
    from rocm_perf_lab.runtime.code_image import CodeImage, DescribedKernel
    from rocm_perf_lab.runtime.kernel_facts import KernelFacts

SMALL_PROGRAM = 150
"""Maximum number of instructions of a kernel that is optimised immediately: applications launch most kernels rarely."""
_KEPT_KERNELS = 16
_FAR_BYTES = 16 << 20
"""Distance in bytes beyond which memory is unrelated to an access."""
_OVERRUN_BYTES = 1 << 16
"""Distance in bytes to GPU memory up to which an address in host memory is treated as a wrong index, not as a host pointer."""
_HOST_POINTER_HINT = (
    "Copy the data to memory of hipMalloc, or allocate it with hipHostMalloc or hipMallocManaged. "
    "With --xnack, kernels can access any host memory."
)
_EXPLAINED = range(1, 11)
"""Kinds of faults, except host calls, which applications do not use, and the end of the queue."""


@dataclass(frozen=True)
class TranslateJob:
    """Translation of a kernel."""

    image: CodeImage
    architecture: str
    directory: Path
    optimised: frozenset[int] | None = None
    """Indices of the blocks to optimise; by default those of :func:`~rocm_perf_lab.emulator.tiers.first_choice`."""

    def run(self) -> KernelFacts:
        """Return the translated kernel.

        Raises:
            LabError: The code is damaged or not supported, or no library can be linked.
        """
        from rocm_perf_lab.emulator.hot_blocks import write_choice
        from rocm_perf_lab.emulator.tiers import choice_path, first_choice
        from rocm_perf_lab.emulator.translation import compiled
        from rocm_perf_lab.runtime.native_library import native_library

        described = self.image.describe(self.architecture)

        def compile_one(program: Program) -> tuple[frozenset[int], Path]:
            chosen = first_choice(program, self.directory, SMALL_PROGRAM) if self.optimised is None else self.optimised
            return chosen, native_library(program, chosen, self.directory)

        program, (chosen, library) = compiled(described.decode(), compile_one)
        choice = choice_path(program, self.directory)
        if self.optimised is not None:
            write_choice(choice, chosen)
        return facts_of(described, program, library, choice, chosen)


@dataclass(frozen=True)
class FaultJob:
    """Explanation of a fault."""

    image: CodeImage
    architecture: str
    record: bytes
    """struct rpl_fault."""
    max_instructions: int
    ranges: tuple[range, ...] = ()
    """Memory near the invalid address."""
    unsupported: tuple[tuple[int, str], ...] = ()
    """As in :class:`~rocm_perf_lab.runtime.kernel_facts.KernelFacts`."""
    is_in_host_memory: bool = False
    """Whether the address is valid in the application's host code."""

    def run(self) -> str:
        """Return the lines for the user.

        Raises:
            LabError: The record is damaged.
        """
        import ctypes

        from rocm_perf_lab.emulator.faults import fault_error
        from rocm_perf_lab.emulator.structures import FaultRecord
        from rocm_perf_lab.emulator.translate.function import resume_id, resume_ids_of_missing_code

        if len(self.record) < ctypes.sizeof(FaultRecord):
            raise LabError(f"the record of a fault has {len(self.record)} bytes")
        record = FaultRecord.from_buffer_copy(self.record)
        described, program = decoded(self.image, self.architecture, self.unsupported)
        if record.kind not in _EXPLAINED or not -1 <= record.inst < len(program.instructions):
            raise LabError(f"the record of a fault in kernel {program.symbol} is damaged")
        resumes = {0: program.entry} | {resume_id(block): block.address for block in program.blocks}
        resumes |= resume_ids_of_missing_code(program)
        error = fault_error(
            record,
            replace(program, symbol=described.kernel.name),
            partial(self._describe_place, record),
            lambda resume: resumes.get(resume) if resumes.get(resume) in program.block_at else None,
            self.max_instructions,
            source_lines_of(described),
        )
        if self._is_host_pointer(record):
            error = type(error)(error.what, where=error.where, hint=_HOST_POINTER_HINT)
        return "\n".join(error.lines())

    def _is_host_pointer(self, record: FaultRecord) -> bool:
        """Return whether the application passed a pointer to host memory, rather than a small overrun that ends there."""
        from rocm_perf_lab.emulator.faults import lane_addresses

        addresses = lane_addresses(record)
        return self.is_in_host_memory and all(
            _distance(one, address, 1) > _OVERRUN_BYTES for address in addresses.values() for one in self.ranges
        )

    def _describe_place(self, record: FaultRecord, address: int, width_bytes: int) -> str:
        if self._is_host_pointer(record):
            return "in host memory, which the GPU cannot access"
        return describe_place(self.ranges, address, width_bytes)


@lru_cache(maxsize=_KEPT_KERNELS)
def decoded(image: CodeImage, architecture: str, unsupported: tuple[tuple[int, str], ...]) -> tuple[DescribedKernel, Program]:
    """Return a kernel and the instructions that were translated.

    Args:
        image: Code of the kernel.
        architecture: Processor that executes it.
        unsupported: Addresses of instructions without a translation, with the reasons.

    Raises:
        LabError: The code is damaged.
    """
    from rocm_perf_lab.emulator.program import without_instruction

    described = image.describe(architecture)
    program = described.decode()
    for address, reason in unsupported:
        program = without_instruction(program, address, reason)
    return described, program


def source_lines_of(described: DescribedKernel) -> Callable[[int], str | None] | None:
    """Return a function from addresses of the code object to source lines; None without the file or with damaged ones."""
    from rocm_perf_lab.toolchain.code_object import CodeObjectError
    from rocm_perf_lab.toolchain.elf import code_object_of
    from rocm_perf_lab.toolchain.source_lines import line_table

    if not described.image.is_file:
        return None
    try:
        lookup = line_table(code_object_of(described.image.elf, described.architecture))
    except CodeObjectError:
        return None

    def line_of(address: int) -> str | None:
        line = lookup(address)
        return f"{line.file}:{line.line}" if line is not None else None

    return line_of


def describe_place(ranges: tuple[range, ...], address: int, width_bytes: int) -> str:
    """Return the distance of an access to the nearest memory that the GPU can access.

    Args:
        ranges: Such memory near the address.
        address: First byte of the access.
        width_bytes: Size of the access.
    """
    near = min(ranges, key=lambda one: _distance(one, address, width_bytes), default=range(0))
    if not near or _distance(near, address, width_bytes) > _FAR_BYTES:
        return "outside of the memory that the GPU can access"
    memory = f"{len(near):,} bytes of memory at {near.start:#x}"
    if address < near.start:
        return f"{near.start - address:,} bytes before {memory}"
    if address + width_bytes <= near.stop:
        return f"in {memory} that the application may only read"
    if address < near.stop:
        return f"the last {address + width_bytes - near.stop} bytes of it past the end of {memory}"
    distance = address - near.stop
    return f"{distance:,} bytes past the end of {memory}" if distance else f"right at the end of {memory}"


def _distance(memory: range, address: int, width_bytes: int) -> int:
    """Return the bytes between an access and a range of memory; negative if they overlap."""
    return max(memory.start - address, address + width_bytes - memory.stop)
