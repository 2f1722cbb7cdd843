"""A kernel description without a compiled kernel, its launch, and the buffers of the launch."""

from __future__ import annotations

from typing import Any

from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue, Launch
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.code_object import CodeObject

EMPTY = CodeObject(data=b"", architecture="gfx942", target_id="gfx942", kernels=())


def describe(**changes: Any) -> KernelDescription:
    """Return the description of a kernel y = 2 * x on 1000 elements, with other fields in `changes`."""
    base: dict[str, Any] = {
        "name": "scale",
        "source": "scale.hip",
        "entry": "scale",
        "params": {"n": 1000, "block": 256},
        "defines": {"BLOCK": "block", "TWICE": "block * 2"},
        "arguments": [
            {"name": "x", "kind": "buffer", "dtype": "f32", "shape": ["n"], "init": {"kind": "normal", "seed": 3}},
            {"name": "y", "kind": "buffer", "dtype": "f32", "shape": ["n"], "access": "out"},
            {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
        ],
        "grid": ["ceil_div(n, block)"],
        "block": ["block"],
        "reference": {"y": "2 * x"},
    }
    return KernelDescription.model_validate(base | changes)


def launch_of(description: KernelDescription) -> Launch:
    """Build the launch of a description."""
    return build_launch(description, EMPTY, "scale")


def buffer(launch: Launch, name: str) -> BufferValue:
    """Return a buffer of a launch by name."""
    return next(a for a in launch.arguments if isinstance(a, BufferValue) and a.name == name)
