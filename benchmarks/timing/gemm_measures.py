"""Measures of matrix products."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing.emulation import Emulation, output, scalar, source_buffer
from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.timing.published import Parameters
    from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue

DEFINES = ("READ", "STORE", "LOAD", "PER_PHASE", "INTERLEAVE", "BARRIERS", "GROUP_M", "BF16", "BUFFER_LOADS")
TILE = 256
STEP = 64
SHORT = (6, 12)


def gemm_256(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of a product in tiles of 256 x 256."""
    return gemm_256_clocks(emulation, parameters) / emulation.clock_ghz / 1000


def gemm_256_clocks(emulation: Emulation, parameters: Parameters) -> float:
    """Return the clocks of a product in tiles of 256 x 256, extrapolated along k from products of 6 and 12 steps."""
    steps = int(parameters["k"]) // STEP
    short, long = _short_runs(emulation, parameters)
    return long + (long - short) / (SHORT[1] - SHORT[0]) * (steps - SHORT[1])


def gemm_256_step(emulation: Emulation, parameters: Parameters) -> float:
    """Return the clocks of a step of 64 of k: 256 matrix instructions per wavefront."""
    short, long = _short_runs(emulation, parameters)
    return (long - short) / (SHORT[1] - SHORT[0])


def _short_runs(emulation: Emulation, parameters: Parameters) -> tuple[float, float]:
    structure = {name: value for name, value in parameters.items() if name != "k"}
    clock_mhz = emulation.target.max_clock_mhz
    return _gemm_256_clocks(clock_mhz, SHORT[0], **structure), _gemm_256_clocks(clock_mhz, SHORT[1], **structure)


@lru_cache(maxsize=64)
def _gemm_256_clocks(clock_mhz: int, steps: int, **parameters: float | str) -> float:
    """Return the clocks of a product of `steps` steps; families share the runs."""
    m, n, k = int(parameters["m"]), int(parameters["n"]), steps * STEP
    dtype = "u2" if parameters.get("BF16") else "f2"
    defines: dict[str, Any] = {name: parameters[name] for name in DEFINES if name in parameters}
    arguments: tuple[BufferValue | ScalarValue, ...] = (
        source_buffer("a", np.zeros(m * k, dtype)),
        source_buffer("b", np.zeros(n * k, dtype)),
        output("c", m * n, dtype),
        *(scalar(name, value, "i4") for name, value in (("m", m), ("n", n), ("k", k))),
    )
    emulation = Emulation(clock_mhz=clock_mhz)
    grid = (m // TILE * (n // TILE), 1, 1)
    launch = emulation.launch("gemm_256.hip", "gemm_256", grid, (256, 1, 1), arguments, **defines)
    return emulation.nanoseconds(launch) * emulation.clock_ghz


def gemm_variant(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of a kernel of gemm_f32.hip or gemm_f16.hip.

    With `run_k` below `k`, the time is extrapolated from products with run_k and run_k / 2. The leading dimensions are those of
    the complete product, so that addresses have the same strides.
    """
    k, run_k = int(parameters["k"]), int(parameters.get("run_k", parameters["k"]))
    microseconds = emulation.nanoseconds(_variant(emulation, parameters, run_k)) / 1000
    if run_k == k:
        return microseconds
    shorter = emulation.nanoseconds(_variant(emulation, parameters, run_k // 2)) / 1000
    return microseconds + (microseconds - shorter) / (run_k - run_k // 2) * (k - run_k)


def _variant(emulation: Emulation, parameters: Parameters, k: int) -> Launch:
    source, kernel = str(parameters["file"]), str(parameters["kernel"])
    m, n, full_k, batch = (int(parameters.get(name, 1)) for name in ("m", "n", "k", "batch"))
    b_rows, b_columns = (n, full_k) if parameters.get("b_transposed") else (full_k, n)
    dtype = "f4" if source == "gemm_f32.hip" else "f2"
    block_x, block_y = int(parameters["block_x"]), int(parameters.get("block_y", 1))
    columns, rows = int(parameters["tile_n"]), int(parameters["tile_m"])
    arguments: tuple[BufferValue, ...] = (
        source_buffer("a", np.zeros(batch * m * full_k, dtype)),
        source_buffer("b", np.zeros(batch * b_rows * b_columns, dtype)),
        output("c", batch * m * n, dtype),
    )
    scalars = tuple(scalar(name, value, "i4") for name, value in (("k", k), ("lda", full_k), ("ldb", b_columns), ("ldc", n)))
    defines: dict[str, Any] = {name: parameters[name] for name in ("XCDS",) if name in parameters}
    grid = (n // columns, m // rows, batch)
    return emulation.launch(source, kernel, grid, (block_x, block_y, 1), (*arguments, *scalars), **defines)


def gemm_triton(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of the Triton product in `experiments/gemm_triton`; see :func:`gemm_variant` for `run_k`."""
    directory: Path = resource_dir("experiments") / "gemm_triton"
    arguments = {name: value for name, value in parameters.items() if name != "run_k"}
    k, run_k = int(parameters["k"]), int(parameters.get("run_k", parameters["k"]))
    microseconds = emulation.nanoseconds(emulation.described(directory, **arguments | {"k": run_k})) / 1000
    if run_k == k:
        return microseconds
    shorter = emulation.nanoseconds(emulation.described(directory, **arguments | {"k": run_k // 2})) / 1000
    return microseconds + (microseconds - shorter) / (run_k - run_k // 2) * (k - run_k)


GEMM_MEASURES: dict[str, Callable[[Emulation, Parameters], float]] = {
    "gemm_256": gemm_256,
    "gemm_256_clocks": gemm_256_clocks,
    "gemm_256_step": gemm_256_step,
    "gemm_variant": gemm_variant,
    "gemm_triton": gemm_triton,
}
