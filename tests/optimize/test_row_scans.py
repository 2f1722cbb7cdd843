"""Scans of rows by a group of lanes: results at odd sizes, and the loops that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.row_groups import RowGroups
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

ROWS, COLUMNS = 21, 301
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


def outcome(body: str, lanes: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return input and output of the rewrite for a number of lanes."""
    (rewrite,) = rewrites_of(RowGroups(kernel=KERNEL, lanes=[lanes], kept=[0]), source(body))
    launch, outputs = emulated(KERNEL, rewrite.text)
    return launch.arguments[0].data.astype(np.float64), outputs["y"]  # type: ignore[union-attr]


@pytest.mark.parametrize("lanes", [64, 16])
def test_sums_of_the_elements_so_far(lanes: int) -> None:
    """301 elements are two parts of 64 lanes with four elements each."""
    a, y = outcome("float s = 1.0f; for (int i = 0; i < cols; ++i) { s += a[row * cols + i]; y[row * cols + i] = s; }", lanes)

    np.testing.assert_allclose(y, 1 + np.cumsum(a, axis=1), rtol=1e-4, atol=1e-4)


def test_sums_of_the_elements_before() -> None:
    a, y = outcome("float s = 0; for (int i = 0; i < cols; i++) { float v = a[row*cols+i]; y[row*cols+i] = s; s = s + v; }")

    np.testing.assert_allclose(y, np.cumsum(a, axis=1) - a, rtol=1e-4, atol=1e-4)


def test_a_running_maximum() -> None:
    a, y = outcome(
        "float m = -INFINITY; for (int i = 0; i < cols; ++i) { m = fmaxf(m, a[row * cols + i]); y[row * cols + i] = m; }", 16
    )

    np.testing.assert_allclose(y, np.maximum.accumulate(a, axis=1))


def test_a_scan_beside_a_reduction() -> None:
    """The share of each prefix in the sum of its row."""
    total = "float total = 0; for (int i = 0; i < cols; ++i) total += fabsf(a[row * cols + i]);\n"
    scan = "float s = 0; for (int i = 0; i < cols; ++i) { s += fabsf(a[row * cols + i]); y[row * cols + i] = s / total; }"

    a, y = outcome(total + scan)

    np.testing.assert_allclose(y, np.cumsum(abs(a), axis=1) / abs(a).sum(axis=1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize(
    "loop",
    [
        "s += s * a[row * cols + i]; y[row * cols + i] = s;",
        "s = a[row * cols + i] - s; y[row * cols + i] = s;",
        "if (i > 2) s += a[row * cols + i]; y[row * cols + i] = s;",
        "float h = s * 2; s += h; y[row * cols + i] = s;",
        "s += a[row * cols + i]; y[row * cols + (int)s] = s;",
        "y[row * cols + i] = s; s += y[row * cols + i] + a[i];",
        "s += a[row * cols + i]; y[row * cols + i] = s; if (s > 3) break;",
        "s += i ? y[row * cols + i - 1] : 0; y[row * cols + i] = s;",
    ],
)
def test_other_recurrences_are_refused(loop: str) -> None:
    text = source(f"float s = 0; for (int i = 0; i < cols; ++i) {{ {loop} }}")

    assert reason_of(RowGroups(kernel=KERNEL), text)
