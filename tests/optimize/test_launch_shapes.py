"""Other workgroup sizes and orders of axes: equal results, and kernels that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.launch_shapes import LaunchShapes
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

KERNEL = kernel_of(
    [buffer("a", "f32", "h", "w"), buffer("y", "f32", "h", "w", access="out"), size("h"), size("w")],
    grid=["ceil_div(h, 16)", "ceil_div(w, 16)"],
    block=[16, 16],
    h=37,
    w=70,
)


def source(guard: str = "if (r >= h || c >= w) return;", body: str = "y[r * w + c] = 2 * a[r * w + c];") -> str:
    """Return a kernel whose first axis follows rows."""
    return f"""#include <hip/hip_runtime.h>
extern "C" __global__ void f(const float* a, float* y, int h, int w) {{
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  int c = blockIdx.y * blockDim.y + threadIdx.y;
  {guard}
  {body}
}}
"""


def test_exchanged_axes_cover_the_same_elements() -> None:
    same, exchanged = rewrites_of(LaunchShapes(kernel=KERNEL, shapes=[(64, 4)]), source())

    first, outputs = emulated(KERNEL, same.text)
    launch, swapped = emulated(KERNEL, exchanged.text)

    assert (first.grid, launch.grid) == ((1, 18, 1), (2, 10, 1))  # 37 rows and 70 columns by 64 x 4
    doubled = 2 * launch.arguments[0].data  # type: ignore[union-attr]
    np.testing.assert_array_equal(outputs["y"], doubled)
    np.testing.assert_array_equal(swapped["y"], doubled)


def test_elements_that_a_test_excludes_stay_as_they_are() -> None:
    """A limit may be an expression, and further conditions may exclude elements inside of it."""
    guard = "if (r > 0 && r < h - 1 && c >= 1 && (c < w - 1))"
    rewrite = rewrites_of(LaunchShapes(kernel=KERNEL, shapes=[(64, 4)]), source(guard))[0]

    launch, outputs = emulated(KERNEL, rewrite.text)

    doubled = 2 * launch.arguments[0].data  # type: ignore[union-attr]
    np.testing.assert_array_equal(outputs["y"][1:-1, 1:-1], doubled[1:-1, 1:-1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (source(guard=""), "no bounds"),
        (source(guard="if (r >= h) return;"), "no bounds"),
        (source(guard="if (r >= h || c >= w + 80) return;"), "cover"),
        (source(guard="if (r >= h || c >= r + w) return;"), "no bounds"),
        (source(guard="if (r >= h || c >= limit(w)) return;"), "no bounds"),
        (source(body="__shared__ float t[4]; t[0] = a[r]; y[r] = t[0];"), "uses __shared__"),
        (source(body="y[r * w + c] = __shfl_xor(a[r * w + c], 1);"), "uses __shfl"),
        (source(body="if (threadIdx.x == 0) y[r * w + c] = 1;"), "uses threadIdx.x"),
    ],
)
def test_what_depends_on_the_workgroup_is_refused(text: str, says: str) -> None:
    assert says in reason_of(LaunchShapes(kernel=KERNEL), text)
