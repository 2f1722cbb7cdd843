"""Converts a fault that the runtime recorded to an :class:`EmulationError`.

The message names the kernel, the instruction, its source line if known, the lanes, and the distance to the nearest buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.errors import EmulationError, IllegalInstruction, UnsupportedInstruction
from rocm_perf_lab.emulator.kernarg import service_at
from rocm_perf_lab.emulator.program import FIRST_MISSING_CODE
from rocm_perf_lab.emulator.structures import AccessKind, FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.emulator.memory import DeviceMemory
    from rocm_perf_lab.emulator.printed import Assertion
    from rocm_perf_lab.emulator.program import MissingCode, Program
    from rocm_perf_lab.emulator.structures import FaultRecord

_SHOWN_LANES = 8
_GRID_SYNC_WORDS = range(32, 48)
"""Addresses that a kernel reads to synchronise the grid if the launch has no grid barrier: counter and workgroups, from null."""
_GRID_SYNC_HINT = (
    "A kernel that synchronises the whole grid needs a cooperative launch "
    "(cooperative: true in kernel.yaml, rocm-perf emulate --cooperative)."
)


class MemoryFault(EmulationError):
    """An access to device memory outside every live buffer, or a misaligned atomic."""


class MissingService(EmulationError):
    """A kernel that needs a runtime service that the emulator does not have, such as queues."""


class LdsFault(EmulationError):
    """An access beyond the LDS of a workgroup."""


class ScratchFault(EmulationError):
    """An access beyond the scratch of a work-item."""


class TimeLimitExceeded(EmulationError):
    """A launch took more wall-clock time than it may."""


class InstructionBudgetExceeded(EmulationError):
    """A launch that executed more instructions than allowed; most likely it does not end."""


class BarrierDeadlock(EmulationError):
    """Wavefronts that wait at a barrier that others never reach."""


class KernelTrap(EmulationError):
    """A kernel that stopped itself (abort, failed assertion) or jumped to an address outside its code."""


class KernelAssertion(KernelTrap):
    """A failed assertion in a kernel."""


class HostMemoryExhausted(EmulationError):
    """Too little memory on this computer for the registers and LDS of a workgroup."""


_CLASSES: Mapping[FaultKind, type[EmulationError]] = {
    FaultKind.MEMORY: MemoryFault,
    FaultKind.MISALIGNED: MemoryFault,
    FaultKind.LDS: LdsFault,
    FaultKind.SCRATCH: ScratchFault,
    FaultKind.BUDGET: InstructionBudgetExceeded,
    FaultKind.BARRIER: BarrierDeadlock,
    FaultKind.ILLEGAL: IllegalInstruction,
    FaultKind.UNSUPPORTED: UnsupportedInstruction,
    FaultKind.HOST_MEMORY: HostMemoryExhausted,
    FaultKind.TRAP: KernelTrap,
}

_HINTS: Mapping[FaultKind, str] = {
    FaultKind.MEMORY: "Check the index against the size of the buffer, and the grid against the size of the problem.",
    FaultKind.MISALIGNED: "Atomics need addresses that are multiples of their size.",
    FaultKind.LDS: "Check the index, and request as much dynamic LDS as the kernel uses.",
    FaultKind.SCRATCH: "A local array was indexed out of bounds, or the stack of a recursion is too deep.",
    FaultKind.BUDGET: (
        "Check the condition that ends this loop. If the kernel is long, raise device.max_instructions, "
        "or --max-instructions of rocm-perf run."
    ),
    FaultKind.BARRIER: "All wavefronts of a workgroup must reach the same __syncthreads().",
    FaultKind.ILLEGAL: "Check that the code object is complete and compiled for this processor.",
    FaultKind.UNSUPPORTED: "The emulator does not implement this form of the instruction.",
    FaultKind.HOST_MEMORY: "Use fewer threads or smaller workgroups.",
    FaultKind.TRAP: "Look for abort(), assert() or __builtin_trap() in the kernel, or for an invalid function pointer.",
}


def fault_error(
    record: FaultRecord,
    program: Program,
    describe_place: Callable[[int, int], str],
    resume_address: Callable[[int], int | None],
    max_instructions: int,
    source_line: Callable[[int], str | None] | None = None,
) -> EmulationError:
    """Return the error for one recorded fault.

    Args:
        record: Record written by the runtime.
        program: Program of the kernel, for the text of the instruction.
        describe_place: Describes an invalid address and access width in relation to the nearest buffer.
        resume_address: Returns the address of a resume point, for faults between instructions.
        max_instructions: Instruction budget of the launch.
        source_line: Returns the source line of an address of the code object if known.
    """
    kind = FaultKind(record.kind)
    service = service_at(next(iter(lane_addresses(record).values()), 0)) if kind is FaultKind.MEMORY else None
    if service is not None and service.missing:
        return MissingService(
            f"kernel {program.symbol}: {service.missing}",
            where="; ".join(_where(record, program, resume_address, source_line)),
            hint=service.hint,
        )
    arrived = _missing_code(record, program) if kind is FaultKind.TRAP else None
    if arrived is not None:
        return _no_code(arrived, program, _where(record, program, resume_address, source_line))
    hint = _HINTS[kind]
    if kind is FaultKind.MEMORY and next(iter(lane_addresses(record).values()), 0) in _GRID_SYNC_WORDS:
        hint = f"{hint or ''} {_GRID_SYNC_HINT}".strip()
    return _CLASSES[kind](
        f"kernel {program.symbol}: {_what(kind, record, describe_place, max_instructions)}",
        where="; ".join(_where(record, program, resume_address, source_line)),
        hint=hint,
    )


def time_limit_error(program: Program, limit_s: float) -> TimeLimitExceeded:
    """Return the error for a launch that exceeded its limit of wall-clock time."""
    return TimeLimitExceeded(
        f"kernel {program.symbol}: stopped after {limit_s:.0f} s of wall-clock time",
        hint="Check the conditions that end its loops, or allow more time.",
    )


def _missing_code(record: FaultRecord, program: Program) -> MissingCode | None:
    """Return the address without code at which a wavefront arrived, or None for a trap."""
    number = FIRST_MISSING_CODE - (record.detail - (1 << 64))
    return program.missing[number] if 0 <= number < len(program.missing) else None


def _no_code(arrived: MissingCode, program: Program, where: list[str]) -> EmulationError:
    error = UnsupportedInstruction if arrived.is_unsupported else IllegalInstruction
    return error(
        f"kernel {program.symbol}: execution arrived at {arrived.address:#x}: {arrived.reason}",
        where="; ".join(where),
        hint="Compile with other flags, or report the instruction."
        if arrived.is_unsupported
        else "A function that must not return did return, or a jump or s_endpgm is missing before this address.",
    )


def wavefront_of(record: FaultRecord) -> tuple[tuple[int, int, int], int]:
    """Return the workgroup and the number of the wavefront in it."""
    x, y, z = record.workgroup
    return (x, y, z), record.wave


def assertion_error(symbol: str, failed: Assertion, trap: FaultRecord, geometry: Geometry, wave_size: int) -> KernelAssertion:
    """Return the error for a failed assertion: its place, its condition and the work-items that trapped."""
    workgroup, wave = wavefront_of(trap)
    threads = [geometry.work_item_of(workgroup, wave * wave_size + lane) for lane in lane_addresses(trap)]
    shown = ", ".join(map(str, threads[:_SHOWN_LANES]))
    more = f" and {len(threads) - _SHOWN_LANES} more of the wavefront" if len(threads) > _SHOWN_LANES else ""
    function = f", in {failed.function}" if failed.function else ""
    return KernelAssertion(
        f"kernel {symbol}: assertion `{failed.condition}` failed",
        where=f"{failed.file}:{failed.line}{function}; block {workgroup}, thread{'s' * (len(threads) > 1)} {shown}{more}",
        hint="Check the condition for these threads; -DNDEBUG compiles assertions out.",
    )


def _what(kind: FaultKind, record: FaultRecord, describe_place: Callable[[int, int], str], max_instructions: int) -> str:
    access = f"{AccessKind(record.access).name.lower()} of {record.width_bytes} bytes"
    addresses = lane_addresses(record)
    first = next(iter(addresses.values()), 0)
    match kind:
        case FaultKind.MEMORY:
            return f"{access} at {first:#x}, {describe_place(first, record.width_bytes)}"
        case FaultKind.MISALIGNED:
            return f"misaligned {access} at {first:#x}"
        case FaultKind.LDS:
            return f"{access} at LDS offset {first & 0xFFFF_FFFF:,}, the workgroup has {record.detail:,} bytes"
        case FaultKind.SCRATCH:
            return f"{access} at scratch offset {first & 0xFFFF_FFFF:,}, a work-item has {record.detail:,} bytes"
        case FaultKind.BUDGET:
            return f"instruction budget exceeded ({max_instructions:,} wave instructions)"
        case FaultKind.BARRIER:
            return "wavefronts wait at a barrier while this one keeps running without reaching it"
        case FaultKind.ILLEGAL:
            return "illegal instruction"
        case FaultKind.UNSUPPORTED:
            return "unsupported form of an instruction"
        case FaultKind.TRAP:
            jumped = record.detail == 0xFFFF_FFFF_FFFF_FFFF
            return "jump to an address outside of its code" if jumped else f"trap {record.detail}"
        case _:
            return "this computer has too little memory for another workgroup"


def describe_miss(memory: DeviceMemory, address: int, width_bytes: int) -> str:
    """Return the distance of an access to the nearest buffer: `4 bytes past the end of buffer 'y' (8,388,608 bytes)`."""
    nearest = memory.nearest(address)
    if nearest is None:
        return "and no buffer was allocated"
    buffer = f"buffer {nearest.name!r} ({nearest.nbytes:,} bytes)"
    if memory.is_freed(nearest) and nearest.address <= address < nearest.end:
        return f"inside {buffer}, which was freed"
    if address < nearest.address:
        return f"{nearest.address - address:,} bytes before {buffer}"
    if address < nearest.end:
        return f"the last {address + width_bytes - nearest.end} bytes of it past the end of {buffer}"
    distance = address - nearest.end
    return f"{distance:,} bytes past the end of {buffer}" if distance else f"right at the end of {buffer}"


def lane_addresses(record: FaultRecord) -> dict[int, int]:
    """Return the invalid addresses by lane."""
    return {lane: int(record.addresses[lane]) for lane in range(64) if record.lanes >> lane & 1}


def _where(
    record: FaultRecord,
    program: Program,
    resume_address: Callable[[int], int | None],
    source_line: Callable[[int], str | None] | None,
) -> list[str]:
    aspects = []
    if record.inst >= 0:
        instruction = program.instructions[record.inst]
        aspects.append(f"`{instruction.text}` at {instruction.address:#x}")
        address: int | None = instruction.address
    else:
        address = resume_address(int(record.detail))
        if address is not None:
            aspects.append(f"the code from {address:#x} on (`{program.block_at[address].instructions[0].text}`)")
    line = source_line(address) if source_line is not None and address is not None else None
    if line:
        aspects.append(line)
    group = ", ".join(str(i) for i in record.workgroup)
    aspects.append(f"workgroup ({group}), wavefront {record.wave}")
    lanes = list(lane_addresses(record))
    if lanes:
        more = f" and {len(lanes) - _SHOWN_LANES} more" if len(lanes) > _SHOWN_LANES else ""
        aspects.append(f"lanes {', '.join(map(str, lanes[:_SHOWN_LANES]))}{more}")
    return aspects
