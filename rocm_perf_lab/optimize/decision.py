"""Decision about one rewrite: by its time, or by exact counters if emulated times are indistinguishable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.counter_rule import decide_by_counters
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.bench import MeasuredSource
    from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison


@dataclass(frozen=True)
class Decision:
    """Decision about a rewrite, with its reason; `by_counters` if exact counters decided."""

    accepted: bool
    reason: str
    by_counters: bool = False


def decide(
    comparison: PairedComparison, rule: AcceptanceRule, old: MeasuredSource, new: MeasuredSource, *, use_counters: bool
) -> Decision:
    """Return the decision about a rewrite.

    Args:
        comparison: Comparison of both times.
        rule: Acceptance rule.
        old: Best source so far.
        new: The rewrite.
        use_counters: Whether exact counters decide between indistinguishable emulated times; without times, they always decide.
    """
    if not old.runtime_ns and not new.runtime_ns:
        counted = decide_by_counters(old.counts, new.counts, old_ns=0.0, new_ns=0.0)
        return Decision(counted.accepted, f"{NO_EMULATED_TIME}; {counted.reason}", by_counters=counted.accepted)
    reason = measured_reason(comparison, rule)
    if rule.accepts(comparison):
        return Decision(True, reason)
    if not (use_counters and comparison.is_indistinguishable):
        return Decision(False, reason)
    counted = decide_by_counters(old.counts, new.counts, old_ns=old.runtime_ns, new_ns=new.runtime_ns)
    if counted.accepted:
        return Decision(True, f"indistinguishable in time{_spread(comparison)}; {counted.reason}", by_counters=True)
    return Decision(False, f"{reason}; {counted.reason}")


def measured_reason(comparison: PairedComparison, acceptance: AcceptanceRule) -> str:
    """Return the reason why a measured rewrite was accepted or not, with the confidence interval, if known."""
    gain, bar = comparison.improvement, acceptance.min_improvement
    spread = _spread(comparison)
    if acceptance.accepts(comparison):
        return f"{gain:.1%} less time{spread}"
    if comparison.is_indistinguishable:
        change = f"{gain:.1%} less" if gain > 0 else f"{-gain:.1%} more" if gain < 0 else "the same"
        return f"indistinguishable on the emulator: {change} time{spread}"
    if gain > 0 and gain >= bar:
        return f"{gain:.1%} less time, but not significant{spread}{_power(comparison)}"
    if gain > 0:
        shown = f"{gain:.1%}" if f"{gain:.1%}" != f"{bar:.1%}" else f"{gain:.3%}"
        return f"only {shown} less time, {bar:.1%} required{spread}"
    return f"{-gain:.1%} more time{spread}" if gain < 0 else f"the same time{spread}"


def reason_of_winner(winner: PairedComparison | None, winner_id: str, *, times_ns: tuple[float, float]) -> str:
    """Return the reason why another accepted proposal of a round is preferred.

    Args:
        winner: Comparison of the preferred proposal.
        winner_id: Id of the preferred proposal.
        times_ns: Time of the preferred proposal, and that of the other one, in ns.
    """
    preferred, other = times_ns
    if winner is not None and winner.band is not None and other <= winner.band * preferred:
        return f"indistinguishable on the emulator from proposal {winner_id}, whose emulated time is not longer"
    return f"proposal {winner_id} is faster"


def _power(comparison: PairedComparison) -> str:
    if comparison.smallest_gain is None or comparison.planned_pairs is None:
        return ""
    return f"; gains above {comparison.smallest_gain:.1%} are found with 80% power at {comparison.planned_pairs} pairs"


def _spread(comparison: PairedComparison) -> str:
    return "" if comparison.is_exact else f" ({_interval(comparison)})"


def _interval(comparison: PairedComparison) -> str:
    low, high = comparison.speedup_interval
    if comparison.band is not None:
        return f"speed-up {low:.3f} to {high:.3f} at {comparison.confidence:.0%} confidence, error band of the emulator"
    return f"speed-up {low:.3f} to {high:.3f} at {comparison.confidence:.0%} confidence, {comparison.pairs} pairs"
