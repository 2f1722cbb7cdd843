"""Loops that keep the largest or smallest values of a row, for a group of lanes: results, and chains that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.row_groups import RowGroups
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

ROWS, COLUMNS = 9, 150
HEAD = "#include <hip/hip_runtime.h>\n"
KERNEL = kernel_of(
    [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "rows", "3", access="out"), size("rows"), size("cols")],
    grid=["ceil_div(rows, 64)"],
    block=[64],
    rows=ROWS,
    cols=COLUMNS,
)
TWO = "if (v > p) { q = p; p = v; } else if (v > q) { q = v; }"
THREE = "if (v < p) { r = q; q = p; p = v; } else if (v < q) { r = q; q = v; } else if (v < r) r = v;"


def source(start: str, insert: str, end: str = "y[row * 3] = p; y[row * 3 + 1] = q; y[row * 3 + 2] = r;") -> str:
    """Return a kernel that keeps values of each row in `p`, `q` and `r`."""
    loop = f"for (int i = 0; i < cols; ++i) {{ float v = floorf(a[row * cols + i] * 20.0f); {insert} }}"
    row = "int row = blockIdx.x * blockDim.x + threadIdx.x;\n  if (row >= rows) return;\n"
    return f'{HEAD}extern "C" __global__ void f(const float* a, float* y, int rows, int cols) {{\n{row}{start}\n{loop}\n{end}}}\n'


@pytest.mark.parametrize("lanes", [64, 8])
@pytest.mark.parametrize(
    ("insert", "start", "sign"), [(TWO, "-INFINITY", -1), (THREE, "INFINITY", 1)], ids=["two largest", "three smallest"]
)
def test_the_extreme_values_of_a_row_are_merged(lanes: int, insert: str, start: str, sign: int) -> None:
    """Rounded values occur several times."""
    text = source(f"float r = {start}, p = {start}, q = {start};", insert)
    (rewrite,) = rewrites_of(RowGroups(kernel=KERNEL, lanes=[lanes], kept=[0]), text)

    launch, outputs = emulated(KERNEL, rewrite.text)

    a = np.floor(launch.arguments[0].data.astype(np.float32) * np.float32(20))  # type: ignore[union-attr]
    expected = sign * np.sort(sign * a, axis=1)
    count = 2 if insert == TWO else 3
    np.testing.assert_array_equal(outputs["y"][:, :count], expected[:, :count])


@pytest.mark.parametrize(
    ("start", "insert"),
    [
        ("float p = -INFINITY, q = -INFINITY;", "if (v > p) { p = v; q = p; } else if (v > q) { q = v; }"),
        ("float p = -INFINITY, q = -INFINITY;", "if (v > p) { q = p; p = v; }"),
        ("float p = -INFINITY, q = 0.0f;", TWO),
        ("float p = -INFINITY, q = -INFINITY; q = 3.0f;", TWO),
        ("float p = -INFINITY, q = -INFINITY;", TWO.replace("q = v;", "q = 2 * v;")),
        ("float p = -INFINITY; double q = -INFINITY;", TWO),
        ("float p = -INFINITY, q = -INFINITY;", TWO.replace("v > q", "v > 3.0f")),
    ],
    ids=["lost value", "second not tested", "other start", "assigned", "changed value", "other type", "constant"],
)
def test_other_chains_are_refused(start: str, insert: str) -> None:
    assert "no loop" in reason_of(RowGroups(kernel=KERNEL), source(start, insert, "y[row * 3] = p + q;"))
