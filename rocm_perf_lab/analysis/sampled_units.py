"""Use of hardware units and lanes, from the state of the arbiter and the issued instructions of PC samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Cause, Evidence, HardwareUnit, Source, TimePart, UnitUse
from rocm_perf_lab.analysis.sampled_places import interval, location_of
from rocm_perf_lab.rocprof.pc_samples import Pipe
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.sampled_exposure import Exposure
    from rocm_perf_lab.arch.model import Architecture
    from rocm_perf_lab.rocprof.pc_samples import SampledInstruction, SampledKernel

_ISSUE_CLOCKS = 4
"""Clocks between two turns of a SIMD's arbiter."""
_WAVE_LANES, _NARROW_WAVE_LANES, _FIRST_NARROW = 64, 32, 10
_NOTABLE_IDLE_LANES = 0.02
_MOST_PLAUSIBLE = 1.1
_MEASURED, _ESTIMATED, _UNKNOWN_AMOUNT = 0.85, 0.6, 0.4
"""Confidences."""


def units(kernel: SampledKernel, exposure: Exposure, architecture: Architecture | None) -> tuple[UnitUse, ...]:
    """Return the use of the units according to samples; shares are averages over the SIMDs with wavefronts."""
    found = [_matrix(kernel, exposure, architecture), _valu(kernel, exposure)]
    state = kernel.arbiter
    if state is not None:
        share = (state.progressed - state.overhead) / state.samples
        low, high = interval(state.progressed - state.overhead, state.samples)
        text = (
            f"the SIMD issued vector, matrix, LDS or memory instructions in {share:.1%} (95 % interval {low:.1%} to "
            f"{high:.1%}) of {state.samples:,} PC samples"
        )
        found.append(UnitUse(HardwareUnit.INSTRUCTION_ISSUE, share, Evidence(Source.PC_SAMPLES, text)))
    return tuple(unit for unit in found if unit is not None and unit.share > 0)


def _matrix(kernel: SampledKernel, exposure: Exposure, architecture: Architecture | None) -> UnitUse | None:
    own = [one for one in kernel.instructions if instruction_class(one.mnemonic) == "mfma"]
    issued = sum(one.issued for one in own)
    if not issued:
        return None
    clocks = [(architecture.matrix_clocks(one.text) if architecture else None) or 0 for one in own]
    known = all(clock for one, clock in zip(own, clocks, strict=True) if one.issued)
    mean = sum(one.issued * max(clock, _ISSUE_CLOCKS) for one, clock in zip(own, clocks, strict=True)) / issued
    state = kernel.arbiter
    issues = state.issued.get(Pipe.MATRIX, 0) / state.samples if state else exposure.waves_per_simd * issued / exposure.samples
    share = issues * mean / _ISSUE_CLOCKS
    text = f"matrix instructions issue in {issues:.1%} of a SIMD's turns and take {mean:.0f} clocks each (PC samples)"
    is_bound = not known or exposure.basis == "contention"
    return _use(HardwareUnit.MATRIX, share, text, is_bound=is_bound)


def _valu(kernel: SampledKernel, exposure: Exposure) -> UnitUse | None:
    state = kernel.arbiter
    if state is not None:
        share = state.issued.get(Pipe.VALU, 0) / state.samples
    else:
        issued = sum(one.issued for one in kernel.instructions if instruction_class(one.mnemonic) == "valu")
        share = exposure.waves_per_simd * issued / exposure.samples
    text = f"vector ALU instructions issue in {share:.1%} of a SIMD's turns (PC samples)"
    is_bound = exposure.basis == "contention"
    return _use(HardwareUnit.VALU, share, text, is_bound=is_bound)


def _use(unit: HardwareUnit, share: float, text: str, *, is_bound: bool) -> UnitUse:
    """Return the use of a unit; an estimate above the whole time is marked as unreliable."""
    evidence = Evidence(Source.PC_SAMPLES, text)
    return UnitUse(unit, min(share, 1.0), evidence, lower_bound=is_bound, reliable=share <= _MOST_PLAUSIBLE)


def vector_issue_share(kernel: SampledKernel, exposure: Exposure) -> float:
    """Return the share of the time in which a SIMD issues vector instructions."""
    state = kernel.arbiter
    if state is not None:
        return (state.progressed - state.overhead) / state.samples
    issued = sum(one.issued for one in kernel.instructions if instruction_class(one.mnemonic) in ("valu", "vmem", "lds"))
    return min(1.0, exposure.waves_per_simd * issued / exposure.samples)


def overhead(kernel: SampledKernel) -> list[TimePart]:
    """Return the loss by cycles in which a SIMD issued only scalar, branch or message instructions."""
    state = kernel.arbiter
    if state is None or not state.overhead:
        return []
    low, high = interval(state.overhead, state.samples)
    text = (
        f"in {state.overhead:,} of {state.samples:,} PC samples ({state.overhead / state.samples:.1%}, 95 % interval {low:.1%} "
        f"to {high:.1%}) the SIMD issued only scalar, branch or message instructions"
    )
    share = state.overhead / state.samples
    return [TimePart(Cause.INSTRUCTION_OVERHEAD, share, share, _MEASURED, (Evidence(Source.PC_SAMPLES, text),))]


@dataclass(frozen=True)
class LaneUse:
    """Use of the lanes by issued vector instructions."""

    width: int
    active: float
    is_constant: bool
    """Every instruction has the same number of active lanes: the wavefronts are partly empty, they do not diverge."""
    instruction: SampledInstruction
    """Instruction with the largest loss."""

    @property
    def idle(self) -> float:
        """Share of idle lanes."""
        return 1 - self.active / self.width


def lane_use(kernel: SampledKernel, gfxip: int | None) -> LaneUse | None:
    """Return the use of lanes, from issued samples of vector instructions, or from all if issues are unknown."""
    vector = [
        (one, one.active_lanes, one.issued or one.samples)
        for one in kernel.instructions
        if one.active_lanes is not None and one.samples and instruction_class(one.mnemonic) in ("valu", "vmem", "lds")
    ]
    if not vector:
        return None
    is_narrow = (gfxip or 0) >= _FIRST_NARROW and all(lanes <= _NARROW_WAVE_LANES for _, lanes, _ in vector)
    width = _NARROW_WAVE_LANES if is_narrow else _WAVE_LANES
    weight = sum(samples for _, _, samples in vector)
    active = sum(lanes * samples for _, lanes, samples in vector) / weight
    worst = max(vector, key=lambda item: ((width - item[1]) * item[2], item[0].text))[0]
    return LaneUse(width, active, len({lanes for _, lanes, _ in vector}) == 1, worst)


def divergence(busy: float | None, lanes: LaneUse | None) -> list[TimePart]:
    """Return the loss by inactive lanes in the share of the time in which vector instructions issue; None if unknown."""
    if lanes is None or lanes.idle < _NOTABLE_IDLE_LANES:
        return []
    text = f"vector instructions have {lanes.active:.1f} of {lanes.width} lanes active, over all PC samples"
    suggestion = (
        f"Make the workgroup a multiple of {lanes.width} work-items: every sampled instruction has {lanes.active:g} active lanes."
        if lanes.is_constant
        else None
    )
    share = None if busy is None else busy * lanes.idle
    trust = _ESTIMATED if share is not None else _UNKNOWN_AMOUNT
    evidence = (Evidence(Source.PC_SAMPLES, text),)
    return [TimePart(Cause.DIVERGENCE, share, share, trust, evidence, suggestion, location_of(lanes.instruction))]
