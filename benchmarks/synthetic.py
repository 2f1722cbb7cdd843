"""Synthetic search landscapes: models of tiled GPU kernels on generated GPUs, used to choose defaults without tuning to data.

Each model has the features that make measured spaces difficult: products of tile sizes, occupancy that falls in steps, partly
filled waves, configurations that do not fit, parameters with little effect or with effect only in combination, plateaus, and
compiler variation (a few percent per pair of values). Times are not measured; their unit is an arbitrary ms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.landscape import Landscape
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space

_MOST = 20_000
"""Largest number of configurations, about that of the measured landscapes; larger spaces are sampled."""


@dataclass(frozen=True)
class _Gpu:
    """Limits and cost factors of a compute unit."""

    wave: int
    lds_bytes: int
    registers: int
    threads: int
    memory: float
    latency: float

    @classmethod
    def draw(cls, random: np.random.Generator) -> _Gpu:
        return cls(
            wave=int(random.choice([32, 64])),
            lds_bytes=int(random.choice([48, 64, 160])) * 1024,
            registers=int(random.choice([65536, 131072])),
            threads=int(random.choice([1536, 2048])),
            memory=float(random.uniform(0.4, 2.5)),
            latency=float(random.uniform(0.5, 4.0)),
        )

    def resident(self, threads: Column, registers: Column, lds_bytes: Column) -> Column:
        """Return the resident waves of a compute unit; 0 if a workgroup does not fit."""
        waves = np.ceil(threads / self.wave)
        granule = 8 * np.ceil(np.minimum(registers, 256) / 8)
        groups = np.minimum(self.registers // (granule * waves * self.wave), self.threads // (waves * self.wave))
        groups = np.minimum(groups, np.where(lds_bytes > 0, self.lds_bytes // np.maximum(lds_bytes, 1), np.inf))
        return np.where((groups < 1) | (threads > 1024), 0, groups * waves)

    def time(self, compute: Column, memory: Column, resident: Column, threads: Column, registers: Column) -> Column:
        """Return the time by a roofline with latency hidden by waves; infinite without resident waves."""
        full = threads / (np.ceil(threads / self.wave) * self.wave)
        spills = np.maximum(registers - 256, 0) / 64
        compute, memory = compute / full, memory * self.memory * (1 + spills)
        hidden = self.latency / np.maximum(resident, 0.5)
        return np.where(resident > 0, np.maximum(compute, memory) + 0.3 * np.minimum(compute, memory) + hidden, np.inf)


def _gemm(gpu: _Gpu, random: np.random.Generator) -> tuple[Space, Column]:
    """Matrix multiplication with tiles in LDS and the usual OpenCL tiling parameters."""
    space = _space(
        {
            "tile_m": [16, 32, 64, 128],
            "tile_n": [16, 32, 64, 128],
            "tile_k": [16, 32],
            "threads_m": [8, 16, 32],
            "threads_n": [8, 16, 32],
            "vector_m": [1, 2, 4, 8],
            "vector_n": [1, 2, 4, 8],
            "share_a": [0, 1],
            "share_b": [0, 1],
            "stride": [0, 1],
        },
        ["tile_m % (threads_m * vector_m) == 0", "tile_n % (threads_n * vector_n) == 0"],
    )
    c = _columns(space)
    work_m, work_n = c["tile_m"] / c["threads_m"], c["tile_n"] / c["threads_n"]
    threads = c["threads_m"] * c["threads_n"]
    registers = 16 + work_m * work_n + work_m + work_n + random.uniform(0, 4) * (c["vector_m"] + c["vector_n"])
    lds = 4 * c["tile_k"] * (c["share_a"] * c["tile_m"] + c["share_b"] * c["tile_n"])
    resident = gpu.resident(threads, registers, lds)
    reread_a, reread_b = 1 + (1 - c["share_a"]) * random.uniform(0.2, 2), 1 + (1 - c["share_b"]) * random.uniform(0.2, 2)
    narrow = 1 + random.uniform(0.1, 0.5) * (c["vector_m"] < 2) + random.uniform(0.1, 0.5) * (c["vector_n"] < 2)
    wide = 1 + random.uniform(0, 0.3) * (c["vector_m"] > 4) + random.uniform(0, 0.3) * (c["vector_n"] > 4)
    memory = 40 * (reread_b / c["tile_m"] + reread_a / c["tile_n"]) * narrow * wide
    conflicts = 1 + random.uniform(0, 0.3) * (c["stride"] == 0) * (c["share_a"] + c["share_b"])
    barriers = random.uniform(1, 8) / c["tile_k"] * (c["share_a"] + c["share_b"]) * threads / 256
    compute = (1 + random.uniform(0.3, 1.2) * (1 / work_m + 1 / work_n)) * conflicts + barriers
    return space, gpu.time(compute, memory, resident, threads, registers)


def _stencil(gpu: _Gpu, random: np.random.Generator) -> tuple[Space, Column]:
    """Stencil with several time steps per launch and a halo that grows with them."""
    space = _space(
        {
            "block_size_x": [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 256],
            "block_size_y": [1, 2, 4, 8, 16, 32],
            "tile_size_x": [1, 2, 3, 4, 5, 6, 8, 10],
            "tile_size_y": [1, 2, 3, 4, 5, 6, 8, 10],
            "steps": [1, 2, 3, 4, 5, 6, 8, 10],
            "unroll": [0, 1, 2, 5],
            "share_power": [0, 1],
            "blocks_per_unit": [0, 1, 2, 4],
        },
        ["32 <= block_size_x * block_size_y", "block_size_x * block_size_y <= 1024", "unroll == 0 or steps % unroll == 0"],
    )
    c = _columns(space)
    threads = c["block_size_x"] * c["block_size_y"]
    wide, high = c["block_size_x"] * c["tile_size_x"], c["block_size_y"] * c["tile_size_y"]
    halo = (wide + 2 * c["steps"]) * (high + 2 * c["steps"])
    bound = np.where(c["blocks_per_unit"] > 0, gpu.registers / np.maximum(c["blocks_per_unit"] * threads, 1), 1e9)
    wanted = 14 + random.uniform(1, 3) * c["tile_size_x"] * c["tile_size_y"] + random.uniform(1, 5) * c["unroll"]
    lds = 4 * halo * (1 + c["share_power"])
    resident = gpu.resident(threads, np.minimum(wanted, bound), lds)
    redundant = halo / (wide * high)
    coalescing = 1 + random.uniform(0.2, 0.8) * np.maximum(0, 5 - np.log2(c["block_size_x"]))
    memory = 3 * redundant * coalescing / c["steps"] * (1 + random.uniform(0, 0.6) * (1 - c["share_power"]))
    loop = random.uniform(0.1, 0.5) / (1 + c["unroll"]) + random.uniform(0.1, 0.5) / (c["tile_size_x"] * c["tile_size_y"])
    spilled = np.maximum(wanted - bound, 0) / 16
    return space, gpu.time(redundant * (1 + loop + spilled), memory, resident, threads, np.minimum(wanted, bound))


def _matrix_cores(gpu: _Gpu, random: np.random.Generator) -> tuple[Space, Column]:
    """Tile program as in Triton: few parameters, powers of two, and a categorical scheduler."""
    space = _space(
        {
            "BLOCK_M": [16, 32, 64, 128, 256],
            "BLOCK_N": [16, 32, 64, 128, 256],
            "BLOCK_K": [16, 32, 64, 128],
            "GROUP_M": [1, 4, 8, 16],
            "num_warps": [1, 2, 4, 8],
            "num_stages": [1, 2, 3],
            "waves_per_eu": [0, 1, 2, 4],
            "schedule": ["none", "local-prefetch", "attention"],
        },
        ["BLOCK_M * BLOCK_N >= 256 * num_warps"],
    )
    c = _columns(space)
    threads = c["num_warps"] * gpu.wave
    registers = 24 + c["BLOCK_M"] * c["BLOCK_N"] / threads * 1.1
    lds = 2 * (c["BLOCK_M"] + c["BLOCK_N"]) * c["BLOCK_K"] * np.maximum(c["num_stages"] - 1, 1)
    resident = gpu.resident(threads, registers, lds)
    asked = np.where((c["waves_per_eu"] > 0) & (resident < 4 * c["waves_per_eu"]), 1 + random.uniform(0, 0.3), 1)
    prefetched = c["schedule"] == "local-prefetch"
    pipeline = 1 + random.uniform(0.1, 0.5) * (c["num_stages"] == 1) * np.where(prefetched, 0.3, 1) + 0.1 * (c["num_stages"] > 2)
    grid = np.ceil(4096 / c["BLOCK_M"]) * np.ceil(4096 / c["BLOCK_N"])
    units = int(random.choice([60, 104, 304]))
    tail = np.ceil(grid / units) * units / grid
    memory = 60 * (1 / c["BLOCK_M"] + 1 / c["BLOCK_N"]) * (1 + random.uniform(0.1, 0.5) / np.sqrt(c["GROUP_M"]))
    overhead = random.uniform(4, 16) / c["BLOCK_K"] + random.uniform(4, 16) * c["num_warps"] * 64 / (c["BLOCK_M"] * c["BLOCK_N"])
    return space, gpu.time((1 + overhead) * pipeline * asked * tail, memory * tail, resident, threads, registers)


def _streaming(gpu: _Gpu, random: np.random.Generator) -> tuple[Space, Column]:
    """Memory-bound kernel: wide plateaus, parameters without effect, some with effect only in combination."""
    space = _space(
        {
            "block": [32 * i for i in range(1, 33)],
            "items": [1, 2, 3, 4, 6, 8, 12, 16],
            "vector": [1, 2, 4],
            "stride": [0, 1],
            "nontemporal": [False, True],
            "algorithm": ["warp", "raking", "atomic"],
            "passes": [1, 2],
            "pad": [0, 1, 2],
        },
        ["items % vector == 0", "passes == 2 or algorithm != 'raking'"],
    )
    c = _columns(space)
    threads, items = c["block"], c["items"]
    registers = 12 + 3 * items
    lds = np.where(c["algorithm"] == "raking", 8 * threads * (1 + c["pad"] / 8), 256.0)
    resident = gpu.resident(threads, registers, lds)
    strided = np.where((c["stride"] == 0) & (items > c["vector"]), 1 + random.uniform(0.2, 1.0), 1)
    in_flight = np.minimum(1, resident * items * c["vector"] / random.uniform(32, 160))
    memory = 2 * strided / in_flight ** random.uniform(0.4, 0.9) * np.where(c["nontemporal"], random.uniform(0.9, 1.1), 1)
    atomics = random.uniform(10, 60) / (threads * items) * gpu.wave
    tree = random.uniform(0.1, 0.6) * np.log2(threads) / items
    conflicts = random.uniform(0.1, 0.6) * (c["pad"] == 0) / items
    combine = np.where(c["algorithm"] == "atomic", atomics, np.where(c["algorithm"] == "raking", conflicts, 0.6 * tree))
    compute = 0.5 + combine + random.uniform(0.05, 0.3) * (c["passes"] == 2)
    return space, gpu.time(compute, memory, resident, threads, registers)


def _rugged(gpu: _Gpu, random: np.random.Generator) -> tuple[Space, Column]:
    """Sum of boxes in a few of the parameters, like a regression forest, without a hardware model."""
    values = {f"p{i}": list(range(int(random.integers(2, 9)))) for i in range(7)}
    space = _space(values, ["p0 + p1 != 3", "p2 <= p3 or p4 > 0"])
    codes, logs = space.codes, np.zeros(len(space))
    for _ in range(60):
        box = np.ones(len(space), bool)
        for position in random.choice(5, int(random.integers(1, 4)), replace=False):
            edge = int(random.integers(len(values[f"p{position}"])))
            box &= codes[:, position] <= edge if random.random() < 0.5 else codes[:, position] >= edge
        logs[box] += random.normal(0, 0.25)
    return space, np.asarray(np.exp(logs) * gpu.latency)


_KERNELS: dict[str, Callable[[_Gpu, np.random.Generator], tuple[Space, Column]]] = {
    "gemm": _gemm,
    "stencil": _stencil,
    "matrix_cores": _matrix_cores,
    "streaming": _streaming,
    "rugged": _rugged,
}


def synthetic_landscapes(draws: int = 2) -> list[Landscape]:
    """Return every model on `draws` GPUs; times are determined by the name alone."""
    return [_landscape(kernel, draw) for kernel in _KERNELS for draw in range(draws)]


def drawn_prior(landscape: str) -> Landscape:
    """Return a synthetic landscape for the same kernel on another GPU and with other compiler variation."""
    kernel, _, draw = landscape.rpartition("_drawn")
    return _landscape(kernel, int(draw), elsewhere=True)


def _landscape(kernel: str, draw: int, *, elsewhere: bool = False) -> Landscape:
    random = np.random.default_rng([*kernel.encode(), draw])
    gpu, moods = _Gpu.draw(random), random
    if elsewhere:
        moods = np.random.default_rng([*kernel.encode(), draw, 1])
        gpu = _Gpu.draw(moods)
    space, times = _KERNELS[kernel](gpu, random)
    times = times * _moods(space, moods)
    kept = np.sort(random.permutation(len(space))[:_MOST])
    return Landscape(f"{kernel}_drawn{draw}", replace(space, codes=space.codes[kept]), times[kept])


def _moods(space: Space, random: np.random.Generator) -> Column:
    """Return factors around 1: a few percent for a third of the parameter pairs, one percent per configuration."""
    logs = random.normal(0, 0.01, len(space))
    for left, right in combinations(range(len(space.names)), 2):
        if random.random() < 1 / 3:
            table = random.normal(0, 0.03, (len(space.values[space.names[left]]), len(space.values[space.names[right]])))
            logs += table[space.codes[:, left], space.codes[:, right]]
    return np.asarray(np.exp(logs))


def _space(parameters: dict[str, list[Any]], constraints: list[str]) -> Space:
    return build_space(describe({"parameters": parameters, "constraints": constraints}, where="synthetic"))


def _columns(space: Space) -> dict[str, Column]:
    return {name: column.astype(float) if (column := space.column(name)).dtype.kind in "iub" else column for name in space.names}
