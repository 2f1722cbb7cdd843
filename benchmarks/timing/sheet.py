"""Constants of public MI300X thread traces against the model: `constants() -> list of Constant`.

A constant has the range that the traces show (10th to 90th percentile) and a probe that reads the same quantity from the
emulator's thread trace. The ranges are of 35 dispatches on MI300X and one on MI325X; the clock is the shader clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.timing.sheet_issue import ISSUE
from benchmarks.timing.sheet_memory import MEMORY
from benchmarks.timing.sheet_waves import WAVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.timing.sheet_row import Constant

SHEET_COLUMNS = ("constant", "traces", "confidence", "model", "within")


@dataclass(frozen=True)
class Comparison:
    """A constant with the value of the model."""

    name: str
    low: float
    high: float
    unit: str
    confidence: str
    model: float

    @property
    def within(self) -> bool:
        """Return whether the model is in the range of the traces."""
        return self.low <= self.model <= self.high

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of the printed row."""
        stated = f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"
        return self.name, f"{stated} {self.unit}", self.confidence, f"{self.model:.4g}", "yes" if self.within else "no"


def constants() -> tuple[Constant, ...]:
    """Return all constants in the order of the traces' sheet."""
    return (*ISSUE, *MEMORY, *WAVES)


def comparisons(containing: str = "") -> Iterator[Comparison]:
    """Measure the constants whose name contains a text."""
    for row in constants():
        if containing in row.name:
            yield Comparison(row.name, row.low, row.high, row.unit, row.confidence, row.measure())
