"""Measures of application kernels: matrix products, normalisation, reductions and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.timing.gemm_measures import GEMM_MEASURES
from benchmarks.timing.movement_measures import MOVEMENT_MEASURES
from benchmarks.timing.row_measures import ROW_MEASURES

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing.emulation import Emulation
    from benchmarks.timing.published import Parameters

APPLICATION_MEASURES: dict[str, Callable[[Emulation, Parameters], float]] = {
    **GEMM_MEASURES,
    **MOVEMENT_MEASURES,
    **ROW_MEASURES,
}
