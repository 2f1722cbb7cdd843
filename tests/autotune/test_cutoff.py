"""Limit of wall-clock time relative to the best configuration, by hand and with an endless kernel on the emulator."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest
import yaml

from rocm_perf_lab.autotune.candidate import KernelBuilder
from rocm_perf_lab.autotune.clocks import printed_time
from rocm_perf_lab.autotune.command import CommandObjective, CommandTemplate
from rocm_perf_lab.autotune.cutoff import Cutoff
from rocm_perf_lab.autotune.kernel_objective import KernelObjective
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.repeats import Gate
from rocm_perf_lab.autotune.trial_cache import TrialCache
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """#include <hip/hip_runtime.h>
extern "C" __global__ void count(int* y) {
  volatile int* flag = y;
  while (HANGS) flag[threadIdx.x] = 0;
  y[threadIdx.x] = 1;
}
"""
DESCRIPTION = """
name: count
source: count.hip
entry: count
params: {hangs: 0}
defines: {HANGS: hangs}
arguments: [{name: y, kind: buffer, dtype: i32, shape: [64], access: out}]
grid: [1]
block: [64]
reference: {y: "1 + 0 * y"}
"""


def measured(cutoff: Cutoff, runtime_ms: float | None, wall_s: float) -> None:
    with cutoff.measuring():
        time.sleep(wall_s)
    cutoff.finished(runtime_ms)


def entries(directory: Path) -> int:
    return sum(path.is_file() for path in directory.rglob("*"))


def limit_of(cutoff: Cutoff) -> float:
    assert cutoff.limit_s is not None
    return cutoff.limit_s


def test_the_limit_is_a_multiple_of_the_fastest_configuration_but_not_below_the_minimum() -> None:
    cutoff = Cutoff(factor=10, at_least_s=0.01, first_s=77)

    measured(cutoff, None, 0.05)  # a failure tells nothing
    assert cutoff.limit_s == 77
    measured(cutoff, 3.0, 0.05)
    first = limit_of(cutoff)
    measured(cutoff, 4.0, 0.0)  # slower on the GPU
    slower = limit_of(cutoff)
    measured(cutoff, 2.0, 0.0001)

    assert 0.5 <= first < 3
    assert slower == first
    assert limit_of(cutoff) < 0.5
    assert Cutoff(factor=None).limit_s is None


def test_a_command_that_hangs_ends_at_the_limit_relative_to_the_best_one() -> None:
    template = CommandTemplate.parse(f"{sys.executable} -c 'import time; time.sleep({{seconds}}); print(1.0)'", ["seconds"])
    objective = CommandObjective(template, printed_time(r"([\d.]+)", "ms", 600), Gate(1, 0.1, 1), cutoff=Cutoff(2, at_least_s=1))
    start = time.monotonic()

    first, hangs, after = (objective({"seconds": seconds}) for seconds in (0, 300, 0))

    assert isinstance(first, Measurement) and isinstance(after, Measurement)
    assert isinstance(hangs, Infeasible) and "takes more than" in hangs.reason
    assert time.monotonic() - start < 100


def test_a_command_that_hangs_first_ends_at_the_first_limit() -> None:
    template = CommandTemplate.parse(f"{sys.executable} -c 'import time; time.sleep({{seconds}}); print(1.0)'", ["seconds"])
    objective = CommandObjective(template, printed_time(r"([\d.]+)", "ms", 600), Gate(1, 0.1, 1), cutoff=Cutoff(first_s=1))

    hangs = objective({"seconds": 300})

    assert isinstance(hangs, Infeasible) and "takes more than 1 s" in hangs.reason


@pytest.mark.slow
def test_an_endless_kernel_ends_and_its_failure_is_not_cached(tmp_path: Path) -> None:
    (tmp_path / "count.hip").write_text(SOURCE)
    description = KernelDescription.model_validate(yaml.safe_load(DESCRIPTION) | {"directory": tmp_path})
    target = load_target("mi300x")
    builder = KernelBuilder(description, target, ("hipcc", "clang", "pip"))
    cache = TrialCache(tmp_path / "trials")
    objective = KernelObjective(
        builder, EmulatorDevice(target=target, threads=1), cache=cache, cutoff=Cutoff(1.0, at_least_s=1.0)
    )

    assert isinstance(objective({"hangs": 0}), Measurement)
    stored = entries(tmp_path / "trials")
    start = time.monotonic()
    result = objective({"hangs": 1})

    assert isinstance(result, Infeasible)
    assert result.reason.startswith("kernel count: stopped after") and "wall-clock time" in result.reason
    assert time.monotonic() - start < 60
    assert stored == 1
    assert entries(tmp_path / "trials") == stored
