"""Ranking of kernel variants by the timing model: `python -m benchmarks.ranking`.

Each family is listed from the variant that is expected to be slowest to the fastest. Times are emulated.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from benchmarks.figures import Publisher
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue, Launch
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).with_name("kernels") / "variants.hip"
SIDE = 2048


@dataclass(frozen=True)
class Variant:
    """A kernel variant with its emulated time."""

    family: str
    name: str
    microseconds: float


def main(arguments: list[str] | None = None) -> None:
    """Run, print and write the variants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranking", description=(__doc__ or "").partition("\n")[0])
    publisher = Publisher("ranking", parser, arguments)
    rows: dict[str, tuple[str, ...]] = {}
    before: Variant | None = None
    for variant in variants():
        expected = ""
        if before is not None and before.family == variant.family:
            expected = "yes" if variant.microseconds < before.microseconds else "no"
        name = f"{variant.family}: {variant.name}"
        rows[name] = (name, f"{variant.microseconds:.2f}", expected)
        before = variant
    publisher.publish("ranking of variants", ("family, slowest expected first", "us emulated", "faster than the previous"), rows)


def variants() -> Iterator[Variant]:
    """Yield the variants of every family, slowest expected first."""
    tiles = (SIDE // 32, SIDE // 32, 1)
    for name in ("naive", "lds", "lds_padded"):
        yield Variant("transpose", name, _us(f"transpose_{name}", tiles, (32, 8, 1), SIDE * SIDE, SIDE * SIDE))
    for stride in (33, 3, 1):
        name = f"adjacent lanes {stride} floats apart"
        yield Variant("gather", name, _us(f"gather_{stride}", (16384, 1, 1), (256, 1, 1), 1 << 22, 1 << 22))
    for name in ("divergent", "sequential", "shuffle"):
        yield Variant("reduce", name, _us(f"reduce_{name}", (16384, 1, 1), (256, 1, 1), 16384 * 256, 16384))
    for side, depth, work in ((16, 8, 1), (32, 8, 2), (64, 16, 4)):
        name = f"tiles of {side} x {side} x {depth}, {work} x {work} per work-item"
        tile = {"block_m": side, "block_n": side, "block_k": depth}
        yield Variant("gemm_hip", name, _described("gemm_hip", m=2048, n=2048, k=128, **tile))
    for warps, block in ((8, 32), (4, 128), (4, 64)):  # with tiles of 128, 80 % of the compute units are idle
        name = f"tiles of {block} x {block}, {warps} warps"
        params = {"m": 1024, "n": 1024, "k": 512, "block_m": block, "block_n": block, "num_warps": warps}
        yield Variant("gemm_triton", name, _described("gemm_triton", **params))


def _us(kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], inputs: int, outputs: int) -> float:
    code = compile_source(CompileRequest(source=SOURCE, architecture="gfx942")).code_object
    buffers = (
        BufferValue("in", np.ones(inputs, np.float32), False),
        BufferValue("out", np.zeros(outputs, np.float32), True),
    )
    return _measured(Launch(code, find_kernel(code, kernel).symbol, grid, block, 0, buffers))


def _described(name: str, **params: int) -> float:
    directory = resource_dir("experiments") / name
    row = yaml.safe_load((directory / "kernel.yaml").read_text())
    description = KernelDescription.model_validate(row | {"directory": directory, "params": row["params"] | params})
    built = compile_description(
        description, description.source_path, architecture="gfx942", compiler=lambda: find_compiler(("hipcc", "clang", "pip"))
    )
    symbol = find_kernel(built.code_object, description.entry).symbol
    return _measured(build_launch(description, built.code_object, symbol, built.contract))


def _measured(launch: Launch) -> float:
    with tempfile.TemporaryDirectory() as directory:
        device = EmulatorDevice(target=load_target("mi300x"))
        run = device.run(launch, database=Path(directory) / "run_results.db", runs=1, counters=())
        return float(read_database(run.database).dispatches.duration_ns[0]) / 1000


if __name__ == "__main__":
    main()
