"""Facts about a translated kernel for the emulated driver, cached on disk so that later processes need not decode it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.runtime.messages import KernelAnswer

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.runtime.code_image import DescribedKernel

_ARCHITECTURAL_VGPRS = 256
_GLOBAL_WAVE_SYNC = 0xFFFFFFFF
"""Value of `cooperative` in `service.h`: workgroups meet without a barrier in memory."""
_PRELOAD_LENGTH_MASK, _PRELOAD_OFFSET_SHIFT = 0x7F, 7


@dataclass(frozen=True)
class KernelFacts:
    """Translated kernel: its library, and the fields of :class:`~rocm_perf_lab.runtime.messages.KernelAnswer` that do not depend
    on its place in memory."""

    symbol: str
    name: str
    library: str
    """Name of the file in the directory of libraries."""
    choice: str
    """Name of the file with the blocks to optimise."""
    lengths: tuple[int, ...]
    """Number of instructions of each block."""
    optimised: tuple[int, ...]
    """Indices of optimised blocks."""
    unsupported: tuple[tuple[int, str], ...]
    """Addresses of instructions that the emulator does not implement, with reasons; they are errors only if executed."""
    traits: str
    """`enum rpl_access_trait` of each instruction as two hexadecimal digits, for checks of accesses."""
    has_unseen_releases: bool
    """Whether release operations are not marked by an instruction."""
    fields: dict[str, int]

    @property
    def is_final(self) -> bool:
        """Return whether all blocks are optimised."""
        return len(self.optimised) == len(self.lengths)

    def answer(self, number: int, load_address: int) -> KernelAnswer:
        """Return the answer for a load address."""
        return KernelAnswer(id=number, load_address=load_address, is_final=self.is_final, **self.fields)


def facts_of(described: DescribedKernel, program: Program, library: Path, choice: Path, optimised: frozenset[int]) -> KernelFacts:
    """Return the facts about a kernel.

    Args:
        described: The kernel.
        program: Its instructions.
        library: Its native code.
        choice: File with the blocks to optimise.
        optimised: Indices of the blocks that are optimised in `library`.

    Raises:
        LabError: The descriptor requests more registers than the hardware has.
    """
    from rocm_perf_lab.emulator.checks import access_traits

    return KernelFacts(
        symbol=described.kernel.symbol,
        name=described.kernel.name,
        library=library.name,
        choice=choice.name,
        lengths=tuple(len(block.instructions) for block in program.blocks),
        optimised=tuple(sorted(optimised)),
        unsupported=tuple((one.address, one.reason) for one in program.missing if one.is_unsupported),
        traits=bytes(map(access_traits, program.instructions)).hex(),
        has_unseen_releases=not program.isa.marks_atomic_stores,
        fields=_fields(described, program),
    )


def _fields(described: DescribedKernel, program: Program) -> dict[str, int]:
    from rocm_perf_lab.emulator.initial_state import initial_state
    from rocm_perf_lab.emulator.kernarg import GRID_SYNC_ARGUMENT
    from rocm_perf_lab.emulator.machine import scratch_bytes_of
    from rocm_perf_lab.toolchain.descriptor import allocated_registers

    kernel, descriptor = described.kernel, described.kernel.descriptor
    registers = allocated_registers(descriptor, described.architecture)
    state = initial_state(
        descriptor,
        kernarg=b"",
        kernarg_address=0,
        dispatch_packet_address=0,
        scratch_bytes=0,
        architected_scratch=program.isa.architected_scratch,
        packed_work_item_ids=program.isa.packed_work_item_ids,
    )
    grid_sync = next((a.offset for a in kernel.arguments if a.value_kind == GRID_SYNC_ARGUMENT), None)
    return {
        "block_count": len(program.blocks),
        "probe_count": len(program.probes),
        "vgpr_rows": min(_ARCHITECTURAL_VGPRS, registers.vgprs),
        "agpr_rows": min(_ARCHITECTURAL_VGPRS, registers.agprs),
        "depends_on_order": int(program.depends_on_order),
        "wave_size": state.wave_size,
        "mode": state.mode,
        "system_sgprs": state.system_sgprs,
        "work_item_id_dims": state.work_item_id_dims,
        "work_item_id_rows": state.work_item_id_rows,
        "static_scratch_bytes": scratch_bytes_of(kernel),
        "static_lds_bytes": kernel.lds_bytes,
        "kernarg_bytes": kernel.kernarg_bytes,
        "properties": descriptor.kernel_code_properties,
        "user_sgprs": descriptor.compute_pgm_rsrc2 >> 1 & 0x1F,
        "preload_offset": 4 * (descriptor.kernarg_preload >> _PRELOAD_OFFSET_SHIFT),
        "preload_dwords": descriptor.kernarg_preload & _PRELOAD_LENGTH_MASK,
        "cooperative": _GLOBAL_WAVE_SYNC if program.has_grid_barrier else 0 if grid_sync is None else grid_sync + 1,
    }


def read_facts(path: Path) -> KernelFacts | None:
    """Return stored facts; None if the file is missing, damaged or from a version with other facts."""
    stored = read_sealed(path)
    content = {} if stored is None else json.loads(stored)
    if content.keys() != {field.name for field in fields(KernelFacts)}:
        return None
    unsupported = tuple((address, reason) for address, reason in content["unsupported"])
    tuples = {name: tuple(content[name]) for name in ("lengths", "optimised")}
    return KernelFacts(**content | tuples | {"unsupported": unsupported})


def write_facts(path: Path, facts: KernelFacts) -> None:
    """Store the facts about a kernel."""
    write_sealed(path, json.dumps(asdict(facts)).encode())
