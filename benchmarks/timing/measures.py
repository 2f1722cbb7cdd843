"""Functions that run a published kernel on the emulator and convert its time: `MEASURES[name](emulation, parameters)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.timing.application_measures import APPLICATION_MEASURES
from benchmarks.timing.micro_measures import MICRO_MEASURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.timing.emulation import Emulation
    from benchmarks.timing.published import Parameters

    Measure = Callable[[Emulation, Parameters], float]

MEASURES: Mapping[str, Measure] = {**MICRO_MEASURES, **APPLICATION_MEASURES}
"""A measure returns the emulated value in the unit of the family."""
