"""Loops split over a second axis of the workgroup: results at odd sizes, and the kernels that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.transforms.loop_splits import SplitLoops
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

ROWS, COLUMNS = 37, 70
HEAD = "#include <hip/hip_runtime.h>\n"
COLUMN = "int c = blockIdx.x * blockDim.x + threadIdx.x;\n  if (c >= cols) return;\n"
KERNEL = kernel_of(
    [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "rows", "cols", access="out"), size("rows"), size("cols")],
    grid=["ceil_div(cols, 64)"],
    block=[64],
    rows=ROWS,
    cols=COLUMNS,
)


def source(body: str, *, head: str = COLUMN) -> str:
    """Return a kernel over `cols` columns of `a`."""
    return f'{HEAD}extern "C" __global__ void f(const float* a, float* y, int rows, int cols) {{\n  {head}{body}}}\n'


NORMALISED = source("""
  float sum = 0.0f, squares = 0.0f;
  for (int r = 0; r < rows; ++r) sum += a[r * cols + c];
  float mean = sum / rows;
  for (int r = 0; r < rows; ++r) {
    float d = a[r * cols + c] - mean;
    squares += d * d;
  }
  float scale = rsqrtf(squares / rows + 1e-5f);
  for (int r = 0; r < rows; ++r) y[r * cols + c] = (a[r * cols + c] - mean) * scale;
""")
ATTENTION = """
  float largest = -INFINITY, total = 0.0f, sum = 0.0f;
  for (int r = 0; r < rows; ++r) {
    float score = 3.0f * a[r * cols + threadIdx.x];
    for (int d = 32; d > 0; d >>= 1) score += __shfl_xor(score, d);
    float top = fmaxf(largest, score), old = expf(largest - top), now = expf(score - top);
    total = total * old + now;
    sum = sum * old + now * a[r * cols + threadIdx.x];
    largest = top;
  }
  y[threadIdx.x] = sum / total;
"""


@pytest.mark.parametrize("shape", [(16, 8), pytest.param((64, 4), marks=pytest.mark.slow)])
def test_columns_are_normalised_by_several_parts_of_their_rows(shape: tuple[int, int]) -> None:
    (rewrite,) = rewrites_of(SplitLoops(kernel=KERNEL, shapes=[shape]), NORMALISED)

    launch, outputs = emulated(KERNEL, rewrite.text)

    a = launch.arguments[0].data.astype(np.float64)  # type: ignore[union-attr]
    expected = (a - a.mean(axis=0)) / np.sqrt(a.var(axis=0) + 1e-5)
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-4, atol=1e-5)
    assert launch.block == (*shape, 1)


def test_wavefronts_share_the_steps_of_a_softmax_of_one_pass() -> None:
    """Each wavefront has its own largest value and sums; an exchange within a wavefront stays in it."""
    kernel = kernel_of(
        [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "cols", access="out"), size("rows"), size("cols")],
        grid=["1"],
        block=[64],
        rows=5,
        cols=64,
    )
    (rewrite,) = rewrites_of(SplitLoops(kernel=kernel, shapes=[(64, 8)]), source(ATTENTION, head=""))

    launch, outputs = emulated(kernel, rewrite.text)

    a = launch.arguments[0].data.astype(np.float64)  # type: ignore[union-attr]
    score = 3.0 * a.sum(axis=1)
    weight = np.exp(score - score.max())
    np.testing.assert_allclose(outputs["y"], weight @ a / weight.sum(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "head", "reason"),
    [
        (
            "float s = 0; for (int r = 0; r < rows; ++r) s += a[r * cols + c]; y[c] = s;",
            COLUMN.replace("cols)", "cols - 1)"),
            "no parameter",
        ),
        (
            "float s = 0; if (a[c] > 0) for (int r = 0; r < rows; ++r) s += a[r * cols + c]; y[c] = s;",
            COLUMN,
            "reach a reduction",
        ),
        (
            "float s = 0; if (a[c] > 0) return; for (int r = 0; r < rows; ++r) s += a[r * cols + c]; y[c] = s;",
            COLUMN,
            "return early",
        ),
        ("float s = 0; for (int r = 0; r < rows; ++r) s += a[r]; atomicAdd(&y[c], s);", COLUMN, "uses atomic"),
        ("float s = 0; for (int r = 0; r < rows; ++r) s = s * 0.5f + a[r]; y[c] = s;", COLUMN, "no loop"),
        ("float s = 0; for (int r = 0; r < rows; ++r) s += a[c * cols + r]; y[c] = s;", COLUMN, "neighbouring elements"),
        ("__shared__ float t[64]; t[c % 64] = a[c]; __syncthreads(); y[c] = t[0];", COLUMN, "uses __shared__"),
        ("for (int r = 0; r < rows; ++r) y[r * rows + c] = a[r];", COLUMN, None),  # rows may be 0 for all that is known
    ],
)
def test_other_kernels_are_refused(body: str, head: str, reason: str | None) -> None:
    found = reason_of(SplitLoops(kernel=KERNEL), source(body, head=head))

    assert found
    if reason is not None:
        assert reason in found, found


def test_a_bound_of_the_workgroup_size_follows_the_launch() -> None:
    text = NORMALISED.replace("__global__ void", "__global__ __launch_bounds__(64, 2) void")

    (rewrite,) = rewrites_of(SplitLoops(kernel=KERNEL, shapes=[(64, 4)]), text)

    assert "__launch_bounds__(256) void" in rewrite.text


def test_an_invalid_shape_is_rejected() -> None:
    with pytest.raises(LabError, match="invalid shape"):
        SplitLoops(kernel=KERNEL, shapes=[(64, 32)])
