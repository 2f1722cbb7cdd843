"""Decoded instructions of one kernel in basic blocks, independent of launches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.decoded import Successors, reachable_instructions
from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa.counter_classes import counter_increments
from rocm_perf_lab.emulator.probes import find_probes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet
    from rocm_perf_lab.emulator.probes import Probe

_WORD_BYTES = 4
DEFAULT_MODE = 0x3F0
"""Default of HIP kernels: round to nearest even, keep denormals, DX10_CLAMP, IEEE."""
_CALLS = frozenset({"S_SWAPPC_B64", "S_CALL_B64"})
_JUMPS = frozenset({"S_BRANCH", "S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64", "S_ENDPGM", "S_ENDPGM_SAVED"})
ABORT_TRAP = 2
FIRST_MISSING_CODE = -2
"""Trap number of an arrival at the first of the addresses without code; those of the next ones are lower."""
CONDITIONAL_BRANCHES = frozenset(f"S_CBRANCH_{test}" for test in ("SCC0", "SCC1", "VCCZ", "VCCNZ", "EXECZ", "EXECNZ"))
COMPUTED_JUMPS = frozenset({"S_SETPC_B64", "S_SWAPPC_B64"})
GRID_BARRIER = "DS_GWS_BARRIER"
_PAUSES = frozenset({"S_BARRIER", "S_SLEEP", "S_TRAP", GRID_BARRIER})
_MAY_NOT_RETURN = _CALLS | {"S_TRAP"}
_RETURN_BIT = {"GLOBAL": 16, "FLAT": 16, "MUBUF": 14}
"""Bit of the encoding that requests the old value (SC0)."""
_COMMUTING = ("ADD", "SUB", "SMIN", "UMIN", "SMAX", "UMAX", "AND", "OR", "XOR")


@dataclass(frozen=True)
class BasicBlock:
    """Basic block: `instructions`, after which execution continues at one of `successors` (addresses), pauses or ends.

    `is_loop_header`: the target of a branch at the same or a later address, or a computed jump, whose target is unknown. The time
    slice of a wavefront may end here.
    """

    index: int
    address: int
    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
    is_loop_header: bool
    is_resume_point: bool

    @cached_property
    def counters(self) -> Mapping[str, int]:
        """SQ counter increments of one execution by one wavefront."""
        totals: dict[str, int] = {}
        for instruction in self.instructions:
            for name, increment in counter_increments(instruction).items():
                totals[name] = totals.get(name, 0) + increment
        return totals


@dataclass(frozen=True)
class MissingCode:
    """Address without code that can be executed, and the reason; an error only if a wavefront arrives there.

    `is_unsupported`: there is a valid instruction that the emulator does not implement.
    """

    address: int
    reason: str
    is_unsupported: bool = False


@dataclass(frozen=True)
class Program:
    """Code of one kernel, by addresses of the code object; translated code adds the load address of the wavefront."""

    symbol: str
    entry: int
    blocks: tuple[BasicBlock, ...]
    isa: InstructionSet
    mode: int = DEFAULT_MODE
    """MODE register at kernel entry."""
    missing: tuple[MissingCode, ...] = ()
    """In address order."""
    doubtful: frozenset[int] = frozenset()
    """Addresses of instructions that are only reached if a call returns, a trap continues or another function is called."""

    @cached_property
    def missing_at(self) -> Mapping[int, int]:
        """Positions in `missing` by address."""
        return {one.address: number for number, one in enumerate(self.missing)}

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Instructions in address order; the index of an instruction is its position here."""
        return tuple(sorted((i for b in self.blocks for i in b.instructions), key=lambda i: i.address))

    @cached_property
    def depends_on_order(self) -> bool:
        """Return whether atomics on device memory round or return the old value."""
        return any(_is_order_dependent(instruction) for instruction in self.instructions)

    @cached_property
    def has_grid_barrier(self) -> bool:
        """Return whether workgroups wait for each other through global wave sync."""
        return any(instruction.mnemonic == GRID_BARRIER for instruction in self.instructions)

    @cached_property
    def block_at(self) -> Mapping[int, BasicBlock]:
        """Blocks by their first address."""
        return {block.address: block for block in self.blocks}

    @cached_property
    def probes(self) -> tuple[Probe, ...]:
        """Conditions whose outcomes translated code records."""
        return find_probes(self.instructions, CONDITIONAL_BRANCHES)

    @cached_property
    def has_indirect_jumps(self) -> bool:
        """True if S_SETPC_B64 or S_SWAPPC_B64 may jump to any block."""
        return any(map(is_computed_jump, self.instructions))


@lru_cache(maxsize=8)  # trials and their measurement use separate emulated GPUs
def decode_program(
    symbol: str,
    code: bytes,
    code_address: int,
    entries: tuple[int, ...],
    isa: InstructionSet,
    mode: int = DEFAULT_MODE,
    ends: tuple[tuple[int, str], ...] = (),
) -> Program:
    """Decode everything reachable from `entries` (the kernel entry first, then functions it may call).

    Args:
        symbol: Name of the kernel, for messages.
        code: Content of the text section of the code object.
        code_address: Address of the section in the code object.
        entries: Addresses in the code object.
        isa: Instruction set of the code.
        mode: MODE register at kernel entry.
        ends: Addresses behind functions, with their names.

    Raises:
        IllegalInstruction: Bytes that are reached without a call do not encode an instruction, or such a jump leaves the code.
    """
    reached = reachable_instructions(code, code_address, entries, isa, _follow, dict(ends))
    missing = tuple(MissingCode(address, reason) for address, reason in sorted(reached.missing.items()))
    blocks = _blocks(reached.instructions, entries)
    return Program(symbol, entries[0], blocks, isa, mode, missing, reached.doubtful)


def without_instruction(program: Program, address: int, reason: str) -> Program:
    """Return a program that ends before an unsupported instruction."""
    kept = {i.address: i for i in program.instructions if i.address != address}
    unsupported = MissingCode(address, reason, is_unsupported=True)
    missing = sorted((*program.missing, unsupported), key=lambda one: one.address)
    starts = tuple(block.address for block in program.blocks if block.address != address)
    return replace(program, blocks=_blocks(kept, starts), missing=tuple(missing), doubtful=program.doubtful - {address})


def _blocks(decoded: Mapping[int, Instruction], entries: tuple[int, ...]) -> tuple[BasicBlock, ...]:
    order = sorted(decoded)
    leaders = _leaders(decoded, entries)
    back_targets = {t for i in decoded.values() for t in branch_targets(i) if t <= i.address}
    back_targets |= {i.address for i in decoded.values() if is_computed_jump(i)}  # with unknown targets
    resume_points = {i.address + i.size for i in decoded.values() if i.mnemonic in _PAUSES} | back_targets
    numbered = {a: _renumbered(decoded[a], n) for n, a in enumerate(order)}
    blocks = []
    for index, address in enumerate(sorted(leaders & decoded.keys())):
        body = _body(numbered, address, leaders)
        is_header = address in back_targets
        blocks.append(BasicBlock(index, address, body, _successors(body[-1]), is_header, address in resume_points))
    return tuple(blocks)


def unreached_entries(program: Program, code: bytes, code_address: int, end: int) -> tuple[int, ...]:
    """Return the addresses up to `end` of code that only a computed jump can reach, such as a table of branches."""
    found: list[int] = []
    known = {i.address: i.size for i in program.instructions}
    address = program.entry
    while address < end:
        if address not in known:
            try:
                island = reachable_instructions(code, code_address, (address,), program.isa, _follow).instructions
            except IllegalInstruction:  # data, or padding
                address += _WORD_BYTES
                continue
            found += [a for a in island if a < end and a not in known]
            known |= {i.address: i.size for i in island.values()}
        address += known[address]
    return tuple(found)


def is_computed_jump(instruction: Instruction) -> bool:
    """Return whether the target of a jump is unknown before it runs, unlike that of a long branch."""
    return instruction.mnemonic in COMPUTED_JUMPS and "target" not in instruction.fields


def branch_targets(instruction: Instruction) -> tuple[int, ...]:
    """Return the addresses that a direct branch may jump to."""
    if "target" in instruction.fields:
        return (instruction.fields["target"],)
    name = instruction.mnemonic
    if name in ("S_BRANCH", "S_CALL_B64") or name in CONDITIONAL_BRANCHES:
        words = instruction.fields["simm16"] & 0xFFFF
        return (instruction.address + 4 + 4 * (words - ((words >> 15) << 16)),)
    return ()


def _follow(instruction: Instruction) -> Successors:
    after = instruction.address + instruction.size
    continues = instruction.mnemonic in _CALLS or not _never_continues(instruction)
    return Successors(branch_targets(instruction), after if continues else None, instruction.mnemonic in _MAY_NOT_RETURN)


def _leaders(decoded: Mapping[int, Instruction], entries: tuple[int, ...]) -> set[int]:
    leaders = set(entries)
    for instruction in decoded.values():
        leaders.update(branch_targets(instruction))
        if is_computed_jump(instruction):
            leaders.add(instruction.address)
        ends = instruction.mnemonic in _JUMPS | _PAUSES | CONDITIONAL_BRANCHES
        if ends:
            leaders.add(instruction.address + instruction.size)
    return leaders


def _body(decoded: Mapping[int, Instruction], start: int, leaders: set[int]) -> tuple[Instruction, ...]:
    body = [decoded[start]]
    while not _ends_block(body[-1]):
        following = body[-1].address + body[-1].size
        if following in leaders or following not in decoded:
            break
        body.append(decoded[following])
    return tuple(body)


def _never_continues(instruction: Instruction) -> bool:
    """Return whether an instruction is a jump, an end, or the trap of an abort, which compilers put last."""
    is_abort = instruction.mnemonic == "S_TRAP" and instruction.fields["simm16"] & 0xFF == ABORT_TRAP
    return is_abort or instruction.mnemonic in _JUMPS


def _ends_block(instruction: Instruction) -> bool:
    return instruction.mnemonic in _JUMPS | _PAUSES | CONDITIONAL_BRANCHES


def _successors(last: Instruction) -> tuple[int, ...]:
    following = () if _never_continues(last) else (last.address + last.size,)
    return (*branch_targets(last), *following)


def _renumbered(instruction: Instruction, index: int) -> Instruction:
    return replace(instruction, index=index)


def results_depend_on_order(program: Program) -> bool:
    """Return whether running workgroups in another order, as threads do, could change the result of a kernel.

    This is the case if atomics on device memory round or return the old value. Integer atomics without return commute.
    """
    return program.depends_on_order


def _is_order_dependent(instruction: Instruction) -> bool:
    _, is_atomic, operation = instruction.mnemonic.partition("_ATOMIC_")
    if not is_atomic or instruction.encoding not in _RETURN_BIT:
        return False
    bit = _RETURN_BIT[instruction.encoding]
    return bool(instruction.bits(bit, bit)) or operation.removesuffix("_X2") not in _COMMUTING
