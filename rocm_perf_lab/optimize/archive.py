"""Archive of diverse sources: the fastest correct source of each niche."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.structure import distance, features_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.optimize.proposal import Verdict

_OCCUPANCY_STEPS = (2.0, 4.0, 8.0)
_LDS_STEPS = (1, 16 * 1024, 48 * 1024)
_NEIGHBOURS = 3


@dataclass(frozen=True)
class Niche:
    """Class of sources that compete with each other.

    Args:
        bottleneck: Largest loss of time; empty if unknown.
        occupancy: Number of steps (2, 4, 8 waves per SIMD) that the occupancy reaches.
        lds: Number of steps (some, 16 KiB, 48 KiB) that the LDS per workgroup reaches.
        structure: Features of the source.
    """

    bottleneck: str
    occupancy: int
    lds: int
    structure: tuple[str, ...]

    @classmethod
    def of(cls, verdict: Verdict) -> Niche:
        """Return the niche of an evaluated source."""
        waves = verdict.occupancy_waves or 0.0
        lds = verdict.kernel.lds_bytes if verdict.kernel is not None else 0
        return cls(
            verdict.profile.bottleneck if verdict.profile is not None else "",
            sum(waves >= step for step in _OCCUPANCY_STEPS),
            sum(lds >= step for step in _LDS_STEPS),
            features_of(verdict.proposal.text),
        )


@dataclass
class Archive:
    """The fastest source of each niche, at most `capacity`; the slowest niche is removed first."""

    capacity: int
    _elites: dict[Niche, Verdict] = field(default_factory=dict)

    @property
    def elites(self) -> tuple[Verdict, ...]:
        """Best source of each niche, the fastest first; of equal ones, the earlier first."""
        return tuple(sorted(self._elites.values(), key=_runtime))

    @property
    def niches(self) -> Mapping[Niche, Verdict]:
        """Best source by niche."""
        return self._elites

    def add(self, verdict: Verdict) -> bool:
        """Add a measured source if it is the fastest of its niche; return whether it was added."""
        niche = Niche.of(verdict)
        current = self._elites.get(niche)
        if current is not None and _runtime(current) <= _runtime(verdict) and not verdict.accepted:
            return False
        self._elites[niche] = verdict
        if len(self._elites) > self.capacity:
            slowest = max(reversed(self._elites), key=lambda key: _runtime(self._elites[key]))
            del self._elites[slowest]
            return slowest != niche
        return True

    def novelty(self, verdict: Verdict) -> float:
        """Return the mean distance of a source to its nearest neighbours in the archive, from 0 to 1."""
        others = [e for e in self._elites.values() if e.proposal.id != verdict.proposal.id]
        distances = sorted(distance(verdict.proposal.text, other.proposal.text) for other in others)[:_NEIGHBOURS]
        return fmean(distances) if distances else 1.0


def is_parent(verdict: Verdict) -> bool:
    """Return whether a source can be a parent: it is correct and was measured."""
    return verdict.runtime_ns is not None and (verdict.verification is None or verdict.verification.passed)


def _runtime(verdict: Verdict) -> float:
    return verdict.runtime_ns or 0.0


def speeds(verdicts: Sequence[Verdict]) -> list[float]:
    """Return the speed of each source relative to the fastest, from 0 to 1; 1 for all if times are unknown."""
    best = min((_runtime(v) for v in verdicts), default=0.0)
    return [best / _runtime(v) if _runtime(v) else 1.0 for v in verdicts]
