"""Kernel symbols of a trace: the same symbol has a row per process, agent and code object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import TracedKernel


def symbol_of_kernels(kernels: Sequence[TracedKernel]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The mangled names, each once, and for each kernel of the trace which it is."""
    number: dict[str, int] = {}
    numbers = [number.setdefault(kernel.mangled_name, len(number)) for kernel in kernels]
    return tuple(number), np.array(numbers, np.int64)
