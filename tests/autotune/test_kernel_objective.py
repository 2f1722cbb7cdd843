"""A live kernel as an objective: measurements, failures, and the cache."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rocm_perf_lab.autotune.candidate import Candidate, KernelBuilder
from rocm_perf_lab.autotune.kernel_objective import KernelObjective
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.autotune.trial_cache import TrialCache, loaded_sha256
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.device.protocol import DeviceRun

SOURCE = """#include <hip/hip_runtime.h>
extern "C" __global__ void twice(const float* x, float* y, int n) {
  __shared__ volatile float tile[LDS];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (SKIP > 1 && i % SKIP == 0) return;
  tile[threadIdx.x] = x[i];
  if (i < n) y[i] = (SCALE) * tile[threadIdx.x];
}
"""
DESCRIPTION = """
name: twice
source: twice.hip
entry: twice
params: {n: 1024, block: 64, skip: 0, lds: 1024, scale: 2, unused: 0, far: 0}
defines: {SKIP: skip, LDS: lds, SCALE: scale}
arguments:
  - {name: x, kind: buffer, dtype: f32, shape: [n], init: {kind: normal, seed: 1}}
  - {name: y, kind: buffer, dtype: f32, shape: [n], access: out}
  - {name: n, kind: scalar, dtype: i32, value: n}
grid: ["ceil_div(n, block) + far"]
block: [block]
reference: {y: 2 * x}
"""


@dataclass
class Counting:
    """The emulator, counting its runs."""

    device: EmulatorDevice
    runs: int = 0
    deterministic: bool = True

    @property
    def identity(self) -> Any:
        return self.device.identity

    def run(self, launch: Any, **options: Any) -> DeviceRun:
        self.runs += 1
        return self.device.run(launch, **options)


@dataclass
class Bench:
    directory: Path
    device: Counting = field(default_factory=lambda: Counting(EmulatorDevice(target=load_target("mi300x"), threads=1)))

    def __post_init__(self) -> None:
        (self.directory / "twice.hip").write_text(SOURCE)

    def objective(self, **changes: Any) -> KernelObjective:
        content = yaml.safe_load(DESCRIPTION) | {"directory": self.directory}
        builder = KernelBuilder(KernelDescription.model_validate(content), load_target("mi300x"), ("hipcc", "clang", "pip"))
        return KernelObjective(builder, self.device, **{"cache": TrialCache(self.directory / "trials"), **changes})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_measurement_includes_the_resources_of_the_code_object(bench: Bench) -> None:
    result = bench.objective()({"block": 128})

    assert isinstance(result, Measurement)
    assert result.runtime_ms > 0
    assert result.details["lds_bytes"] == 4096
    assert result.details["vgpr_spills"] == 0
    assert result.details["runs"] == 1


@pytest.mark.parametrize(
    ("configuration", "stage", "reason"),
    [
        ({"lds": 40_000}, "compile", "local memory (160000) exceeds limit (65536)"),
        ({"block": 2048}, "resources", "2048 work-items in a workgroup"),
        ({"block": -64}, "resources", "every dimension must be at least 1"),
        ({"block": 0}, "resources", "kernel.block is [0]: every dimension must be at least 1"),
        ({"scale": 3}, "verification", "wrong output: y: 1,024 of 1,024 elements are wrong"),
        ({"skip": 2}, "verification", "wrong output: y: 512 of 1,024 elements are wrong"),
        ({"far": 5000}, "run", "right at the end of buffer 'x'"),
    ],
)
def test_a_failure_has_a_stage_and_a_reason(bench: Bench, configuration: dict[str, Any], stage: str, reason: str) -> None:
    result = bench.objective()(configuration)

    assert isinstance(result, Infeasible)
    assert (result.stage, reason in result.reason) == (stage, True), result


def test_another_process_reuses_cached_measurements(bench: Bench) -> None:
    first = bench.objective()({"block": 128})
    second = bench.objective()({"block": 128})

    assert isinstance(first, Measurement) and isinstance(second, Measurement)
    assert bench.device.runs == 1
    assert (first.details["cached"], second.details["cached"]) == (False, True)
    assert first.runtime_ms == second.runtime_ms


def test_configurations_with_equal_code_objects_are_measured_once(bench: Bench) -> None:
    objective = bench.objective()

    results = [objective({"unused": value, "skip": skip}) for value, skip in ((0, 0), (1, 0), (0, 1))]

    assert all(isinstance(result, Measurement) for result in results)
    assert bench.device.runs == 1


def test_a_wrong_output_is_cached(bench: Bench) -> None:
    objective = bench.objective()

    assert objective({"scale": 3}) == objective({"scale": 3})
    assert bench.device.runs == 1


@pytest.mark.parametrize("change", ["source", "input size", "circumstances", "no cache"])
def test_a_change_that_affects_the_result_is_measured_again(bench: Bench, change: str) -> None:
    bench.objective()({"block": 64})
    objective = bench.objective()
    configuration: dict[str, Any] = {"block": 64}
    if change == "source":
        (bench.directory / "twice.hip").write_text(SOURCE.replace("x[i]", "x[i] + 0.0f * n"))
    elif change == "input size":
        configuration = {"block": 64, "n": 512}
    elif change == "circumstances":
        objective = bench.objective(circumstances={"driver": "another"})
    else:
        objective = bench.objective(cache=None)

    result = objective(configuration)

    assert isinstance(result, Measurement)
    assert bench.device.runs == 2


def test_a_comment_in_the_source_does_not_invalidate_the_cache(bench: Bench) -> None:
    before = bench.objective().builder.build({})
    (bench.directory / "twice.hip").write_text(SOURCE + "// a remark\n")
    after = bench.objective().builder.build({})

    assert isinstance(before, Candidate) and isinstance(after, Candidate)
    assert loaded_sha256(before.build.code_object.data) == loaded_sha256(after.build.code_object.data)


def test_a_damaged_cache_entry_is_measured_again(bench: Bench) -> None:
    bench.objective()({})
    (entry,) = (bench.directory / "trials").iterdir()
    entry.write_bytes(entry.read_bytes()[:-5] + b"xxxxx")

    bench.objective()({})

    assert bench.device.runs == 2


def test_spills_above_the_limit_discard_a_configuration_before_it_runs(bench: Bench) -> None:
    candidate = bench.objective().builder.build({})
    assert isinstance(candidate, Candidate)

    strict = replace(bench.objective().builder, max_spills=-1)  # no code compiled here spills

    result = strict.build({})
    assert isinstance(result, Infeasible)
    assert (result.stage, result.reason) == ("resources", "0 VGPRs are spilled to memory, autotune.max_spills allows -1")


def test_without_a_reference_the_default_configuration_is_the_reference(bench: Bench) -> None:
    objective = bench.objective()
    builder = objective.builder
    objective.builder = replace(builder, description=builder.description.model_copy(update={"reference": "baseline output"}))

    right, wrong = objective({"block": 256}), objective({"scale": 3})

    assert isinstance(right, Measurement)
    assert isinstance(wrong, Infeasible) and wrong.stage == "verification"


def test_a_space_with_an_unknown_kernel_parameter_is_an_error(bench: Bench) -> None:
    space = build_space(describe({"parameters": {"block": [64], "blok": [1]}}, where="space.yaml"), where="space.yaml")

    with pytest.raises(LabError) as error:
        bench.objective().builder.check(space)

    assert "has no parameter 'blok'" in error.value.what
    assert error.value.where == "space.yaml, parameters.blok"
