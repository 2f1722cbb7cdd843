"""Verdict of a ledger: the largest loss, "near the <roof> roof", or "not decidable", with a calibrated confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.ledger import Loss, Roof

UNDECIDED = "not decidable from this recording"
_NEAR = 0.75
"""Utilisation from which a kernel is near its roof whatever its losses are."""
_RATHER_NEAR = 0.6
"""The same if the largest loss is less than half of the time at the roof."""
_SMALL_LAUNCH = 1.4
"""Launch overhead below half of the time is the verdict only if it exceeds the next loss by this factor: all kernels have it."""
_MOST_OF_IT = 0.45
_LEAST_LOSS = 0.1
_MOST_CONFIDENCE = 0.97


@dataclass(frozen=True)
class Verdict:
    """First line of a ledger and the probability that it is right."""

    verdict: str
    confidence: float


def near(roof: Roof) -> str:
    """Return the verdict on a kernel near its roof."""
    return f"near the {roof.name} roof"


def judge(roof: Roof | None, losses: Sequence[Loss], unexplained: float, *, has_evidence: bool) -> Verdict:
    """Return the verdict.

    Args:
        roof: Binding roof; None if no unit was measured.
        losses: Losses, largest first.
        unexplained: Share of the duration without a cause.
        has_evidence: False if only static facts are known.
    """
    losses = _ranked(losses)
    used = roof.utilisation if roof else 0.0
    largest = losses[0].share if losses else 0.0
    if roof is not None and (used >= _NEAR or (used >= _RATHER_NEAR and used >= 2 * largest)):
        second = max(largest, unexplained)
        return Verdict(near(roof), min(_MOST_CONFIDENCE, 0.5 + 0.6 * max(0.0, used - second)))
    if losses and largest >= max(_LEAST_LOSS, unexplained) and (has_evidence or losses[0].confidence >= _NEAR):
        return Verdict(str(losses[0].cause), _of_loss(losses, used, unexplained))
    return Verdict(UNDECIDED, 0.0)


def _ranked(losses: Sequence[Loss]) -> list[Loss]:
    """Return the losses by amount, but launch overhead behind others of about its size."""
    order = list(losses)
    is_launch = len(order) > 1 and order[0].cause == Cause.LAUNCH_OVERHEAD and order[0].share < _MOST_OF_IT
    if is_launch and order[0].share < _SMALL_LAUNCH * order[1].share:
        order[0], order[1] = order[1], order[0]
    return order


def _of_loss(losses: Sequence[Loss], used: float, unexplained: float) -> float:
    """Return the confidence in the largest loss: its own, reduced by rivals that are nearly as large."""
    first = losses[0]
    rival = max([unexplained, used, *(loss.share for loss in losses[1:2])])
    margin = max(0.0, 1 - rival / first.share)
    return min(_MOST_CONFIDENCE, first.confidence * (0.55 + 0.45 * min(1.0, 1.5 * margin)) + 0.1 * margin)
