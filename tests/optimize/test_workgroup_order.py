"""Consecutive workgroups on one XCD: every workgroup is computed once, whatever their number."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.workgroup_order import XcdOrder
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

MI300X = load_target("mi300x")


def source(body: str) -> str:
    """Return a kernel with a body."""
    return f"""#include <hip/hip_runtime.h>
extern "C" __global__ void f(int* y, int n) {{
  {body}
}}
"""


def test_workgroups_of_one_die_are_consecutive() -> None:
    """11 workgroups on 8 XCDs: dies 0 to 2 have two, and XCD 1 starts after the two of XCD 0."""
    kernel = kernel_of([buffer("y", "i32", "n", access="out"), size("n")], grid=["n"], block=[64], n=11)
    text = source("if (threadIdx.x == 0) y[blockIdx.x] = blockIdx.x;")
    (rewrite,) = rewrites_of(XcdOrder(kernel=kernel, target=MI300X), text)
    shown = rewrite.text.replace("y[xcd_x] = xcd_x", "y[blockIdx.x] = xcd_x")

    assert emulated(kernel, rewrite.text)[1]["y"].tolist() == list(range(11))
    assert emulated(kernel, shown)[1]["y"].tolist() == [0, 2, 4, 6, 7, 8, 9, 10, 1, 3, 5]


@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 5, 1), (7, 2, 3), (16, 16, 1)])
def test_each_workgroup_of_a_grid_is_computed_once(grid: tuple[int, int, int]) -> None:
    x, y, z = grid
    kernel = kernel_of([buffer("y", "i32", "n", access="out"), size("n")], grid=[str(g) for g in grid], block=[64], n=x * y * z)
    place = f"blockIdx.x + {x} * (blockIdx.y + {y} * blockIdx.z)"
    text = source(f"if (threadIdx.x == 0) y[{place}] = 1 + {place};")

    (rewrite,) = rewrites_of(XcdOrder(kernel=kernel, target=MI300X), text)

    np.testing.assert_array_equal(emulated(kernel, rewrite.text)[1]["y"], np.arange(1, x * y * z + 1))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("y[threadIdx.x] = 1;", "no number"),
        ("if (atomicAdd(y, 1) == n) y[blockIdx.x] = 1;", "the result of atomicAdd"),
        ("y[blockIdx.x] = 1; __threadfence();", "__threadfence"),
        ("while (((volatile int*)y)[blockIdx.x] == 0) {}", "volatile"),
    ],
)
def test_kernels_whose_workgroups_may_wait_for_others_are_kept(body: str, says: str) -> None:
    kernel = kernel_of([buffer("y", "i32", "n", access="out"), size("n")], grid=["n"], block=[64], n=8)

    assert says in reason_of(XcdOrder(kernel=kernel, target=MI300X), source(body))


def test_a_gpu_with_one_die_needs_no_other_order() -> None:
    kernel = kernel_of([buffer("y", "i32", "n", access="out"), size("n")], grid=["n"], block=[64], n=8)

    assert "one XCD" in reason_of(XcdOrder(kernel=kernel, target=load_target("mi250x")), source("y[blockIdx.x] = 1;"))
