"""Times that are none: what a profiler writes of dispatches that it could not time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]


def never_timed(count: int) -> str:
    """A note on dispatches without times."""
    return f"{count} dispatches were never timed and were left out"


def timed(start_ns: Integers, end_ns: Integers) -> NDArray[np.bool_]:
    """Which rows have times. Where none has, all are kept: then the run was never timed, and its order means nothing.

    A dispatch from 0 to 0 among others would lie ages before them, and the run would seem to wait all that time.
    """
    has_times: NDArray[np.bool_] = (start_ns != 0) | (end_ns != 0)
    return has_times if has_times.any() else np.ones(len(start_ns), bool)
