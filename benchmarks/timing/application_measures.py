"""Measures of application kernels: matrix products, normalisation, reductions and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing.emulation import Emulation
    from benchmarks.timing.published import Parameters

APPLICATION_MEASURES: dict[str, Callable[[Emulation, Parameters], float]] = {}
