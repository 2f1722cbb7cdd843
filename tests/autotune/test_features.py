"""Features of compiled configurations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from rocm_perf_lab.autotune.candidate import KernelBuilder
from rocm_perf_lab.autotune.features import compile_space
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space import SpaceError
from rocm_perf_lab.autotune.spaces.space_description import describe
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.autotune.spaces.space import Space

DIRECTORY = resource_dir("experiments") / "gemm_hip"
RUNTIME_ONLY = ("achieved", "sq_", "tcc_", "counter", "runtime", "duration", "hit_rate")


@pytest.fixture(scope="module")
def builder() -> KernelBuilder:
    content = yaml.safe_load((DIRECTORY / "kernel.yaml").read_text()) | {"directory": DIRECTORY}
    return KernelBuilder(KernelDescription.model_validate(content), load_target("mi300x"), ("hipcc", "clang", "pip"))


def space(**parameters: Any) -> Space:
    return build_space(describe({"parameters": parameters}, where="space.yaml"), where="space.yaml")


@pytest.fixture(scope="module")
def tiles() -> Space:
    """The tile of A and B in f32: 4 * block_k * (block_m + 1 + 64) bytes of LDS."""
    return space(block_m=[32, 64], block_k=[16, 32, 256], num_warps=[4])


@pytest.mark.slow
def test_configurations_that_cannot_run_are_discarded_with_the_reason(builder: KernelBuilder, tiles: Space) -> None:
    compiled = compile_space(tiles, builder, workers=2)

    assert len(compiled.space) == 4
    assert compiled.discarded.total == 2
    assert [(row["configurations"], row["stage"]) for row in compiled.discarded.as_json()] == [(2, "compile")]
    assert "exceeds limit (65536)" in compiled.discarded.as_json()[0]["reason"]
    for row, facts in enumerate(compiled.facts):
        configuration = compiled.space.configuration(row)
        block_m, block_k = int(configuration["block_m"]), int(configuration["block_k"])
        assert facts["lds_bytes"] == 4 * block_k * (block_m + 1 + 64)
        assert facts["workgroups"] == 256 // block_m * (256 // 64)
        assert facts["work_items"] == 256
        assert sum(facts[name] for name in facts if name.endswith("_share")) <= 1


def test_no_feature_needs_a_run(builder: KernelBuilder, tiles: Space) -> None:
    names = compile_space(tiles, builder, workers=1).names

    assert {"vgpr", "agpr", "sgpr", "lds_bytes", "scratch_bytes", "vgpr_spills", "waves_per_simd", "valu_share"} <= set(names)
    assert not [name for name in names if any(word in name for word in RUNTIME_ONLY)]


def test_columns_are_between_0_and_1_and_not_redundant(builder: KernelBuilder, tiles: Space) -> None:
    columns = compile_space(tiles, builder, workers=1).columns()

    assert columns.shape[0] == 4
    assert columns.shape[1] > 1
    assert columns.min() == 0
    assert columns.max() == 1
    assert (np.ptp(columns, axis=0) > 0).all()
    RegressionSampler(tiles, features=np.zeros((len(tiles), 1)))


SPILLING = """#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(1024) keep(const volatile float* in, float* out) {
  float values[LIVE];
#pragma unroll
  for (int i = 0; i < LIVE; i++) values[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < LIVE; i++) out[i * 1024 + threadIdx.x] = values[i] * values[LIVE - 1 - i];
}
"""


def test_spills_above_a_threshold_discard_a_configuration(builder: KernelBuilder, tmp_path: Path) -> None:
    """Of 1024 work-items each has 128 registers."""
    (tmp_path / "keep.hip").write_text(SPILLING)
    buffers = [
        {"name": name, "kind": "buffer", "dtype": "f32", "shape": ["live * 1024"], "access": "inout"} for name in ("in", "out")
    ]
    content: dict[str, Any] = {
        "name": "keep",
        "source": "keep.hip",
        "entry": "keep",
        "params": {"live": 16},
        "defines": {"LIVE": "live"},
    }
    content |= {"arguments": buffers, "grid": [1], "block": [1024], "directory": tmp_path}
    spilling = replace(builder, description=KernelDescription.model_validate(content))
    both = space(live=[16, 200])

    free = compile_space(both, spilling, workers=1)
    strict = compile_space(both, replace(spilling, max_spills=8), workers=1)

    assert [facts["vgpr_spills"] > 8 for facts in free.facts] == [False, True]
    assert strict.discarded.total == 1
    assert "VGPRs are spilled to memory, autotune.max_spills allows 8" in strict.discarded.as_json()[0]["reason"]


def test_a_default_that_cannot_run_is_removed(builder: KernelBuilder) -> None:
    content = {"parameters": {"block_k": [16, 512]}, "defaults": {"block_k": 512}}

    compiled = compile_space(build_space(describe(content, where="s")), builder, workers=1)

    assert compiled.space.defaults is None
    assert len(compiled.space) == 1


def test_a_space_without_runnable_configurations_is_an_error(builder: KernelBuilder) -> None:
    with pytest.raises(SpaceError, match="no configuration of the space can run"):
        compile_space(space(block_k=[512, 1024]), builder, workers=1)
