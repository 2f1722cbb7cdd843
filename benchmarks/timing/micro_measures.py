"""Measures of micro-benchmarks: latency and bandwidth by level, vector and matrix rates, LDS strides.

The kernels are in `benchmarks/kernels/timing/micro.hip` and follow the structure that the sources describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing.emulation import output, scalar, source_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing.emulation import Emulation
    from benchmarks.timing.published import Parameters
    from rocm_perf_lab.device.protocol import Launch

SOURCE = "micro.hip"
LINE_BYTES = 128


def pointer_chase(emulation: Emulation, parameters: Parameters) -> float:
    """Return the clocks per dependent load on a random cycle through every line of a buffer."""
    lines = int(parameters["bytes"]) // LINE_BYTES
    ring = _ring(lines)
    steps = min(lines, 20_000)
    warm = lines if lines * LINE_BYTES < int(parameters.get("not_traversed_bytes", 1 << 29)) else 0

    def launch(more: int) -> Launch:
        arguments = (source_buffer("next", ring), output("out", 64, "u4"), scalar("steps", more, "i4"))
        return emulation.launch(SOURCE, "pointer_chase", (1, 1, 1), (64, 1, 1), arguments)

    return emulation.cycles_per_step(launch, warm + steps, warm + 2 * steps)


def _ring(lines: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return dword indices: the first dword of each line holds the index of the next line, in random order."""
    order = np.random.default_rng(1).permutation(lines).astype(np.uint32)
    ring = np.zeros(lines * (LINE_BYTES // 4), np.uint32)
    ring[order * (LINE_BYTES // 4)] = np.roll(order, -1) * (LINE_BYTES // 4)
    return ring


MICRO_MEASURES: dict[str, Callable[[Emulation, Parameters], float]] = {"pointer_chase": pointer_chase}
