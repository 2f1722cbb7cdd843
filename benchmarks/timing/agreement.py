"""Agreement of emulated with measured values: rank correlation, geometric mean and spread of their ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

if TYPE_CHECKING:
    from collections.abc import Sequence

FACTOR = 1.3
"""Factor within which an emulated value counts as accurate."""
_FEWEST_FOR_A_RANK = 4


@dataclass(frozen=True)
class Outcome:
    """One case after its run.

    Args:
        case: Identifier `family/series/variant`.
        family: Name of the family.
        measured: Published value in `unit`.
        emulated: Emulated value in `unit`.
        unit: Unit of both.
        slower: Ratio of emulated to measured time; for a rate it is measured / emulated.
        held_out: Whether the case belongs to the held-out part.
        source: Source and row of the published value.
        trust: A to C.
        commit: Commit of the emulator.
        seconds: Wall-clock time of the emulation.
    """

    case: str
    family: str
    measured: float
    emulated: float
    unit: str
    slower: float
    held_out: bool
    source: str
    trust: str
    commit: str
    seconds: float


@dataclass(frozen=True)
class Agreement:
    """Statistics of several outcomes; ratios are emulated / measured time.

    `spearman` is None for fewer than four cases or equal measurements.
    """

    cases: int
    spearman: float | None
    mean: float
    p10: float
    p90: float
    within: float


def agreement(outcomes: Sequence[Outcome]) -> Agreement:
    """Return the statistics of at least one outcome; ranks are those of the values in one unit."""
    ratios = np.array([outcome.slower for outcome in outcomes])
    p10, p90 = np.percentile(ratios, [10, 90])
    within = np.mean((ratios <= FACTOR) & (ratios >= 1 / FACTOR))
    mean = float(np.exp(np.log(ratios).mean()))
    return Agreement(len(outcomes), rank_correlation(outcomes), mean, float(p10), float(p90), float(within))


def rank_correlation(outcomes: Sequence[Outcome]) -> float | None:
    """Return Spearman's rank correlation of emulated and measured values."""
    measured = [outcome.measured for outcome in outcomes]
    emulated = [outcome.emulated for outcome in outcomes]
    if len(outcomes) < _FEWEST_FOR_A_RANK or len(set(measured)) == 1:
        return None
    return 0.0 if len(set(emulated)) == 1 else float(spearmanr(measured, emulated).statistic)
