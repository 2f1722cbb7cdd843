"""Products over tiles in LDS: the same product without tiles, for the ways in which such kernels are written."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.transforms.matrix_tiles import MatrixTiles
from rocm_perf_lab.optimize.transforms.untiled import without_tiles
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, rewrites_of, size

ARGUMENTS = [
    buffer("a", "f32", "m", "k"),
    buffer("b", "f32", "k", "n", seed=2),
    buffer("c", "f32", "m", "n", access="out"),
    *map(size, "mnk"),
]
EXACT = kernel_of(ARGUMENTS, grid=["n // 16", "m // 16"], block=[16, 16], m=48, n=32, k=64)
COVERING = kernel_of(ARGUMENTS, grid=["ceil_div(n, 16)", "ceil_div(m, 16)"], block=[16, 16], m=37, n=50, k=41)
TILES = "__shared__ float ta[T][T]; __shared__ float tb[T][T];"
INDICES = "int tx = threadIdx.x, ty = threadIdx.y; int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;"
SUM = "__syncthreads(); for (int i = 0; i < T; ++i) sum += ta[ty][i] * tb[i][tx]; __syncthreads();"


def source(loop: str, store: str, tiles: str = TILES, indices: str = INDICES) -> str:
    """Return a product of tiles."""
    return f"""#include <hip/hip_runtime.h>
#define T 16
extern "C" __global__ void f(const float* a, const float* b, float* c, int m, int n, int k) {{
  {tiles}
  {indices}
  float sum = 0.0f;
  {loop}
  {store}
}}
"""


STORE, TESTED = "c[row * n + col] = sum;", "if (row < m && col < n) c[row * n + col] = sum;"
PLAIN = (
    f"for (int t = 0; t < k / T; ++t) {{ ta[ty][tx] = a[row * k + t * T + tx]; tb[ty][tx] = b[(t * T + ty) * n + col]; {SUM} }}"
)
PADDED = f"""for (int t = 0; t < (k + T - 1) / T; t++) {{
    ta[ty][tx] = (row < m && t * T + tx < k) ? a[row * k + t * T + tx] : 0.0f;
    tb[ty][tx] = (col < n && t * T + ty < k) ? b[(t * T + ty) * n + col] : 0.0f; {SUM} }}"""
BRANCHES = f"""for (int t = 0; t < (k + T - 1) / T; t++) {{
    if (row < m && t * T + tx < k) ta[ty][tx] = a[row * k + t * T + tx]; else ta[ty][tx] = 0;
    if (t * T + ty < k && col < n) {{ tb[ty][tx] = b[(t * T + ty) * n + col]; }} else {{ tb[ty][tx] = 0; }} {SUM} }}"""
BY_ELEMENTS = (
    f"for (int t = 0; t < k; t += T) {{ ta[ty][tx] = a[row * k + (t + tx)]; tb[ty][tx] = b[(t + ty) * n + col]; {SUM} }}"
)
NAMED = f"""for (int t = 0; t < k / T; ++t) {{ int ai = t * T + tx; int bi = T * t + ty;
    ta[ty][tx] = a[row * k + ai]; tb[ty][tx] = b[bi * n + col]; {SUM} }}"""
TRANSPOSED = PLAIN.replace("ta[ty][tx]", "ta[tx][ty]").replace("ta[ty][i]", "ta[i][ty]")
SPELLINGS = {
    "exact": (EXACT, source(PLAIN, STORE)),
    "zeros outside": (COVERING, source(PADDED, TESTED)),
    "branches": (COVERING, source(BRANCHES, TESTED)),
    "loop by elements": (EXACT, source(BY_ELEMENTS, STORE)),
    "named indices": (EXACT, source(NAMED, STORE)),
    "transposed tile": (EXACT, source(TRANSPOSED, STORE)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_product_of_tiles_becomes_one_loop(spelling: str) -> None:
    kernel, text = SPELLINGS[spelling]

    untiled = without_tiles(parse_source(text.encode(), "f"), kernel)

    assert untiled is not None
    plain = untiled.content.decode()
    assert "__shared__" not in plain
    assert len(re.findall(r"\bfor\b", plain)) == 1
    launch, outputs = emulated(kernel, plain)
    a, b = (buffer.data for buffer in launch.arguments[:2])  # type: ignore[union-attr]
    np.testing.assert_allclose(outputs["c"], a.astype(float) @ b, rtol=1e-4, atol=1e-4)


def test_it_is_then_computed_by_matrix_instructions() -> None:
    transform = MatrixTiles(kernel=COVERING, target=load_target("mi300x"), tiles=[(32, 32)], depths=[4])
    _, text = SPELLINGS["zeros outside"]

    (rewrite,) = rewrites_of(transform, text)

    assert "__builtin_amdgcn_mfma_f32" in rewrite.text
    launch, outputs = emulated(COVERING, rewrite.text)
    a, b = (buffer.data for buffer in launch.arguments[:2])  # type: ignore[union-attr]
    np.testing.assert_allclose(outputs["c"], a.astype(float) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        source(PLAIN, "c[row * n + col] = sum + ta[ty][tx];"),
        source(PLAIN.replace("ta[ty][i]", "ta[i][ty]"), STORE),
        source(PLAIN.replace("i < T", "i < 17").replace("[T][T]", "[17][17]"), STORE),
        source(PLAIN.replace("ta[ty][tx] = a", "ta[ty][tx] = 2 * ta[ty][tx] + a"), STORE),
        source(PLAIN.replace("t * T + tx]", "t * 8 + tx]"), STORE),
        source(PLAIN.replace("a[row * k + t * T + tx]", "tx > 3 ? a[row * k + t * T + tx] : 1.0f"), STORE),
        source(PADDED.replace("row < m", "row < n"), TESTED),
        source(PLAIN.replace("ta[ty][tx] = a[row * k + t * T + tx]", "ta[ty][tx] = a[row * k + col]"), STORE),
        source(PLAIN.replace(SUM, f"{SUM} sum *= 2;"), STORE),
        source(PLAIN, f"{STORE} c[0] = 0;"),
    ],
)
def test_other_uses_of_tiles_are_kept(text: str) -> None:
    assert without_tiles(parse_source(text.encode(), "f"), EXACT) is None
