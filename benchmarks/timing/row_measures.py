"""Measures of row-wise kernels: RMSNorm and SwiGLU with FP8 results, rotary embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing.emulation import KERNELS, output, scalar, source_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.timing.emulation import Emulation
    from benchmarks.timing.published import Parameters
    from rocm_perf_lab.device.protocol import BufferValue

SOURCE = "normalisation.hip"
VALUES_PER_ITEM = 8


def rms_norm(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of residual + RMSNorm + FP8, one workgroup per row."""
    rows, width = int(parameters["rows"]), int(parameters["width"])
    kernel = str(parameters["kernel"])
    in_lds = kernel == "rms_norm_lds"
    block = 1024 if in_lds or rows < 256 else 256  # vLLM changes the size of its workgroups at 256 rows
    arguments = (
        _halves("x", rows * width),
        output("residual", rows * width, "f2"),
        _halves("weight", width),
        output("out", rows * width, "u1"),
        scalar("scale", 0.5, "f4"),
        scalar("width", width, "i4"),
    )
    lds = 2 * width if in_lds else 0
    launch = emulation.launch(SOURCE, kernel, (rows, 1, 1), (block, 1, 1), arguments, dynamic_lds_bytes=lds)
    return emulation.nanoseconds(launch) / 1000


def swiglu(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of silu(gate) * up + FP8."""
    rows, half, kernel = int(parameters["rows"]), int(parameters["width"]) // 2, str(parameters["kernel"])
    arguments = (
        _halves("x", rows * 2 * half),
        output("out", rows * half, "u1"),
        scalar("scale", 0.5, "f4"),
        scalar("half", half, "i4"),
    )
    block = 1024 if kernel == "swiglu_scalar" else 256
    groups = rows if kernel == "swiglu_scalar" else rows * half // VALUES_PER_ITEM // block
    return emulation.nanoseconds(emulation.launch(SOURCE, kernel, (groups, 1, 1), (block, 1, 1), arguments)) / 1000


def rope(emulation: Emulation, parameters: Parameters) -> float:
    """Return the microseconds of the rotary embedding in Triton."""
    return emulation.nanoseconds(emulation.described(KERNELS / "rope_triton", **parameters)) / 1000


def _halves(name: str, count: int) -> BufferValue:
    pattern = np.random.default_rng(1).standard_normal(1 << 14).astype(np.float16)
    return source_buffer(name, np.resize(pattern, count))


ROW_MEASURES: dict[str, Callable[[Emulation, Parameters], float]] = {"rms_norm": rms_norm, "swiglu": swiglu, "rope": rope}
