"""Guards on signature and resources, with compiled kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.guards import (
    LdsWithinTarget,
    NoNewSpills,
    OccupancyFloor,
    SameSignature,
    rejections_of,
    warnings_of,
)
from rocm_perf_lab.optimize.inspection import CandidateSource
from rocm_perf_lab.optimize.proposers.prompt import guard_rules
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from tests.builders.candidates import configured_guards
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.code_object import KernelMetadata

SCALE = 'extern "C" __global__ void k(float* a, float f) { a[threadIdx.x] *= f; }'
STATIC_LDS = """extern "C" __global__ void k(float* a, float f) {
  __shared__ float tile[16384];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = tile[threadIdx.x ^ 1] * f;
}"""
INDEXED_PRIVATE_ARRAY = """extern "C" __global__ void k(float* a, float f) {
  volatile float local[64];
  for (int i = 0; i < 64; ++i) local[i] = a[i];
  a[threadIdx.x] = local[(int)f];
}"""


def candidate(source: str, directory: Path, *, entry: str = "k") -> CandidateSource:
    text = f"#include <hip/hip_runtime.h>\n{source}\n"
    kernel = find_kernel(build_hip(text, directory).code_object, entry)
    return CandidateSource(parse_source(text.encode(), entry), kernel, 8.0)


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> CandidateSource:
    """The unmodified kernel."""
    return candidate(SCALE, tmp_path_factory.mktemp("scale"))


def rewritten(of: CandidateSource, parameters: str) -> CandidateSource:
    """Return a candidate with another parameter list in its source and the metadata of a compiled one."""
    return replace(of, source=parse_source(f'extern "C" __global__ void k({parameters}) {{}}'.encode(), "k"))


def metadata(of: CandidateSource, **changes: int) -> CandidateSource:
    kernel: KernelMetadata = replace(of.kernel, **changes)  # type: ignore[arg-type]
    return replace(of, kernel=kernel)


def test_white_space_and_comments_in_a_signature_do_not_matter(scale: CandidateSource) -> None:
    same = rewritten(scale, "\n  float *a, /* factor */ float f")

    assert SameSignature().check(scale, same).passed


@pytest.mark.parametrize(
    "parameters", ["float* a, double f", "float f, float* a", "float* a, float f, int unused", "float* a, const double f"]
)
def test_a_changed_parameter_list_is_rejected(parameters: str, scale: CandidateSource) -> None:
    result = SameSignature().check(scale, rewritten(scale, parameters))

    assert (result.name, result.passed, result.detail) == ("signature", False, "the parameter list changed")


def test_a_changed_layout_with_an_equal_parameter_list_is_rejected(tmp_path: Path) -> None:
    text = 'struct P {{ {} v; }};\nextern "C" __global__ void k(float* a, P p) {{ a[0] = p.v; }}'
    narrow, wide = (candidate(text.format(t), tmp_path) for t in ("float", "double"))

    result = SameSignature().check(narrow, wide)

    assert narrow.source.signature() == wide.source.signature()
    assert (result.passed, result.detail) == (False, "the layout of the kernel's arguments changed")


def test_a_changed_symbol_is_rejected(scale: CandidateSource, tmp_path: Path) -> None:
    mangled = candidate(SCALE.removeprefix('extern "C" '), tmp_path)

    result = SameSignature().check(scale, mangled)

    assert (result.passed, result.detail) == (False, "the symbol changed from k to _Z1kPff")


def test_hidden_arguments_are_not_part_of_the_signature(scale: CandidateSource, tmp_path: Path) -> None:
    # threadIdx alone needs no hidden argument, blockDim does
    hidden = candidate(SCALE.replace("threadIdx.x", "threadIdx.x + blockDim.x"), tmp_path)
    assert len(hidden.kernel.arguments) > len(scale.kernel.arguments)

    assert SameSignature().check(scale, hidden).passed


def test_new_scratch_memory_is_rejected(scale: CandidateSource, tmp_path: Path) -> None:
    result = NoNewSpills().check(scale, candidate(INDEXED_PRIVATE_ARRAY, tmp_path))

    assert (result.name, result.passed) == ("spills", False)
    assert result.detail.startswith("scratch bytes 0 to ")


def test_scratch_memory_of_the_baseline_is_accepted(tmp_path: Path) -> None:
    array = candidate(INDEXED_PRIVATE_ARRAY, tmp_path)

    result = NoNewSpills().check(array, array)

    assert (result.passed, result.detail) == (True, "none added")


def test_every_kind_of_new_spill_is_named(scale: CandidateSource) -> None:
    spilling = metadata(scale, vgpr_spill_count=3, sgpr_spill_count=5, scratch_bytes=16)

    assert NoNewSpills().check(scale, spilling).detail == "VGPR spills 0 to 3, SGPR spills 0 to 5, scratch bytes 0 to 16"
    assert NoNewSpills().check(spilling, scale).passed


@pytest.mark.parametrize(
    ("before", "after", "passed", "floor"),
    [
        (8.0, 8.0, True, 4),
        (8.0, 4.0, True, 4),  # the allowed loss is half
        (8.0, 3.0, False, 4),
        (3.0, 2.0, True, 2),  # half of 3 is less than two waves
        (3.0, 1.5, False, 2),
        (1.0, 1.0, True, 1),  # a baseline below the floor may stay
        (1.0, 0.5, False, 1),
        (1.0, 2.0, True, 1),
    ],
)
def test_occupancy_may_fall_to_half_but_not_below_two_waves(
    before: float, after: float, passed: bool, floor: float, scale: CandidateSource
) -> None:
    guard = OccupancyFloor(min_waves_per_simd=2.0, max_loss=0.5)

    result = guard.check(replace(scale, occupancy_waves=before), replace(scale, occupancy_waves=after))

    assert result.passed is passed
    assert result.detail == f"{after:g} waves per SIMD, baseline {before:g}, floor {floor:g}"


def test_lds_above_the_limit_of_a_workgroup_is_rejected(scale: CandidateSource, tmp_path: Path) -> None:
    guard = LdsWithinTarget(target=mi300x())
    full = candidate(STATIC_LDS, tmp_path)  # 16384 floats: all 64 KiB

    assert guard.check(scale, full).passed
    assert guard.check(scale, full).detail == "65,536 of 65,536 bytes"
    assert not guard.check(scale, metadata(full, lds_bytes=65537)).passed


@pytest.mark.parametrize(
    "parameters", ["const float* a, float f", "float* __restrict__ a, float f", "const float* __restrict__ a, const float f"]
)
def test_qualifiers_may_be_added_and_not_removed(parameters: str, scale: CandidateSource) -> None:
    qualified = rewritten(scale, parameters)

    assert SameSignature().check(scale, qualified).passed
    assert not SameSignature().check(qualified, scale).passed


def test_qualifiers_do_not_change_the_compiled_layout(scale: CandidateSource, tmp_path: Path) -> None:
    qualified = candidate('extern "C" __global__ void k(const float* __restrict__ a, const float f) {}', tmp_path)

    assert SameSignature().check(scale, qualified).passed


def test_const_in_the_mangled_name_is_rejected(tmp_path: Path) -> None:
    plain, promising = (candidate(f"__global__ void k({c}float* a) {{}}", tmp_path) for c in ("", "const "))

    assert not SameSignature().check(plain, promising).passed


def test_rules_of_guards_contain_their_limits() -> None:
    told = guard_rules(configured_guards())

    assert any(
        rule.startswith("A work-item uses at most 256 VGPRs, AGPRs included, and 256 AGPRs; more is a warning") for rule in told
    )
    assert any(
        rule.startswith("Occupancy falls by at most 75%, and not below 2 waves per SIMD unless the unmodified kernel has fewer; ")
        for rule in told
    )
    assert "A workgroup uses at most 65,536 bytes of LDS." in told
    assert all("\n" not in rule for rule in told)


def test_resources_and_lanes_warn_and_a_configured_error_rejects(scale: CandidateSource) -> None:
    spilling = metadata(scale, vgpr_spill_count=3)

    warning = NoNewSpills().check(scale, spilling)
    error = NoNewSpills(severity="error").check(scale, spilling)

    assert (warning.passed, warning.rejects, error.rejects) == (False, False, True)
    assert rejections_of([warning]) is None
    assert warnings_of([warning, error]) == ("spills: VGPR spills 0 to 3",)
    assert rejections_of([warning, error]) == "spills: VGPR spills 0 to 3"


def test_a_kernel_that_cannot_run_is_an_error(scale: CandidateSource) -> None:
    assert OccupancyFloor().check(scale, replace(scale, occupancy_waves=0.0)).rejects
