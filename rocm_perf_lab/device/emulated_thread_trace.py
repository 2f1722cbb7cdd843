"""Thread traces of the emulator in the format of rocprofv3: `emulated_trace(...) -> AttTrace`.

Combines the wavefronts recorded by the timing engine with the decoded program and the line table of the code object.
`rocprof/att/writer.py` writes the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.rocprof.att.effects import row_effects
from rocm_perf_lab.rocprof.att.model import (
    AttProvenance,
    AttTrace,
    Category,
    Column,
    InstructionRow,
    KernelLabel,
    Wave,
    WaveKey,
)
from rocm_perf_lab.rocprof.att.timeline import idle_cycles, state_curves, timeline
from rocm_perf_lab.rocprof.att.waits import Follower
from rocm_perf_lab.rocprof.att.writer import VERSION
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.disassembly import DisassemblyError, disassemble
from rocm_perf_lab.toolchain.source_lines import line_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.timing.thread_trace import TracedWave
    from rocm_perf_lab.rocprof.att.model import Integers
    from rocm_perf_lab.rocprof.att.waits import Links
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_VERSIONS_PER_GENERATION = 10000
"""`gfx_target_version` starts with the GFX generation: 90402."""
_AGENT, _DISPATCH, _CODE_OBJECT, _KERNEL, _COMPUTE_UNIT = 1, 1, 1, 1, 0


def emulated_trace(
    program: Program, waves: Sequence[TracedWave], code_object: CodeObject, kernel: KernelMetadata, *, device: str
) -> AttTrace:
    """Return the instructions of the kernel and the recorded wavefronts, as if of one compute unit of shader engine 0."""
    texts = _texts(program, code_object, kernel)
    line_at = {address: line for line, address in enumerate(sorted(texts), start=1)}
    lines = np.array([line_at[i.address] for i in program.instructions], dtype=np.int64)
    categories = np.array([_category(i) for i in program.instructions], dtype=np.int64)
    gfxip = load_architecture(code_object.architecture).gfx_target_version // _VERSIONS_PER_GENERATION
    follower = Follower({n: row_effects(texts[i.address], gfxip) for n, i in enumerate(program.instructions)}, gfxip)
    branches = np.array([i.mnemonic.startswith("S_CBRANCH") for i in program.instructions])
    numbers: dict[tuple[int, int], int] = {}
    traced = []
    for wave in waves:
        place = (wave.simd, wave.slot)
        number = numbers[place] = numbers.get(place, -1) + 1
        order = wave.instructions
        category = categories[order]
        not_taken = np.concatenate([order[1:] == order[:-1] + 1, [True]])[: len(order)]
        category[branches[order] & not_taken] = Category.NEXT
        duration = wave.done - wave.attempts
        stall = np.where(category == Category.IMMEDIATE, duration, wave.issued - wave.attempts)
        instructions = np.stack([wave.attempts, category, stall, duration, lines[order]], axis=1)
        traced.append(
            Wave(
                key=WaveKey(0, wave.simd, wave.slot, number),
                compute_unit=_COMPUTE_UNIT,
                identifier=wave.workgroup,
                begin=wave.begin,
                end=wave.end,
                instructions=instructions,
                timeline=timeline(wave.begin, instructions),
                waits=_waits(lines[order], follower.counter_links(order)),
                workgroup=wave.workgroup,
            )
        )
    return AttTrace(
        provenance=AttProvenance(
            directory=f"ui_output_agent_{_AGENT}_dispatch_{_DISPATCH}",
            agent=_AGENT,
            dispatch=_DISPATCH,
            version=VERSION,
            gfxip=gfxip,
            device=device,
            emulated=True,
            architecture=code_object.architecture,
        ),
        rows=_rows(texts, line_at, traced, _sources(code_object)),
        kernels=(KernelLabel(0, kernel.symbol, kernel.name, _CODE_OBJECT, kernel.entry_address),),
        waves=tuple(sorted(traced, key=lambda wave: wave.key)),
        occupancy={0: _occupancy(traced)},
        dispatched={_KERNEL: kernel.symbol},
        states=state_curves(traced),
    )


def partial(trace: AttTrace) -> AttTrace:
    """Return a trace marked as one without the later wavefronts of its compute unit."""
    return replace(trace, provenance=replace(trace.provenance, is_partial=True))


def _waits(lines: Integers, links: Links) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the rows of wait instructions with the rows of the memory operations they waited for, in order of execution."""
    waits: dict[int, dict[int, None]] = {}
    pairs = zip(lines[links.victims].tolist(), lines[links.causes].tolist(), strict=True)
    for wait, cause in pairs:
        waits.setdefault(wait, {})[cause] = None
    return tuple((wait, tuple(found)) for wait, found in waits.items())


def _texts(program: Program, code_object: CodeObject, kernel: KernelMetadata) -> dict[int, str]:
    """Return all instructions of the kernel and of functions that it calls, by address."""
    texts = {i.address: i.text for i in program.instructions}
    try:
        listing = disassemble(code_object, kernel.symbol)
    except DisassemblyError:
        return texts
    return texts | {line.address: line.text for line in listing}


def _sources(code_object: CodeObject) -> Callable[[int], str]:
    try:
        lookup = line_table(code_object)
    except CodeObjectError:  # damaged debug information: the trace has no source lines
        return lambda _: ""

    def source(address: int) -> str:
        found = lookup(address)
        return f"{found.file}:{found.line}" if found is not None else ""

    return source


def _rows(
    texts: Mapping[int, str], line_at: Mapping[int, int], waves: Sequence[Wave], source: Callable[[int], str]
) -> tuple[InstructionRow, ...]:
    totals = np.zeros((len(texts) + 1, 4), np.int64)  # hits, latency, stall, idle
    for wave in waves:
        one = wave.instructions
        added = [np.ones(len(one), np.int64), one[:, Column.DURATION], one[:, Column.STALL], idle_cycles(wave.begin, one)]
        np.add.at(totals, one[:, Column.LINE], np.stack(added, axis=1))
    return tuple(
        InstructionRow(line, texts[address], source(address), _CODE_OBJECT, address, *totals[line].tolist())
        for address, line in line_at.items()
    )


def _occupancy(waves: Sequence[Wave]) -> Integers:
    events = [
        (time, _COMPUTE_UNIT, wave.key.simd, wave.key.slot, starts, _KERNEL)
        for wave in waves
        for time, starts in ((wave.begin, 1), (wave.end, 0))
    ]
    return np.array(sorted(events), dtype=np.int64).reshape(-1, 6)


def _category(instruction: Instruction) -> Category:
    name = instruction.mnemonic
    if instruction.is_vector_alu:
        return Category.VALU
    match instruction.encoding:
        case "SMEM":
            return Category.SMEM
        case "DS":
            return Category.LDS
        case "MUBUF":
            return Category.VMEM
        case "GLOBAL" | "FLAT" | "SCRATCH":
            return Category.FLAT
        case "SOPP" if name.startswith("S_CBRANCH") or name == "S_BRANCH":
            return Category.JUMP
        case "SOPP" if name.startswith(("S_ENDPGM", "S_SENDMSG")):
            return Category.MESSAGE
        case "SOPP":
            return Category.IMMEDIATE
    return Category.JUMP if name in ("S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64") else Category.SALU
