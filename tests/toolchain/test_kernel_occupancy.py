"""Occupancy of compiled kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.target.occupancy import launch_occupancy, mode_of, occupancy
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x, rx6800xt

if TYPE_CHECKING:
    from pathlib import Path

# Both kinds of registers are forced by clobbers: 64 architectural (v0 to v63) and 32 accumulation (a0 to a31).
SOURCE = """
#include <hip/hip_runtime.h>
extern "C" __global__ __launch_bounds__(256) void k(float* a) {
  __shared__ float tile[4096];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  asm volatile("" ::: "v63", "a31");
  a[threadIdx.x] = tile[threadIdx.x ^ 1];
}"""


def test_registers_lds_and_bounds_decide_the_occupancy(tmp_path: Path) -> None:
    (kernel,) = build_hip(SOURCE, tmp_path).code_object.kernels

    request = occupancy_request(kernel)

    assert (request.vgprs, request.agprs, request.lds_bytes, request.workgroup_size) == (64, 32, 16384, (1, 256))
    assert occupancy(mi300x(), request).by_limit["vgpr"] == 5  # 512 / 96


def test_a_launch_adds_its_dynamic_lds(tmp_path: Path) -> None:
    (kernel,) = build_hip(SOURCE, tmp_path).code_object.kernels

    result = launch_occupancy(mi300x(), occupancy_request(kernel, workgroup_size=256, dynamic_lds_bytes=16384))

    assert (result.workgroups_per_cu, result.limiter) == (2, "lds")


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ((), "wave32-wgp"),
        (("-mcumode",), "wave32-cu"),
        (("-mwavefrontsize64",), "wave64-wgp"),
        (("-mwavefrontsize64", "-mcumode"), "wave64-cu"),
    ],
)
def test_the_mode_of_an_rdna_kernel_is_the_one_that_it_was_compiled_for(
    tmp_path: Path, flags: tuple[str, ...], mode: str
) -> None:
    source = SOURCE.replace('asm volatile("" ::: "v63", "a31");', "")
    (kernel,) = build_hip(source, tmp_path, architecture="gfx1030", flags=flags).code_object.kernels

    assert mode_of(rx6800xt(), occupancy_request(kernel)) == mode
