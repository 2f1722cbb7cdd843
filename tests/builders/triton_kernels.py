"""Triton kernels for tests: `run_triton(source, entry, ...)` compiles, emulates and returns the outputs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import yaml

from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue, Launch
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.toolchain.build import BuildResult

ACCUMULATORS = {"i32": "tl.int32", "f32": "tl.float32", "f64": "tl.float64"}
HEADER = "import triton\nimport triton.language as tl\n\n\n"

MATMUL = """
@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a = a_ptr + rows[:, None] * k + inner[None, :]
    b = b_ptr + inner[:, None] * n + columns[None, :]
    acc = tl.zeros((BM, BN), dtype=ACC)
    for _ in range(0, k, BK):
        acc = tl.dot(tl.load(a), tl.load(b), acc, out_dtype=ACC)
        a += BK
        b += BK * n
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], acc)
"""


def build_triton(
    source: str, directory: Path, *, architecture: str = "gfx942", **description: Any
) -> tuple[KernelDescription, BuildResult]:
    """Write `source` as `kernel.py` below `directory` and compile it as `description` says."""
    (directory / "kernel.py").write_text(HEADER + source.lstrip("\n"))
    values = {"name": "test", "language": "triton", "source": "kernel.py", "grid": [1], "directory": directory} | description
    described = KernelDescription.model_validate(values)
    build = compile_description(described, described.source_path, architecture=architecture, compiler=find_compiler)
    return described, build


def triton_launch(source: str, **description: Any) -> Launch:
    """Return the launch of a kernel, compiled."""
    with TemporaryDirectory() as directory:
        described, build = build_triton(source, Path(directory), **description)
        return build_launch(described, build.code_object, described.entry, build.contract)


def experiment(name: str, params: Mapping[str, int]) -> KernelDescription:
    """Return the description of an experiment in the repository with some params changed."""
    directory = resource_dir("experiments") / name
    values = yaml.safe_load((directory / "kernel.yaml").read_text())
    return KernelDescription.model_validate({**values, "directory": directory, "params": {**values["params"], **params}})


def launch_of(description: KernelDescription) -> Launch:
    """Return the launch of a described kernel, compiled."""
    build = compile_description(description, description.source_path, architecture="gfx942", compiler=find_compiler)
    return build_launch(description, build.code_object, description.entry, build.contract)


def unary_launch(
    source: str,
    entry: str,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    *,
    grid: int = 1,
    constexprs: Mapping[str, str] | None = None,
    **options: int,
) -> Launch:
    """Return the launch of a kernel with `x_ptr` (1024 elements) and `y_ptr`."""
    return triton_launch(
        source,
        entry=entry,
        constexprs=dict(constexprs or {}),
        options=options,
        arguments=[
            {"name": "x_ptr", "kind": "buffer", "shape": [1024], **x},
            {"name": "y_ptr", "kind": "buffer", "access": "inout", **y},
        ],
        grid=[grid],
    )


def emulate(launch: Launch) -> tuple[dict[str, NDArray[Any]], LaunchResult]:
    """Run a launch; return its buffers by name, and its result."""
    with EmulatedGpu(target_of(launch.code_object.architecture), max_instructions=10**9, threads=2) as machine:
        buffers = {}
        values: list[Any] = []
        for argument in launch.arguments:
            if isinstance(argument, BufferValue):
                allocation = machine.allocate(argument.name, argument.data.nbytes)
                machine.write(allocation, argument.data.tobytes())
                buffers[argument.name] = (allocation, argument.data)
            values.append(buffers[argument.name][0] if isinstance(argument, BufferValue) else argument.encoded)
        loaded = machine.load(launch.code_object)
        result = machine.launch(loaded, launch.symbol, launch.grid, launch.block, values, launch.dynamic_lds_bytes)
        outputs = {name: _read(machine, allocation, data) for name, (allocation, data) in buffers.items()}
    return outputs, result


def _read(machine: EmulatedGpu, allocation: Any, data: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.frombuffer(machine.read(allocation), dtype=data.dtype).reshape(data.shape)


def matmul_launch(
    dtype: str,
    *,
    other: str = "",
    m: int = 64,
    n: int = 64,
    k: int = 64,
    block: tuple[int, int, int] = (64, 64, 32),
    architecture: str = "gfx942",
    **options: int,
) -> Launch:
    """Compute C = A B with small integers, so that every sum is exact."""
    integers = {"kind": "integers", "low": -4, "high": 5}
    accumulator = {"i8": "i32", "f64": "f64"}.get(dtype, "f32")
    return triton_launch(
        MATMUL,
        architecture=architecture,
        entry="matmul",
        params={"m": m, "n": n, "k": k},
        constexprs={"BM": block[0], "BN": block[1], "BK": block[2], "ACC": ACCUMULATORS[accumulator]},
        options=options,
        arguments=[
            {"name": "a_ptr", "kind": "buffer", "dtype": dtype, "shape": ["m", "k"], "init": {**integers, "seed": 1}},
            {"name": "b_ptr", "kind": "buffer", "dtype": other or dtype, "shape": ["k", "n"], "init": {**integers, "seed": 2}},
            {"name": "c_ptr", "kind": "buffer", "dtype": accumulator, "shape": ["m", "n"], "access": "out"},
            {"name": "n", "kind": "scalar", "dtype": "i32", "value": "n"},
            {"name": "k", "kind": "scalar", "dtype": "i32", "value": "k"},
        ],
        grid=[m // block[0], n // block[1]],
    )
