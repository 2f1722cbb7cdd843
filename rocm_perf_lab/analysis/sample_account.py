"""Account of a kernel's time from PC samples: issued and stalled time by instruction, reason and cause.

A sample is a moment of one wavefront, on any compute unit of the grid, so shares of samples are shares of wavefront time. A stall
costs time only if no other wavefront of the SIMD issues meanwhile (`sampled_exposure.py`). Intervals are Wilson's, at 95 %.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, HardwareUnit, Source, TimePart
from rocm_perf_lab.analysis.sampled_exposure import exposure_of
from rocm_perf_lab.analysis.sampled_places import interval, location_of, samples_by_line
from rocm_perf_lab.analysis.sampled_units import divergence, lane_use, overhead, units, vector_issue_share
from rocm_perf_lab.analysis.sampled_waits import Pending, operation_kind, pending_operations
from rocm_perf_lab.arch.registry import architecture_of_code
from rocm_perf_lab.rocprof.att.model import INLINED
from rocm_perf_lab.rocprof.pc_samples import SampledInstruction, SamplingMethod, StallReason
from rocm_perf_lab.toolchain.demangle import demangle, without_parameters
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.analysis.sampled_exposure import Basis, Exposure
    from rocm_perf_lab.analysis.sampled_waits import PendingKind
    from rocm_perf_lab.analysis.thread_trace import ThreadTrace
    from rocm_perf_lab.arch.model import Architecture
    from rocm_perf_lab.rocprof.att.model import InstructionRow
    from rocm_perf_lab.rocprof.pc_samples import PcSampling, SampledKernel

_LINES_PER_CAUSE = 5
_NAMED_LINES = 3
_STOCHASTIC_GENERATION = 9
_LEAST_SHARE = 0.005
"""Share of the time below which a line of a cause is not listed separately."""
_JOINED = 0.6
"""Confidence of a cause that a trace names for lines that were sampled."""
_TRUST: dict[Basis, float] = {"arbiter": 0.85, "wave counts": 0.6, "contention": 0.4}
_ASSUMED = 0.8
"""Factor of the confidence of a wait with an assumed operation."""
_TOLERATED_WIDTH = 1 / 3
_CAUSE_OF_PENDING: dict[PendingKind, Cause] = {
    "load": Cause.MEMORY_LATENCY,
    "store": Cause.STORE_DRAIN,
    "atomic": Cause.ATOMIC_CONTENTION,
    "scratch": Cause.REGISTER_SPILLS,
    "scalar": Cause.SCALAR_LATENCY,
    "lds": Cause.LDS_LATENCY,
}
_CAUSE_OF_REASON = {
    StallReason.NO_INSTRUCTION_AVAILABLE: Cause.INSTRUCTION_CACHE,
    StallReason.ALU_DEPENDENCY: Cause.DEPENDENCY,
    StallReason.INTERNAL_INSTRUCTION: Cause.DEPENDENCY,
    StallReason.BARRIER_WAIT: Cause.BARRIER_IMBALANCE,
    StallReason.SLEEP_WAIT: Cause.BARRIER_IMBALANCE,
}
_WORDS = {
    StallReason.NO_INSTRUCTION_AVAILABLE: "have no instruction to issue",
    StallReason.ALU_DEPENDENCY: "wait for the result of an earlier instruction",
    StallReason.INTERNAL_INSTRUCTION: "execute s_nop or another internal instruction",
    StallReason.BARRIER_WAIT: "wait at a barrier",
    StallReason.SLEEP_WAIT: "sleep",
    StallReason.WAITCNT: "wait for an operation",
    StallReason.ARBITER_WIN_EX_STALL: "are refused by the pipe",
}
_SLEEP = "Wavefronts poll with s_sleep: shorten the wait for the other workgroup, or split the kernel there."
_HOST_TRAP = (
    "host-trap samples have no stall reasons, the cause of the time is not decidable from them: collect stochastic samples "
    "(rocprofv3 --pc-sampling-beta-enabled --pc-sampling-method stochastic --pc-sampling-unit cycles "
    "--pc-sampling-interval 1048576) or a thread trace (rocprofv3 --att)"
)
_NO_ARBITER = (
    "the samples lack the state of the arbiter, which tells hidden from exposed stalls: collect them with rocprofv3 -f json "
    "or -f rocpd"
)


@dataclass(frozen=True)
class _Stall:
    """Stalled samples of one instruction and reason that have a cause."""

    cause: Cause
    reason: StallReason
    victim: SampledInstruction
    place: SampledInstruction
    """Instruction to change: the operation waited for, or the stalled instruction itself."""
    samples: int
    exposed: float
    certainty: float


def sample_account(
    sampling: PcSampling,
    kernel: str | None = None,
    *,
    traced: ThreadTrace | None = None,
    architecture: Architecture | None = None,
) -> Account:
    """Return the account of one kernel; without samples of it, an account with a note.

    Args:
        sampling: PC samples of a recording.
        kernel: Name of the kernel, mangled or not; the one with most samples by default.
        traced: Analysed thread trace of the same kernel: samples tell the share of the whole grid, the trace the cause of waits.
        architecture: Its matrix rates apply; by default those of the architecture that the code is for.
    """
    sampled = sampled_kernel(sampling, kernel)
    if sampled is None or not sampled.samples:
        return Account(Source.PC_SAMPLES, notes=(f"the PC samples have none of {kernel or 'any kernel'}",))
    exposure = exposure_of(sampled)
    lanes = lane_use(sampled, sampling.gfxip)
    if sampling.method is SamplingMethod.HOST_TRAP or exposure is None:
        return Account(
            Source.PC_SAMPLES,
            (*_traced_parts(sampled, traced), *divergence(None, lanes)),
            missing=(_HOST_TRAP,) if traced is None else (),
            notes=(*_places(sampled), *sampling.notes),
        )
    pending = pending_operations(sampled.instructions, sampling.gfxip) | _pending_in_trace(sampled.instructions, traced)
    # Only GPUs of this generation support stochastic sampling.
    texts = {one.text for one in sampled.instructions}
    used = units(sampled, exposure, architecture or architecture_of_code(sampling.gfxip or _STOCHASTIC_GENERATION, texts))
    busy = max((use.share for use in used if use.unit in (HardwareUnit.MATRIX, HardwareUnit.VALU)), default=0.0)
    losses = [
        *_parts(list(_stalls(sampled.instructions, exposure, pending)), exposure, 1 - busy),
        *overhead(sampled),
        *divergence(vector_issue_share(sampled, exposure), lanes),
    ]
    return Account(
        Source.PC_SAMPLES,
        tuple(sorted(losses, key=lambda part: (-(part.share or 0), part.cause, part.location or ""))),
        used,
        missing=() if exposure.basis == "arbiter" else (_NO_ARBITER,),
        notes=(*_places(sampled), *sampling.notes),
    )


def sampled_kernel(sampling: PcSampling, name: str | None) -> SampledKernel | None:
    """Return the samples of a kernel by its mangled or C++ name, with or without parameters; None if there are none."""
    if not sampling.kernels:
        return None
    if name is None:
        return sampling.kernels[0]
    wanted = name.removesuffix(".kd")
    exact = [one for one in sampling.kernels if one.name == wanted]
    short = without_parameters(demangle(wanted))
    alike = [one for one in sampling.kernels if one.name and without_parameters(demangle(one.name)) == short]
    unnamed = [one for one in sampling.kernels if not one.name] if len(sampling.kernels) == 1 else []
    return next(iter(exact or alike or unnamed), None)


def _stalls(instructions: Sequence[SampledInstruction], exposure: Exposure, pending: Mapping[int, Pending]) -> Iterable[_Stall]:
    for number, one in enumerate(instructions):
        for reason, samples in one.reasons.items():
            found = _cause(one, reason, pending.get(number))
            if found is None:
                continue
            cause, place, certainty = found
            yield _Stall(cause, reason, one, place, samples, exposure.exposed(one, reason), certainty)


def _cause(
    one: SampledInstruction, reason: StallReason, pending: Pending | None
) -> tuple[Cause, SampledInstruction, float] | None:
    """Return the cause of a stall, the instruction to change, and the certainty; None for busy units and unknown causes."""
    if one.mnemonic == "s_endpgm" and reason in (StallReason.WAITCNT, StallReason.OTHER_WAIT):
        return Cause.STORE_DRAIN, one, _ASSUMED
    if reason is StallReason.WAITCNT:
        if pending is None:
            return None
        return _CAUSE_OF_PENDING[pending.kind], pending.instruction or one, 1.0 if pending.is_certain else _ASSUMED
    if reason in (StallReason.ARBITER_WIN_EX_STALL, StallReason.ARBITER_NOT_WIN):
        kind = instruction_class(one.mnemonic)
        if kind == "vmem":
            return (Cause.REGISTER_SPILLS if one.mnemonic.startswith("scratch_") else Cause.MEMORY_BACKPRESSURE), one, 1.0
        return (Cause.SCALAR_LATENCY, one, _ASSUMED) if kind == "smem" else None
    cause = _CAUSE_OF_REASON.get(reason)
    return None if cause is None else (cause, one, 1.0)


def _parts(stalls: Sequence[_Stall], exposure: Exposure, idle_share: float) -> list[TimePart]:
    """Return the parts of each cause by line, the smaller lines of a cause as one.

    Args:
        stalls: Stalls with a cause.
        exposure: Relation of exposed samples to time.
        idle_share: Share of the time in which neither the matrix cores nor the vector ALU work: waiting behind them is no loss.
    """
    total = sum(stall.exposed for stall in stalls)
    scale = min(1.0, idle_share * exposure.samples / total) if total else 1.0
    groups: dict[Cause, dict[str | None, list[_Stall]]] = defaultdict(lambda: defaultdict(list))
    for stall in stalls:
        if stall.exposed * scale > 0:
            groups[stall.cause][location_of(stall.place)].append(stall)
    bound = total * scale / exposure.samples
    least = _LEAST_SHARE * exposure.samples
    parts = []
    for cause, lines in groups.items():
        order = sorted(lines.items(), key=lambda item: (-sum(stall.exposed for stall in item[1]), item[0] or ""))
        shown = [item for item in order[:_LINES_PER_CAUSE] if sum(one.exposed for one in item[1]) >= least] or order[:1]
        for location, own in shown:
            parts.append(_part(cause, location, own, exposure, scale, bound))
        if rest := [stall for _, own in order[len(shown) :] for stall in own]:
            parts.append(_part(cause, None, rest, exposure, scale, bound))
    return parts


def _part(
    cause: Cause, location: str | None, stalls: Sequence[_Stall], exposure: Exposure, scale: float, bound: float
) -> TimePart:
    exposed = sum(stall.exposed for stall in stalls)
    share = exposed * scale / exposure.samples
    samples = sum(stall.samples for stall in stalls)
    low, high = interval(samples, exposure.samples)
    width = (high - low) / 2 / max(samples / exposure.samples, 1e-9)
    certainty = sum(stall.certainty * stall.exposed for stall in stalls) / exposed
    confidence = _TRUST[exposure.basis] * certainty * min(1.0, _TOLERATED_WIDTH / max(width, 1e-9))
    main = max(stalls, key=lambda stall: (stall.exposed, stall.victim.text))
    waits = f" ({main.victim.text})" if main.victim.text else ""
    text = (
        f"{samples:,} of {exposure.samples:,} PC samples ({samples / exposure.samples:.1%}, 95 % interval {low:.1%} to "
        f"{high:.1%}) "
        f"{_WORDS.get(main.reason, 'are stalled')}{waits}; {_exposed_words(exposure, share)}"
    )
    suggestion = _SLEEP if main.reason is StallReason.SLEEP_WAIT else None
    gain = min(max(bound, share), max(share, share * exposure.waves_per_simd))
    return TimePart(cause, share, gain, confidence, (Evidence(Source.PC_SAMPLES, text),), suggestion, location)


def _exposed_words(exposure: Exposure, share: float) -> str:
    if exposure.basis == "arbiter":
        return f"in {share:.1%} of all samples no wavefront of the SIMD issued meanwhile"
    waves = f"{exposure.waves_per_simd:.1f} wavefronts per SIMD"
    how = waves if exposure.basis == "wave counts" else f"at least {waves}, from lost arbitrations"
    return f"about {share:.1%} of the time exposed ({how})"


def _places(kernel: SampledKernel) -> tuple[str, ...]:
    """Return a note on the lines with most of the samples."""
    total = kernel.samples
    lines = list(samples_by_line(kernel).items())[:_NAMED_LINES]
    shown = "; ".join(f"{count / total:.1%} at {line}" for line, count in lines)
    return (f"{total:,} PC samples: {shown}",)


def _as_sampled(row: InstructionRow) -> SampledInstruction:
    return SampledInstruction(row.text, row.source, row.code_object, row.address, 0)


def _pending_in_trace(instructions: Sequence[SampledInstruction], traced: ThreadTrace | None) -> dict[int, Pending]:
    """Return the main cause of each wait in a thread trace of the same code."""
    longest: dict[tuple[int | str, str], InstructionRow] = {}
    for charge in traced.charges if traced else ():  # by descending cycles
        longest.setdefault((charge.victim.address, charge.victim.text), charge.cause)
        longest.setdefault((charge.victim.source, charge.victim.text), charge.cause)
    found = {}
    for number, one in enumerate(instructions):
        cause = longest.get((one.source if one.address is None else one.address, one.text))
        if cause is not None and instruction_class(one.mnemonic) == "waitcnt":
            instruction = _as_sampled(cause)
            if (kind := operation_kind(instruction)) is not None:
                found[number] = Pending(kind, instruction, True)
    return found


def _traced_parts(kernel: SampledKernel, traced: ThreadTrace | None) -> list[TimePart]:
    """Return causes from a thread trace, weighted by the samples of each line of the whole grid.

    For lines in both, samples are divided like the cycles in the trace: hidden time, charged waits, rest.
    """
    if traced is None:
        return []
    lines = {line.source: line for line in traced.lines if line.spent.cycles}
    sampled: dict[str, int] = defaultdict(int)
    for one in kernel.instructions:
        sampled[one.source.partition(INLINED)[0]] += one.samples
    known = sum(count for source, count in sampled.items() if source in lines)
    losses: dict[Cause, dict[str | None, float]] = defaultdict(lambda: defaultdict(float))
    for charge in traced.charges:
        line = lines.get(charge.victim.source_line)
        kind = operation_kind(_as_sampled(charge.cause))
        if line is None or kind is None or charge.victim.source_line not in sampled:
            continue
        exposed = 1 - line.hidden_cycles / line.spent.cycles
        share = sampled[charge.victim.source_line] / kernel.samples * charge.cycles / line.spent.cycles * exposed
        losses[_CAUSE_OF_PENDING[kind]][location_of(_as_sampled(charge.cause))] += share
    text = f"{known:,} of {kernel.samples:,} host-trap PC samples are on lines of the thread trace, whose waits they weight"
    evidence = (Evidence(Source.PC_SAMPLES, text),)
    trust = _JOINED * known / kernel.samples
    return [
        TimePart(cause, share, share, trust, evidence, None, location)
        for cause, places in sorted(losses.items())
        for location, share in sorted(places.items(), key=lambda item: (-item[1], item[0] or ""))[:_LINES_PER_CAUSE]
        if share > 0
    ]
