"""Recorded facts that explain a change of a kernel's time between runs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CYCLES = "GRBM_GUI_ACTIVE"
_FOLLOWS_TIME = re.compile(r"CYCLES|BUSY|ACTIVE|WAIT|LEVEL|STALL|GRBM|TIME|UTIL|OCCUPANCY|_PENDING|CLOCK", re.IGNORECASE)
_MIN_CHANGE = 0.02
_NOISE_FACTOR = 3.0
_MOST_COUNTERS = 4


@dataclass(frozen=True)
class RunFacts:
    """Facts about one kernel in one run."""

    gpu: str = ""
    command: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Registers, LDS and scratch by name."""
    code_object: str = ""
    counters: Mapping[str, float] = field(default_factory=dict)
    """Mean counters of a dispatch."""
    counted: bool = False
    """Whether counters were collected in the timed run, which slows down dispatches."""


@dataclass(frozen=True)
class ChangeReasons:
    """Sentences about a change; `explained` if a recorded difference can cause it."""

    explained: bool
    texts: tuple[str, ...]


def explain(before: Sequence[RunFacts], after: Sequence[RunFacts], ratio: float) -> ChangeReasons:
    """Return the recorded differences between the runs before and after a change.

    Args:
        before: Facts of the runs of the segment before the change, in order.
        after: Facts of the runs of the segment after it.
        ratio: Time after over time before.
    """
    old, new = before[-1], after[0]
    texts = [
        f"{name}: {one or 'unknown'} -> {other or 'unknown'}"
        for name, one, other in (("GPU", old.gpu, new.gpu), ("command", old.command, new.command))
        if one != other and one and other
    ]
    if old.counted != new.counted:
        texts.append(f"counters were collected {'after' if new.counted else 'before'} the change only, which delays dispatches")
    texts += [
        f"{name} {old.sizes.get(name, 0)} -> {size}" for name, size in new.sizes.items() if old.sizes.get(name, size) != size
    ]
    if old.code_object != new.code_object and old.code_object and new.code_object:
        texts.append(f"code object: {old.code_object} -> {new.code_object}")
    texts += _counters(before, after)
    if texts:
        return ChangeReasons(True, tuple(texts))
    return _unexplained(before, after, ratio)


def _counters(before: Sequence[RunFacts], after: Sequence[RunFacts]) -> list[str]:
    """Return the counters of work that changed most, beyond their variation within the segments."""
    changed = []
    names = {name for facts in before for name in facts.counters} & {name for facts in after for name in facts.counters}
    for name in sorted(names):
        if _FOLLOWS_TIME.search(name):
            continue
        old = [facts.counters[name] for facts in before if name in facts.counters]
        new = [facts.counters[name] for facts in after if name in facts.counters]
        one, other = fmean(old), fmean(new)
        scale = max(abs(one), abs(other))
        spread = max(max(values) - min(values) for values in (old, new))
        if scale and abs(other - one) > max(_MIN_CHANGE * scale, _NOISE_FACTOR * spread):
            changed.append((abs(other - one) / scale, name, f"{name} {_number(one)} -> {_number(other)}{_relative(one, other)}"))
    changed.sort(key=lambda row: (-row[0], row[1]))
    more = [f"and {len(changed) - _MOST_COUNTERS} more counters"] if len(changed) > _MOST_COUNTERS else []
    return [text for _, _, text in changed[:_MOST_COUNTERS]] + more


def _unexplained(before: Sequence[RunFacts], after: Sequence[RunFacts], ratio: float) -> ChangeReasons:
    cycles = [[facts.counters[_CYCLES] for facts in side if facts.counters.get(_CYCLES)] for side in (before, after)]
    if all(cycles):
        old, new = fmean(cycles[0]), fmean(cycles[1])
        if abs(math.log(new / old)) < abs(math.log(ratio)) / 3:
            return ChangeReasons(True, (f"the cycles are unchanged ({_number(old)} -> {_number(new)}): the clock changed",))
        cycles_too = f"the cycles changed too ({_number(old)} -> {_number(new)}), so not the clock alone"
        return ChangeReasons(False, (f"no recorded difference explains it; {cycles_too}",))
    known = bool(before[-1].code_object and after[0].code_object)
    equal = "registers, LDS, scratch and code object" if known else "registers, LDS and scratch"
    text = f"no recorded difference explains it: {equal} are equal"
    compared = any(facts.counters for facts in before) and any(facts.counters for facts in after)
    counters = ", and so are the counters of work" if compared else "; counters were not collected"
    return ChangeReasons(False, (f"{text}{counters}; the clock is one possibility",))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


def _relative(one: float, other: float) -> str:
    return f" ({other / one - 1:+.0%})" if one else ""
