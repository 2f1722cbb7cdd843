"""Branches of a rewrite that were taken in no trial, with their source lines.

A branch is a conditional branch of the executed code, a predicated region without a branch, or a comparison that selects a value.
Conditions in code that was never executed are not listed: the branch that leads there is.

Selections without a comparison are not detected, for example a table of results or arithmetic with a bit of a size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.emulator.probes import Outcome, ProbeKind
from rocm_perf_lab.emulator.program import branch_targets
from rocm_perf_lab.emulator.structures import EXEC, VCC
from rocm_perf_lab.toolchain.source_lines import line_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import BasicBlock
    from rocm_perf_lab.toolchain.code_object import CodeObject
    from rocm_perf_lab.toolchain.source_lines import SourceLine

_NARROWING = ("S_AND_", "S_ANDN2_", "S_NAND_", "S_NOR_", "S_XOR_", "V_CMPX")
"""Instructions that start a predicated region; other writes of EXEC, such as S_OR and S_MOV, end one."""
_SCC_READERS = ("S_CSELECT", "S_CMOV")
_SHOWN_CHARACTERS = 100


class UncoveredBranch(StrictModel):
    """Branch that was taken in no trial.

    Args:
        line: Line of the condition in its source file, from 1; None without debug information.
        file: Source file, as recorded by the compiler.
        source: Text of the line; empty if the file is unknown.
        kind: `branch`, `lanes` (a predicated region that no lane executed) or `selection` (of a value by a comparison).
        target_line: Line of the code that was not executed, if it is known and differs from `line`.
        message: Description in one sentence.
    """

    line: int | None
    file: str
    source: str
    kind: str
    target_line: int | None
    message: str


@dataclass(frozen=True)
class OpenCondition:
    """Condition in executed code with a missing outcome.

    Args:
        instruction: Branch, write of EXEC, or comparison.
        kind: Kind of the condition.
        missing: Outcome that was not observed.
        target: Address of the code that was not executed; None for a selection.
    """

    instruction: Instruction
    kind: ProbeKind
    missing: Outcome
    target: int | None


def open_conditions(coverage: BranchCoverage) -> tuple[OpenCondition, ...]:
    """Return the conditions in executed code with a missing outcome, in address order."""
    found: list[OpenCondition] = []
    for block in coverage.program.blocks:
        if block.address in coverage.executed:
            found += _of_block(block, coverage.outcomes)
    return tuple(sorted(found, key=lambda condition: condition.instruction.address))


def uncovered_branches(coverage: BranchCoverage, code_object: CodeObject, source: Path) -> tuple[UncoveredBranch, ...]:
    """Return the branches of a source that were not taken, one per line and kind, in order of lines.

    Code from headers and libraries is omitted, unless the code has no debug information.

    Args:
        coverage: Coverage of all trials.
        code_object: Compiled source, with line tables.
        source: Source file.
    """
    line_of = line_table(code_object)
    texts = source.read_text(errors="replace").splitlines()
    found: dict[tuple[str, int | None, str, int | None], UncoveredBranch] = {}
    for condition in open_conditions(coverage):
        line = line_of(condition.instruction.address)
        if line is not None and line.file.rpartition("/")[2] != source.name:
            continue
        target = _target_line(condition, coverage, line_of)
        branch = _described(condition, line, target, texts)
        found.setdefault((branch.kind, branch.line, branch.message, branch.target_line), branch)
    branched = {branch.line for branch in found.values() if branch.kind != "selection" and branch.line is not None}
    kept = [b for b in found.values() if b.kind != "selection" or b.line not in branched]
    return tuple(sorted(kept, key=lambda b: (b.line or 0, b.message)))


def _of_block(block: BasicBlock, outcomes: Mapping[int, Outcome]) -> Iterator[OpenCondition]:
    instructions = block.instructions
    for place, instruction in enumerate(instructions):
        seen = outcomes.get(instruction.address)
        if seen is None or seen is Outcome.BOTH:
            continue
        name = instruction.mnemonic
        if name.startswith("S_CBRANCH"):
            yield from _of_branch(instruction, seen)
        elif _starts_region(instructions, place):
            if seen is not Outcome.NONE and not seen & Outcome.TRUE:
                yield OpenCondition(instruction, ProbeKind.LANES, Outcome.TRUE, instruction.address + instruction.size)
        elif name.startswith(("S_CMP", "S_BITCMP")):
            if _selects(instructions[place + 1 :]):
                yield from _of_selection(instruction, ProbeKind.SCALAR_COMPARISON, seen)
        elif name.startswith("V_CMP_") and _selects_lanes(_mask(instruction, "vdst", "VOPC"), instructions[place + 1 :]):
            yield from _of_selection(instruction, ProbeKind.VECTOR_COMPARISON, seen)
        elif instruction.encoding == "SOP2" and not _writes_exec(instruction):
            following = instructions[place + 1 :]
            if _selects(following) or _selects_lanes(instruction.fields["sdst"], following):
                yield from _of_selection(instruction, ProbeKind.COMBINATION, seen)


def _of_branch(instruction: Instruction, seen: Outcome) -> Iterator[OpenCondition]:
    """Yield the edges that were not taken, except around a region that no lane executes, which then has no effect."""
    (taken,), following = branch_targets(instruction), instruction.address + instruction.size
    name = instruction.mnemonic
    if not seen & Outcome.TRUE and not name.endswith("EXECZ"):
        yield OpenCondition(instruction, ProbeKind.BRANCH, Outcome.TRUE, taken)
    if not seen & Outcome.FALSE and not name.endswith("EXECNZ"):
        yield OpenCondition(instruction, ProbeKind.BRANCH, Outcome.FALSE, following)


def _of_selection(instruction: Instruction, kind: ProbeKind, seen: Outcome) -> Iterator[OpenCondition]:
    if seen is not Outcome.NONE:  # Otherwise no lane was active.
        yield OpenCondition(instruction, kind, Outcome.BOTH & ~seen, None)


def _starts_region(instructions: tuple[Instruction, ...], place: int) -> bool:
    """Return whether an instruction narrows EXEC for code in the same block, rather than for a branch at its end."""
    instruction = instructions[place]
    writes = "SAVEEXEC" in instruction.mnemonic or _writes_exec(instruction)
    if not writes or not instruction.mnemonic.startswith(_NARROWING):
        return False
    following = instructions[place + 1 :]
    again = any(_writes_exec(i) or "SAVEEXEC" in i.mnemonic for i in following)
    return again or not (following and following[-1].mnemonic.startswith("S_CBRANCH_EXEC"))


def _writes_exec(instruction: Instruction) -> bool:
    scalar = instruction.encoding.startswith("SOP") and instruction.fields.get("sdst") in (EXEC, EXEC + 1)
    return scalar or instruction.mnemonic.startswith("V_CMPX")


def _selects(following: tuple[Instruction, ...]) -> bool:
    """Return whether SCC selects a value before another instruction writes it."""
    for instruction in following:
        if instruction.mnemonic.startswith(_SCC_READERS):
            return True
        if instruction.encoding.startswith("SOP") and "SCC = " in (instruction.pseudocode or ""):
            return False
    return False


def _selects_lanes(mask: int | None, following: tuple[Instruction, ...]) -> bool:
    """Return whether a lane mask in an SGPR pair selects values in the same block."""
    for instruction in following:
        name = instruction.mnemonic
        if name.startswith("V_CNDMASK") and _mask(instruction, "src2", "VOP2") == mask:
            return True
        written = _mask(instruction, "vdst", "VOPC") if name.startswith("V_CMP_") else instruction.fields.get("sdst")
        if written == mask:
            return False
    return False


def _mask(instruction: Instruction, name: str, implicit: str) -> int | None:
    """Return the SGPR pair of the lane mask: VCC in the short encoding, else an operand."""
    return VCC if instruction.encoding == implicit else instruction.fields.get(name)


def _target_line(
    condition: OpenCondition, coverage: BranchCoverage, line_of: Callable[[int], SourceLine | None]
) -> SourceLine | None:
    """Return the first source line in the target block that differs from that of the condition."""
    if condition.target is None:
        return None
    own = line_of(condition.instruction.address)
    for block in coverage.program.blocks:
        addresses = [i.address for i in block.instructions]
        if condition.target in addresses:
            lines = [line_of(a) for a in addresses if a >= condition.target]
            return next((line for line in lines if line is not None and line.line and line != own), None)
    return None


def _described(condition: OpenCondition, line: SourceLine | None, target: SourceLine | None, texts: list[str]) -> UncoveredBranch:
    number = line.line if line is not None and line.line else None
    text = texts[number - 1].strip()[:_SHOWN_CHARACTERS] if number is not None and number <= len(texts) else ""
    place = f"line {number}" if number is not None else f"address {condition.instruction.address:#x}"
    quoted = f" `{text}`" if text else ""
    if condition.kind is ProbeKind.BRANCH:
        where = f" to line {target.line}" if target is not None else ""
        message = f"{place}: a branch{where} of{quoted or ' this code'} was never taken"
        kind = "branch"
    elif condition.kind is ProbeKind.LANES:
        message = f"{place}: no lane executed the code under the condition{quoted}"
        kind = "lanes"
    else:
        outcome = "true" if condition.missing & Outcome.TRUE else "false"
        message = (
            f"{place}: the comparison {condition.instruction.mnemonic.lower()} of{quoted or ' a selection'} was never {outcome}"
        )
        kind = "selection"
    return UncoveredBranch(
        line=number,
        file=line.file if line is not None else "",
        source=text,
        kind=kind,
        target_line=target.line if target is not None else None,
        message=message,
    )
