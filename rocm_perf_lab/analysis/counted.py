"""Counters of one kernel by name, over all passes: event counts may be combined, cycles only within one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.profiling.profile import Profile

_ACCUMULATORS = ("SQ_ACCUM_PREV_HIRES",)


@dataclass(frozen=True)
class CountedEvents:
    """Counters of every pass of a profile."""

    passes: tuple[Mapping[str, float], ...]
    emulated: bool

    @classmethod
    def of(cls, profile: Profile) -> CountedEvents:
        """Return the counters of a profile."""
        return cls(profile.counter_passes, profile.provenance.trace.emulated)

    def __bool__(self) -> bool:
        """Return True if any counter was collected."""
        return any(self.passes)

    def events(self, name: str) -> float | None:
        """Return an event count from any pass, under its name with or without `_sum`."""
        for one in self.passes:
            value = _value(one, name)
            if value is not None:
                return value
        return None

    def total(self, *names: str) -> tuple[float, tuple[str, ...]] | None:
        """Return the sum of event counts and the names that are missing, or None if all are missing."""
        values = {name: self.events(name) for name in names}
        found = [value for value in values.values() if value is not None]
        return (sum(found), tuple(name for name, value in values.items() if value is None)) if found else None

    def together(self, *names: str) -> tuple[float, ...] | None:
        """Return counters of the first pass that has all of them; None if no pass has."""
        for one in self.passes:
            values = [_value(one, name) for name in names]
            if all(value is not None for value in values):
                return tuple(value for value in values if value is not None)
        return None

    def level(self, name: str, count: str) -> tuple[float, float] | None:
        """Return the integral of a level counter (instructions x clocks) and the instructions counted beside it.

        The integral is `SQ_ACCUM_PREV_HIRES` of the same pass on a GPU, or `<name>_ACCUM`. The emulator stores it as `name`.

        Args:
            name: Level counter, for example SQ_INST_LEVEL_VMEM.
            count: Counter of the instructions or requests, for example SQ_INSTS_VMEM.
        """
        for one in self.passes:
            if name not in one:
                continue
            accumulated = next((one[other] for other in (f"{name}_ACCUM", *_ACCUMULATORS) if other in one), None)
            if accumulated is None and self.emulated:
                accumulated = one[name]
            counted = one.get(count, self.events(count))
            if accumulated is not None and counted:
                return accumulated, counted
        return None

    def imbalance(self, name: str) -> float | None:
        """Return the busiest instance of a counter relative to the mean one; None if it was not recorded per instance.

        Emulated channels are samples of a few lines: their imbalance is not significant.

        Args:
            name: Counter without a suffix, for example TCC_REQ.
        """
        pair = None if self.emulated else self.together(f"{name}_avr", f"{name}_max")
        return pair[1] / pair[0] if pair and pair[0] else None


def _value(counters: Mapping[str, float], name: str) -> float | None:
    short = name.removesuffix("_sum")
    return next((counters[key] for key in (name, short, f"{short}_sum") if key in counters), None)
