"""Exposed waiting of sampled wavefronts: the part of each stall that no other wavefront of the SIMD hides.

It is known exactly from the state of the arbiter in the sampled cycle. Without it, wavefronts are assumed to issue independently
of each other: of W wavefronts on a SIMD, each of which issues in a share q of its time, the others are idle in (1 - q) ** (W - 1)
of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.rocprof.pc_samples import SIMDS_PER_COMPUTE_UNIT, StallReason

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.pc_samples import SampledInstruction, SampledKernel

Basis = Literal["arbiter", "wave counts", "contention"]
"""Basis of the exposed part: measured, derived from sampled numbers of wavefronts, or only from lost arbitrations."""

_MOST_WAVES = 16.0
_BISECTIONS = 50
_BUSY = (StallReason.ARBITER_NOT_WIN,)
"""Another wavefront issued instead: no time is lost."""


@dataclass(frozen=True)
class Exposure:
    """Exposed part of the stalls of a kernel."""

    basis: Basis
    samples: int
    """Samples to which exposed samples relate."""
    waves_per_simd: float
    """Wavefronts that share a SIMD; a lower bound if the basis is contention."""
    factor: float
    """Exposed part of a stall; for the basis arbiter only a mean."""

    def exposed(self, one: SampledInstruction, reason: StallReason) -> float:
        """Return the exposed samples of one instruction and reason."""
        if self.basis == "arbiter":
            return float((one.exposed or {}).get(reason, 0))
        return 0.0 if reason in _BUSY else one.reasons.get(reason, 0) * self.factor


def exposure_of(kernel: SampledKernel) -> Exposure | None:
    """Return the exposed part of stalls; None if the samples do not distinguish stalls from issues."""
    samples = sum(one.issued + one.stalled for one in kernel.instructions)
    if not samples or not any(one.reasons for one in kernel.instructions):
        return None
    stalled = sum(one.stalled for one in kernel.instructions)
    if kernel.arbiter is not None:
        idle = sum(sum((one.exposed or {}).values()) for one in kernel.instructions)
        factor = idle / stalled if stalled else 1.0
        return Exposure("arbiter", kernel.arbiter.samples, _mean_waves(kernel) or 1.0, factor)
    issuing = sum(one.issued for one in kernel.instructions) / samples
    if kernel.wave_counts:
        counted = sum(kernel.wave_counts.values())
        others = sum(n * (1 - issuing) ** max(waves / SIMDS_PER_COMPUTE_UNIT - 1, 0) for waves, n in kernel.wave_counts.items())
        return Exposure("wave counts", samples, _mean_waves(kernel) or 1.0, others / counted)
    waves = _contending(kernel, samples)
    return Exposure("contention", samples, waves, (1 - issuing) ** (waves - 1))


def _mean_waves(kernel: SampledKernel) -> float | None:
    counted = sum(kernel.wave_counts.values())
    if not counted:
        return None
    total = sum(waves * number for waves, number in kernel.wave_counts.items())
    return max(total / counted / SIMDS_PER_COMPUTE_UNIT, 1.0)


def _contending(kernel: SampledKernel, samples: int) -> float:
    """Return the number of wavefronts per SIMD, estimated from lost arbitrations.

    If each of W wavefronts is ready in a share r of its time, one of those that are ready wins: a ready wavefront wins with
    probability (1 - (1 - r) ** W) / (W * r). Wavefronts that need different pipes do not compete, so W is a lower bound.
    """
    issued = sum(one.issued for one in kernel.instructions)
    lost = sum(one.reasons.get(StallReason.ARBITER_NOT_WIN, 0) for one in kernel.instructions)
    ready = (issued + lost) / samples
    if not lost or not issued or ready >= 1:
        return 1.0
    wins = issued / (issued + lost)

    def excess(waves: float) -> float:
        return float((1 - (1 - ready) ** waves) / (waves * ready) - wins)

    low, high = 1.0, _MOST_WAVES
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
