"""Analysis of a thread trace: cycles per instruction class, source line and loop, and the cause of every stall.

`analyse(trace)` returns time by instruction class and by source line, charges the stall of each wait to the memory, LDS,
scalar or matrix instructions that caused it, and reports memory latency, issue efficiency and hot spots. The time of an
instruction is latency + idle; its stall is part of its latency. `trace_budget.py` adds the time of the SIMDs, from which
`trace_account.py` makes an account for the ledger of lost time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.masked_code import masked_vector_share
from rocm_perf_lab.analysis.roofline import Unavailable
from rocm_perf_lab.analysis.trace_budget import TraceBudget, trace_budget
from rocm_perf_lab.analysis.trace_phases import LaunchGaps, TracePhases, launch_gaps, trace_phases
from rocm_perf_lab.analysis.traced_cycles import TimeBalance, balance, hidden_cycles, shader_clock_hz, waves_per_simd
from rocm_perf_lab.analysis.traced_lines import (
    CycleShare,
    HotSpot,
    LineTime,
    hottest_instructions,
    spent_on,
    time_by_class,
    time_by_line,
)
from rocm_perf_lab.analysis.traced_loops import LoopTime, loops
from rocm_perf_lab.analysis.wait_charges import Charge, MemoryLatency, waited
from rocm_perf_lab.arch.registry import architecture_of_code, find_architecture
from rocm_perf_lab.rocprof.att.model import Column
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.arch.model import Architecture
    from rocm_perf_lab.rocprof.att.model import AttTrace, InstructionRow, KernelLabel, Wave
    from rocm_perf_lab.toolchain.static_features import InstructionClass

_SUM_TOLERANCE = 0.01
_SAMPLED = "the directory holds PC samples, which count samples instead of cycles"
_ALWAYS = (
    "the stall of a wait for several operations is divided by a model that assumes equal latencies",
    "idle time is lost arbitration, a dependency or an instruction cache miss; the trace cannot distinguish them",
)


@dataclass(frozen=True)
class TraceCoverage:
    """Part of the launch that was traced."""

    waves: int
    launched_waves: float | None
    compute_units: int
    engines: int
    variation: float
    """Coefficient of variation of the wavefronts' lifetimes."""
    is_partial: bool = False
    """Whether later wavefronts of the traced compute units are known to be missing."""

    @property
    def traced_share(self) -> float | None:
        """Share of the launched wavefronts, if their number is known."""
        return min(1.0, self.waves / self.launched_waves) if self.launched_waves else None


@dataclass(frozen=True)
class ThreadTrace:
    """Result of the analysis. Charges, lines and hot spots are sorted by descending cycles."""

    directory: str
    kernel: str | None
    emulated: bool
    waves: int
    total: CycleShare
    stall_fraction: float
    issue_fraction: float
    idle_fraction: float
    hidden_fraction: float
    """Share of all cycles spent waiting while another wavefront used the SIMD. The remaining waiting is exposed."""
    waves_per_simd: float | None
    """Mean wavefronts per active SIMD of the traced shader engines; None without occupancy events."""
    shader_clock_hz: float | None
    instructions_per_cycle: float | None
    """Of the traced compute units, with wavefronts overlapped; None without wavefront timelines."""
    classes: Mapping[InstructionClass, CycleShare]
    lines: tuple[LineTime, ...]
    charges: tuple[Charge, ...]
    charged: Mapping[InstructionClass, float]
    """Stall cycles by class of the causing instruction."""
    wait_cycles: int
    """Cycles of all waits for counters, whether recorded as stall or as execution."""
    unattributed_cycles: float
    """Wait cycles without a known cause: the operation is older than the trace, is not counted as a memory operation, or
    is one of several that may return in any order."""
    memory_latency: Mapping[str, MemoryLatency]
    hot_spots: tuple[HotSpot, ...]
    loops: tuple[LoopTime, ...]
    balance: TimeBalance
    """Composition of the total cycles."""
    coverage: TraceCoverage
    budget: TraceBudget | None
    """Time of the SIMDs; None without wavefront timelines."""
    memory_atomics: int
    """Executed atomic instructions of global memory."""
    masked_vector_share: float | None
    """Share of the vector instructions' issue that is in divergent branches and loops; None without vector instructions."""
    phases: TracePhases | None
    gaps: LaunchGaps | None
    limits: tuple[str, ...]


def analyse(
    trace: AttTrace, *, symbol: str | None = None, launched_waves: float | None = None, architecture: str | None = None
) -> ThreadTrace | Unavailable:
    """Analyse one trace.

    Args:
        trace: Decoded thread trace.
        symbol: Mangled name of the kernel, if the trace contains several; by default the one with the most cycles.
        launched_waves: Wavefronts of the whole launch, to report the traced share.
        architecture: Architecture of the GPU, for the rates of matrix instructions; by default the one that the trace names.

    Returns:
        The analysis, or the reason if the trace contains no cycles of the kernel.
    """
    beside: tuple[str, ...] = ()
    if symbol is not None and (others := _of_others_only(trace, symbol)):
        return Unavailable(f"the thread trace is of {', '.join(others[:3])}, not of {symbol}")
    if symbol is None:
        symbol, beside = _main_kernel(trace)
    rows = _rows_of(trace, symbol)
    if reason := _reason_without_cycles(trace, rows):
        return Unavailable(reason)
    if len(rows) < len(trace.rows):
        trace = replace(trace, waves=_waves_of(trace.waves, rows))
    total = spent_on(rows, sum(row.cycles for row in rows))
    kinds = {row.line: instruction_class(row.mnemonic) for row in rows}
    found = waited(trace, rows, kinds)
    charges = found.charges
    summed = balance(trace, rows)
    hidden = hidden_cycles(trace)
    waits = sum(row.latency for row in rows if kinds[row.line] == "waitcnt")
    charged_waits = sum(charge.cycles for charge in charges if kinds[charge.victim.line] == "waitcnt")
    found_loops = loops(trace, rows)
    label = trace.kernel_of(rows[0].line)
    return ThreadTrace(
        directory=trace.provenance.directory,
        kernel=(label.name or label.mangled_name) if label else symbol,
        emulated=trace.provenance.emulated,
        waves=len(trace.waves),
        total=total,
        stall_fraction=total.stall / total.cycles,
        issue_fraction=(total.latency - total.stall) / total.cycles,
        idle_fraction=total.idle / total.cycles,
        hidden_fraction=sum(hidden.get(row.line, 0) for row in rows) / total.cycles,
        waves_per_simd=waves_per_simd(trace, _numbers_of(trace, label)),
        shader_clock_hz=shader_clock_hz(trace.clocks),
        instructions_per_cycle=_instructions_per_cycle(trace.waves),
        classes=time_by_class(rows, kinds, total.cycles),
        lines=time_by_line(rows, charges, kinds, hidden, total.cycles),
        charges=charges,
        charged=_by_cause(charges, kinds),
        wait_cycles=waits,
        unattributed_cycles=max(0.0, waits - charged_waits),
        memory_latency=found.latency,
        hot_spots=hottest_instructions(rows, charges, kinds, hidden, total.cycles),
        loops=found_loops,
        balance=summed,
        coverage=_coverage(trace, launched_waves),
        budget=trace_budget(trace, trace.rows, found, _architecture(architecture or trace.provenance.architecture, trace)),
        memory_atomics=sum(row.hits for row in rows if kinds[row.line] == "vmem" and "atomic" in row.mnemonic),
        masked_vector_share=masked_vector_share(rows, found_loops),
        phases=trace_phases(trace.waves, found_loops),
        gaps=launch_gaps(trace),
        limits=(*_limits(trace, summed, launched_waves), *beside),
    )


def _reason_without_cycles(trace: AttTrace, rows: Sequence[InstructionRow]) -> str | None:
    if not rows:
        return "; ".join(("the thread trace holds no instructions", *trace.notes))
    if not trace.has_cycles:
        return _SAMPLED
    if sum(row.cycles for row in rows):
        return None
    is_sampled = any(row.samples and row.samples.issued + row.samples.stalled for row in rows)
    return _SAMPLED if is_sampled else "; ".join(("no wavefront of the kernel was traced", *trace.notes))


def _architecture(name: str | None, trace: AttTrace) -> Architecture | None:
    described = find_architecture(name) if name is not None else None
    generation = trace.provenance.gfxip
    if described is not None or generation is None:
        return described
    return architecture_of_code(generation, {row.text for row in trace.rows})


def _coverage(trace: AttTrace, launched_waves: float | None) -> TraceCoverage:
    waves = trace.waves
    lifetimes = np.array([wave.cycles for wave in waves], dtype=np.float64)
    variation = float(lifetimes.std() / lifetimes.mean()) if len(waves) and lifetimes.mean() > 0 else 0.0
    units = {(wave.key.engine, wave.compute_unit) for wave in waves}
    engines = len({engine for engine, _ in units})
    return TraceCoverage(len(waves), launched_waves, len(units), engines, variation, trace.provenance.is_partial)


def _main_kernel(trace: AttTrace) -> tuple[str | None, tuple[str, ...]]:
    """Return the mangled name of the kernel with the most cycles if there are several, and a note on the others."""
    dispatched = {name.removesuffix(".kd") for name in trace.dispatched.values()}
    cycles: dict[str, int] = defaultdict(int)
    for row in trace.rows:
        label = trace.kernel_of(row.line)
        if label is not None and row.cycles:
            cycles[label.mangled_name] += row.cycles
    kernels = sorted((name for name in cycles if name.removesuffix(".kd") in dispatched), key=lambda name: (-cycles[name], name))
    if len(kernels) < 2:
        return None, ()
    others = ", ".join(kernels[1:4])
    return kernels[0], (f"the trace also has {len(kernels) - 1} other kernel(s): {others}; choose one with --kernel",)


def _of_others_only(trace: AttTrace, symbol: str) -> tuple[str, ...]:
    """Return the kernels of a trace that names its kernels but not `symbol`. CSV output and -T shorten names."""
    if any(_is_called(label, symbol) for label in trace.kernels):
        return ()
    return tuple(label.name or label.mangled_name.removesuffix(".kd") for label in trace.kernels)


def _is_called(label: KernelLabel, symbol: str) -> bool:
    wanted = symbol.removesuffix(".kd")
    return wanted == label.mangled_name.removesuffix(".kd") or wanted.partition("(")[0] == label.name.partition("(")[0]


def _rows_of(trace: AttTrace, symbol: str | None) -> tuple[InstructionRow, ...]:
    """Return the rows except those of other kernels dispatched at the same time; device functions are included."""
    own = {label.mangled_name.removesuffix(".kd") for label in trace.kernels if symbol is not None and _is_called(label, symbol)}
    if not own:
        return trace.rows
    others = {name.removesuffix(".kd") for name in trace.dispatched.values()} - own
    bounds = [label.line for label in trace.kernels]
    places = np.searchsorted(bounds, [row.line for row in trace.rows], side="right") - 1
    is_other = [label.mangled_name.removesuffix(".kd") in others for label in trace.kernels]
    return tuple(row for row, place in zip(trace.rows, places.tolist(), strict=True) if place < 0 or not is_other[place])


def _numbers_of(trace: AttTrace, label: KernelLabel | None) -> set[int] | None:
    """Return the numbers of the kernel in the occupancy events, or None if its name does not occur there."""
    mangled = label.mangled_name.removesuffix(".kd") if label else None
    return {number for number, name in trace.dispatched.items() if name.removesuffix(".kd") == mangled} or None


def _waves_of(waves: Sequence[Wave], rows: Sequence[InstructionRow]) -> tuple[Wave, ...]:
    """Return the wavefronts that executed any of the rows. Wavefronts without instructions may belong to any kernel."""
    lines = np.array([row.line for row in rows], dtype=np.int64)
    return tuple(w for w in waves if not len(w.instructions) or np.isin(w.instructions[:, Column.LINE], lines).any())


def _by_cause(charges: Sequence[Charge], kinds: Mapping[int, InstructionClass]) -> dict[InstructionClass, float]:
    sums: dict[InstructionClass, float] = defaultdict(float)
    for charge in charges:
        sums[kinds[charge.cause.line]] += charge.cycles
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _instructions_per_cycle(waves: Sequence[Wave]) -> float | None:
    """Return instructions per cycle: per shader engine over its covered time (their clocks differ), then the mean."""
    engines: dict[int, list[Wave]] = defaultdict(list)
    for wave in waves:
        engines[wave.key.engine].append(wave)
    rates = []
    for group in engines.values():
        span = max(wave.end for wave in group) - min(wave.begin for wave in group)
        if span > 0:
            rates.append(sum(len(wave.instructions) for wave in group) / span)
    return sum(rates) / len(rates) if rates else None


def _limits(trace: AttTrace, summed: TimeBalance, launched_waves: float | None) -> tuple[str, ...]:
    waves = trace.waves
    engines = len({wave.key.engine for wave in waves})
    units = len({(wave.key.engine, wave.compute_unit) for wave in waves})
    seen = f"{len(waves):,} of {launched_waves:,.0f} wavefronts" if launched_waves else f"{len(waves):,} wavefronts"
    limits = [f"{seen} were traced, on {units} compute unit(s) of {engines} shader engine(s); others may differ"]
    if not waves:
        limits = ["no wavefront timelines: waits are charged in code order, which ignores loops"]
    if trace.provenance.emulated:
        limits.append("cycles are emulated by the timing model, not measured")
    if not any(row.source for row in trace.rows):
        limits.append("the code has no source lines: compile with -g or -gline-tables-only")
    if holes := sum(wave.stitched is not None for wave in waves):
        limits.append(f"{holes} wavefronts have instructions that are not in the code listing")
    return (*limits, *_differences(summed), *_ALWAYS, *trace.notes)


def _differences(summed: TimeBalance) -> list[str]:
    """Return descriptions of the parts of the balance that exceed one percent of the wavefronts' time."""
    parts = (
        (summed.overlapped, "are counted for several instructions at once"),
        (summed.behind_last, "follow the last instruction"),
        (summed.unplaced, "belong to instructions outside this kernel's code"),
        (summed.without_file, "more are in the code totals than in readable wave files"),
        (-summed.without_file, "more are in wave files than in the code totals"),
    )
    return [
        f"of the wavefronts' cycles {part / summed.waves:.1%} {what}"
        for part, what in parts
        if summed.waves and part > _SUM_TOLERANCE * summed.waves
    ]
