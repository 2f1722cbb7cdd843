"""Verdict of a ledger: the largest loss, "near the <roof> roof", or "not decidable", with a calibrated confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.ledger import Loss, Roof

UNDECIDED = "not decidable from this recording"
_NEAR = 0.75
"""Utilisation from which a kernel is near its roof, whatever its losses."""
_RATHER_NEAR = 0.6
"""The same if the largest loss is less than half of the time at the roof. The launch is excluded from the
comparison, because it is not work of the kernel."""
_NO_OTHER = 0.5
"""The same if the largest loss is less than a third of the time at the roof."""
_SMALL_LAUNCH = 1.4
"""Launch overhead, which all kernels have, is the verdict below `_MOST_OF_IT` only if it exceeds the next loss by this factor.
Above, it is the verdict unless the next loss exceeds it by this factor, because such a short kernel cannot get faster."""
_MOST_OF_IT = 0.4
_MOST_UNEXPLAINED = 0.5
_LEAST_LOSS = 0.1
_NEARLY_ALL = 0.9
"""Share of the time from which a loss is the verdict, whatever its evidence, because no other loss can be as large."""
_CLEAR_LOSS = 0.4
"""Share of the time from which a loss is clearly worth its removal."""
_MOST_CONFIDENCE = 0.97
_MOST_WITHOUT_LANES, _MOST_WITHOUT_CODE = 0.7, 0.78
_STATIC_FACTS = 0.6
"""Factor of the confidence if only the launch and the code are known, whose amounts assume that time scales with units."""
COMMUNICATION = "communication, whose time includes waiting for other processes"


@dataclass(frozen=True)
class LedgerVerdict:
    """First line of a ledger, and the probability that it is correct."""

    verdict: str
    confidence: float


def near(roof: Roof) -> str:
    """Return the verdict on a kernel near its roof."""
    return f"near the {roof.name} roof"


def judge(
    roof: Roof | None,
    losses: Sequence[Loss],
    unexplained: float,
    *,
    has_evidence: bool,
    saw_lanes: bool = True,
    saw_code: bool = True,
) -> LedgerVerdict:
    """Return the verdict.

    Args:
        roof: Binding roof; None if no unit was measured.
        losses: Losses, largest first.
        unexplained: Share of the duration without a cause.
        has_evidence: False if only static facts are known.
        saw_lanes: False if idle lanes are unknown: busy units may then do useless work.
        saw_code: False if the executed instructions are unknown: vector and scalar units may then compute addresses only.
    """
    losses = _ranked(losses)
    used = roof.utilisation if roof else 0.0
    largest = max((loss.share for loss in losses), default=0.0)
    if roof is not None and _is_near(used, losses):
        second = max(largest, unexplained)
        most = _MOST_CONFIDENCE if saw_lanes or roof.unit == HardwareUnit.MATRIX else _MOST_WITHOUT_LANES
        launch = sum(loss.share for loss in losses if loss.cause == Cause.LAUNCH_OVERHEAD)
        if used < _RATHER_NEAR * (1 - launch):
            most = _RATHER_NEAR
        if not saw_code and roof.unit in (HardwareUnit.VALU, HardwareUnit.SALU):
            most = min(most, _MOST_WITHOUT_CODE)
        return LedgerVerdict(near(roof), min(most, 0.5 + 0.6 * max(0.0, used - second)))
    is_known = has_evidence or bool(losses and (losses[0].confidence >= _NEAR or losses[0].share >= _NEARLY_ALL))
    if losses and largest >= _LEAST_LOSS and unexplained <= _MOST_UNEXPLAINED and is_known:
        sure = _of_loss(losses, used, unexplained)
        return LedgerVerdict(str(losses[0].cause), sure if has_evidence else sure * _STATIC_FACTS)
    return LedgerVerdict(UNDECIDED, 0.0)


def _is_near(used: float, losses: Sequence[Loss]) -> bool:
    """Return whether a kernel with this utilisation of its roof is near it."""
    launch = sum(loss.share for loss in losses if loss.cause == Cause.LAUNCH_OVERHEAD)
    most = max((loss.share for loss in losses if loss.cause != Cause.LAUNCH_OVERHEAD), default=0.0)
    if used >= _NEAR or used < _SMALL_LAUNCH * launch:
        return used >= _NEAR
    active = used / (1 - launch) if launch < 1 else 0.0
    return (active >= _RATHER_NEAR and used >= 2 * most) or (active >= _NO_OTHER and used >= 3 * most)


def _ranked(losses: Sequence[Loss]) -> list[Loss]:
    """Return the losses by amount; long launch overhead precedes losses of similar size, short launch overhead follows them."""
    order = list(losses)
    launch = next((loss for loss in losses if loss.cause == Cause.LAUNCH_OVERHEAD), None)
    if launch is None or len(order) == 1:
        return order
    order.remove(launch)
    factor = 1 / _SMALL_LAUNCH if launch.share >= _MOST_OF_IT else _SMALL_LAUNCH
    place = sum(loss.share * factor > launch.share for loss in order)
    return [*order[:place], launch, *order[place:]]


def _of_loss(losses: Sequence[Loss], used: float, unexplained: float) -> float:
    """Return the confidence in the first loss: its own, reduced by the next loss, unexplained time and a near roof."""
    first = losses[0]
    second = max((loss.share for loss in losses[1:]), default=0.0)
    margin = min(1.0, 2 * max(0.0, 1 - second / first.share))
    unknown = min(1.0, unexplained / first.share)
    near_roof = min(1.0, max(0.0, used - first.share) / _RATHER_NEAR)
    small = min(1.0, first.share / _CLEAR_LOSS)
    sure = first.confidence * (0.55 + 0.45 * margin) * (1 - 0.4 * unknown) * (1 - 0.4 * near_roof) * (0.7 + 0.3 * small)
    return min(_MOST_CONFIDENCE, sure + 0.12 * margin * small * (1 - unknown))
