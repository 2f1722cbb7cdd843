"""A group of lanes per row: results at odd sizes, and the kernels that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.transforms.row_groups import RowGroups
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

ROWS, COLUMNS = 37, 70
HEAD = "#include <hip/hip_runtime.h>\n"
ROW = "int row = blockIdx.x * blockDim.x + threadIdx.x;\n  if (row >= rows) return;\n"
KERNEL = kernel_of(
    [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "rows", "cols", access="out"), size("rows"), size("cols")],
    grid=["ceil_div(rows, 64)"],
    block=[64],
    rows=ROWS,
    cols=COLUMNS,
)


def source(body: str) -> str:
    """Return a kernel over `rows` rows of `a`."""
    return f'{HEAD}extern "C" __global__ void f(const float* a, float* y, int rows, int cols) {{\n  {ROW}{body}}}\n'


SOFTMAX = source("""
  float top = -INFINITY, sum = 0.0f;
  for (int i = 0; i < cols; ++i) top = fmaxf(top, a[row * cols + i]);
  for (int i = 0; i < cols; ++i) sum += expf(a[row * cols + i] - top);
  for (int i = 0; i < cols; ++i) y[row * cols + i] = expf(a[row * cols + i] - top) / sum;
""")


@pytest.mark.parametrize(
    ("lanes", "kept"),
    [(64, 2), *(pytest.param(*row, marks=pytest.mark.slow) for row in [(16, 0), (16, 2), (64, 0), (256, 0), (256, 2)])],
)
def test_softmax_is_distributed_over_lanes(lanes: int, kept: int) -> None:
    """Rows of 70 elements need a second step of 64 lanes, and more than two elements of 16 lanes."""
    (rewrite,) = rewrites_of(RowGroups(kernel=KERNEL, lanes=[lanes], kept=[kept]), SOFTMAX)

    launch, outputs = emulated(KERNEL, rewrite.text)

    a = launch.arguments[0].data.astype(np.float64)  # type: ignore[union-attr]
    weights = np.exp(a - a.max(axis=1, keepdims=True))
    np.testing.assert_allclose(outputs["y"], weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)


def test_the_launch_has_a_group_for_each_row() -> None:
    (rewrite,) = rewrites_of(RowGroups(kernel=KERNEL, lanes=[64], kept=[0]), SOFTMAX)

    launch, _ = emulated(KERNEL, rewrite.text)

    assert (launch.grid, launch.block) == ((10, 1, 1), (256, 1, 1))  # four rows per workgroup


def test_the_first_of_equal_extremes_is_found() -> None:
    body = """
  float best = -INFINITY;
  int where = 0;
  for (int i = 0; i < cols; ++i) {
    float value = floorf(a[row * cols + i]);
    if (value > best) { best = value; where = i; }
  }
  y[row * cols] = where;
"""
    (rewrite,) = rewrites_of(RowGroups(kernel=KERNEL, lanes=[16], kept=[0]), source(body))

    launch, outputs = emulated(KERNEL, rewrite.text)

    a = launch.arguments[0].data  # type: ignore[union-attr]
    np.testing.assert_array_equal(outputs["y"][:, 0], np.argmax(np.floor(a), axis=1))


def test_an_else_stays_with_its_condition() -> None:
    body = """
  float sum = 1.0f;
  for (int i = 0; i < cols; ++i) sum += a[row * cols + i];
  if (row % 2) y[row * cols] = sum; else y[row * cols + 1] = sum;
"""
    (rewrite,) = rewrites_of(RowGroups(kernel=KERNEL, lanes=[16], kept=[0]), source(body))

    launch, outputs = emulated(KERNEL, rewrite.text)

    sums = 1 + launch.arguments[0].data.astype(np.float64).sum(axis=1)  # type: ignore[union-attr]
    chosen = np.where(np.arange(ROWS) % 2, outputs["y"][:, 0], outputs["y"][:, 1])
    np.testing.assert_allclose(chosen, sums, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("float s = 0; for (int i = 0; i < cols; ++i) { s = s / 2 + a[row * cols + i]; y[row * cols + i] = s; }", "no loop"),
        ("for (int i = 0; i < cols; ++i) { if (a[i] < 0) break; y[row * cols + i] = 1; }", "no loop"),
        ("for (int i = 0; i < cols; ++i) y[row * cols + i / 2] = a[i];", "no loop"),
        ("for (int i = 0; i < cols; ++i) y[row * cols + i] = y[row * cols + cols - 1 - i];", "no loop"),
        ("for (int i = 0; i < cols; i += 2) y[row * cols + i] = a[i];", "no loop"),
        ("for (int i = 0; i < cols; ++i) y[row * cols + i] = threadIdx.x;", "uses threadIdx.x"),
        ("for (int i = 0; i < cols; ++i) atomicAdd(&y[i], a[i]);", "uses atomic"),
        (
            "for (int i = 0; i < cols; ++i) y[row * cols + i] = a[i]; float s = 0;"
            "for (int i = 0; i < cols; ++i) s += y[row * cols + i / 2]; y[row * cols] = s;",
            "accesses y in several ways",
        ),
    ],
)
def test_what_is_not_proved_is_refused(body: str, says: str) -> None:
    assert says in reason_of(RowGroups(kernel=KERNEL), source(body))


def test_sizes_of_groups_are_validated() -> None:
    with pytest.raises(LabError, match="powers of two"):
        RowGroups(kernel=KERNEL, lanes=[48])


ONE = kernel_of(
    [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "rows", "cols", access="out"), size("rows"), size("cols")],
    grid=["rows"],
    block=[64],
    rows=ROWS,
    cols=COLUMNS,
)
NORM = """float sum = 0.0f;
  for (int i = 0; i < cols; ++i) sum += a[blockIdx.x * cols + i] * a[blockIdx.x * cols + i];
  const float scale = rsqrtf(sum / cols);
  for (int i = 0; i < cols; ++i) y[blockIdx.x * cols + i] = a[blockIdx.x * cols + i] * scale;
"""


def one(body: str) -> str:
    """Return a kernel with a workgroup per row."""
    return f'{HEAD}extern "C" __global__ void f(const float* a, float* y, int rows, int cols) {{\n  {body}}}\n'


@pytest.mark.parametrize(
    ("block", "body"),
    [
        (64, f"if (threadIdx.x == 0) {{ {NORM} }}"),
        (64, f"if (threadIdx.x != 0) return; {NORM}"),
        (1, f"const int row = blockIdx.x; {NORM.replace('blockIdx.x', 'row')}"),
    ],
    ids=["first", "return", "alone"],
)
def test_a_row_of_one_work_item_gets_the_lanes_of_its_workgroup(block: int, body: str) -> None:
    kernel = ONE.model_copy(update={"block": (block,)})
    (rewrite,) = rewrites_of(RowGroups(kernel=kernel, lanes=[128], kept=[0]), one(body))

    launch, outputs = emulated(kernel, rewrite.text)

    a = launch.arguments[0].data.astype(np.float64)  # type: ignore[union-attr]
    np.testing.assert_allclose(outputs["y"], a / np.sqrt((a * a).mean(axis=1, keepdims=True)), rtol=1e-5)
    assert (launch.grid, launch.block) == ((ROWS, 1, 1), (128, 1, 1))


@pytest.mark.parametrize(
    "body",
    [
        f"if (threadIdx.x == 1) {{ {NORM} }}",
        f"if (threadIdx.x == 0) {{ {NORM} }} y[blockIdx.x] = 1;",
        f"y[blockIdx.x * cols + threadIdx.x] = 0; if (threadIdx.x == 0) {{ {NORM} }}",
        f"if (threadIdx.x < 2) {{ {NORM} }}",
    ],
)
def test_workgroups_in_which_others_work_are_refused(body: str) -> None:
    assert "no variable" in reason_of(RowGroups(kernel=ONE), one(body))
