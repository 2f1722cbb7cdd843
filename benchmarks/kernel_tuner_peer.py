"""Kernel Tuner on a landscape, through its simulation mode and a cache file generated from the landscape.

The development tools contain Kernel Tuner. Without it, `benchmarks.landscapes` compares the other samplers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import math
import random
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.landscape import Landscape

PEERS = {
    "kernel_tuner": "dual_annealing",
    "kernel_tuner_genetic": "genetic_algorithm",
    "kernel_tuner_greedy": "greedy_ils",
    "kernel_tuner_vndx": "hybrid_vndx",
    "kernel_tuner_greywolf": "adaptive_tabu_greywolf",
}
"""Name of a sampler -> strategy of Kernel Tuner; the first is the best one on the measured AMD landscapes."""
_STARTS = 30
_KERNEL = "landscape"
_TIMES = ("compile_time", "verification_time", "benchmark_time", "framework_time", "strategy_time")


def installed() -> bool:
    """Return whether Kernel Tuner can be imported."""
    return importlib.util.find_spec("kernel_tuner") is not None


def times_of(landscape: Landscape, seed: int, budget: int, strategy: str = PEERS["kernel_tuner"]) -> list[float]:
    """Return times in ms in the order of evaluation, each configuration once; infinite for failed configurations.

    A strategy that ends early is restarted until `budget` different configurations are measured.
    """
    random.seed(seed)
    np.random.seed(seed)  # Strategies draw from the global generators.
    rows: dict[int, None] = {}
    with tempfile.TemporaryDirectory() as directory:
        cache = Path(directory) / "cache.json"
        cache.write_text(json.dumps(_cache(landscape)))
        for _ in range(_STARTS):
            rows.update(dict.fromkeys(_search(landscape, cache, budget, strategy)))
            if len(rows) >= budget:
                break
    return [float(landscape.times_ms[row]) for row in list(rows)[:budget]]


def _search(landscape: Landscape, cache: Path, budget: int, strategy: str) -> list[int]:
    import kernel_tuner
    from constraint import FunctionConstraint

    space = landscape.space

    def holds(*values: Any) -> bool:
        return space.index(dict(zip(space.names, values, strict=True))) is not None

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_kernel(
            _KERNEL,
            "",
            1,
            [],
            {name: list(values) for name, values in space.values.items()},
            restrictions=[FunctionConstraint(holds)],
            strategy=strategy,
            strategy_options={"max_fevals": budget},
            simulation_mode=True,
            cache=str(cache),
            quiet=True,
        )
    return [row for result in results if (row := space.index(result)) is not None]


def _cache(landscape: Landscape) -> dict[str, Any]:
    space = landscape.space
    entries = {}
    for row in range(len(space)):
        configuration = space.configuration(row)
        time = float(landscape.times_ms[row])
        result: Any = time if math.isfinite(time) else "RuntimeFailedConfig"
        failed = {} if math.isfinite(time) else {"__error__": "RuntimeFailedConfig"}
        key = ",".join(str(value) for value in configuration.values())
        entries[key] = {**configuration, "time": result, "times": [result], **failed, **dict.fromkeys(_TIMES, 0.0)}
    return {
        "device_name": landscape.name,
        "kernel_name": _KERNEL,
        "problem_size": 1,
        "tune_params_keys": list(space.names),
        "tune_params": {name: list(values) for name, values in space.values.items()},
        "objective": "time",
        "cache": entries,
    }
