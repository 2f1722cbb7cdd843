"""Configurations discarded before the first measurement, with their number, reasons and examples."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.autotune.objective import Infeasible
    from rocm_perf_lab.autotune.spaces.space import Configuration


@dataclass(frozen=True)
class Discarded:
    """Configurations excluded from a search, by row of the whole space."""

    reasons: Mapping[int, Infeasible] = field(default_factory=dict)
    configurations: Mapping[int, Configuration] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of discarded configurations."""
        return len(self.reasons)

    def as_json(self) -> list[dict[str, Any]]:
        """Return one row per kind of reason (ignoring numbers in it), the most frequent first."""
        kinds = {row: (found.stage, re.sub(r"\d+", "#", found.reason)) for row, found in self.reasons.items()}
        rows = []
        for kind, count in Counter(kinds.values()).most_common():
            example = next(row for row, other in kinds.items() if other == kind)
            found = self.reasons[example]
            rows.append(
                {
                    "configurations": count,
                    "stage": found.stage,
                    "reason": found.reason,
                    "example": self.configurations[example],
                }
            )
        return rows
