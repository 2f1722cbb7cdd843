"""Kernels that divide their index into row and column: results with an axis for each, and the kernels that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.transforms.launch_shapes import LaunchShapes
from rocm_perf_lab.optimize.transforms.linear_indices import with_two_axes
from rocm_perf_lab.optimize.transforms.matrix_tiles import MatrixTiles
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, rewrites_of, size

ROWS, COLUMNS, INNER = 37, 41, 29
HEAD = "#include <hip/hip_runtime.h>\n"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
TOTAL = {"name": "all", "kind": "scalar", "dtype": "i32", "value": "m * n"}
BUFFERS = [buffer("a", "f32", "m", "k"), buffer("b", "f32", "k", "n", seed=2), buffer("c", "f32", "m", "n", access="out")]
KERNEL = kernel_of(
    [*BUFFERS, size("m"), size("n"), size("k"), TOTAL],
    grid=["ceil_div(m * n, 64)"],
    block=[64],
    m=ROWS,
    n=COLUMNS,
    k=INNER,
)
SUM = "float s = 0; for (int j = 0; j < k; ++j) s += a[row * k + j] * b[j * n + col];\n"


def source(body: str) -> str:
    """Return a kernel over `all` = `m` x `n` results."""
    parameters = "const float* a, const float* b, float* c, int m, int n, int k, int all"
    return f'{HEAD}extern "C" __global__ void f({parameters}) {{\n{body}\n}}\n'


@pytest.mark.parametrize(
    "body",
    [
        f"{INDEX} if (i >= m * n) return; int row = i / n, col = i % n; {SUM} c[i] = s;",
        f"{INDEX} if (i < n * m) {{ const int row = i / n; const int col = i - row * n; {SUM} c[row * n + col] = s; }}",
        f"{INDEX} int col = i % n; int row = i / n; if (i >= all) return; {SUM} c[i] = s;",
    ],
    ids=["return", "block", "total"],
)
def test_a_product_with_a_divided_index_is_tiled(body: str) -> None:
    transform = MatrixTiles(kernel=KERNEL, target=load_target("mi300x"), tiles=[[32, 32]], depths=[2])
    (rewrite,) = rewrites_of(transform, source(body))

    launch, outputs = emulated(KERNEL, rewrite.text)

    a, b = (launch.arguments[place].data.astype(np.float64) for place in (0, 1))  # type: ignore[union-attr]
    np.testing.assert_allclose(outputs["c"], a @ b, rtol=1e-4, atol=1e-4)
    assert launch.grid == (2, 2, 1)


def test_columns_and_rows_become_axes_of_other_workgroups() -> None:
    body = f"{INDEX} if (i >= m * n) return; int row = i / n, col = i % n; c[i] = row * 1000 + col + a[0] * 0;"
    *_, last = rewrites_of(LaunchShapes(kernel=KERNEL, shapes=[[32, 8]]), source(body))

    launch, outputs = emulated(KERNEL, last.text)

    assert "exchanged" in last.description
    assert launch.block == (32, 8, 1)
    np.testing.assert_array_equal(outputs["c"], 1000 * np.arange(ROWS)[:, None] + np.arange(COLUMNS))


@pytest.mark.parametrize(
    "body",
    [
        f"{INDEX} int row = i / n, col = i % n; c[i] = 0;",
        f"{INDEX} if (i >= m * n) return; int row = i / n, col = i % m; c[i] = 0;",
        f"{INDEX} if (i >= m * n) return; int row = i / n, col = i % n; row += 1; c[i] = 0;",
        f"{INDEX} if (i >= m * n) return; int row = i / n, col = i % n, d = 3; c[i] = 0;",
        f"{INDEX} if (i >= m * k) return; int row = i / n, col = i % n; c[i] = 0;",
        f"{INDEX} if (i >= m * n - 1) return; int row = i / n, col = i % n; c[i] = 0;",
        f"{INDEX} if (i >= m * n || k < 3) return; int row = i / n, col = i % n; c[i] = 0;",
        f"{INDEX} if (i >= m * n) return; int row = (i + 1) / n, col = i % n; c[i] = 0;",
        f"{INDEX} if (i >= m * n) return; int row = i / n, col = i % n; c[i] = threadIdx.x;",
        f"{INDEX} if (i >= m * n) return; i += 1; int row = i / n, col = i % n; c[i] = 0;",
    ],
)
def test_other_kernels_stay(body: str) -> None:
    assert with_two_axes(parse_source(source(body).encode(), "f"), KERNEL) is None
