"""Variables that a loop accumulates: the forms that are recognised, and similar ones whose order matters."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import walk
from rocm_perf_lab.optimize.transforms.reductions import IndependentLoop, independent_loop
from rocm_perf_lab.optimize.transforms.row_groups import RowGroups
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, rewrites_of, size

EXTREMES = {
    "if (x[i] > m) m = x[i];": "max",
    "float v = x[i]; if (m < v) { m = v; }": "max",
    "if (x[i] <= m) m = x[i];": "min",
    "m = x[i] > m ? x[i] : m;": "max",
    "m = m > x[i] ? x[i] : m;": "min",
    "k = k > z[i] ? k : z[i];": "max",  # integers have no NaN
    "if (x[i] > x[k]) k = i;": "first max",
    "if (x[k] > x[i]) k = i;": "first min",
    "t = x[i] * x[i]; m += t;": "sum",
}
ORDERED = [
    "m = m > x[i] ? m : x[i];",  # keeps a NaN until the next element
    "if (x[i] > m) m = x[i] + 1;",
    "if (x[i] > m) m = x[i]; else m = 0;",
    "if (x[i] > m) { m = x[i]; y[0] = 1; }",
    "if (x[i] > x[k] + 1) k = i;",
    "if (x[i] >= x[k]) k = i;",
    "if (i > 2) t = x[i]; m += t;",
    "if (u[i] > k) k = u[i];",  # compares as unsigned
    "t = x[i]; if (x[i] * t > x[k] * t) k = i;",
    "m += t; t = x[i];",
]


def loop_of_body(body: str) -> IndependentLoop | str:
    """Return the loop with a body, or why it is not independent."""
    loop = f"float m = 0, t; int k = 0; for (int i = 0; i < count; ++i) {{ {body} }}"
    text = f"__global__ void f(const float* x, const int* z, const unsigned* u, float* y, int count) {{ {loop} y[1] = m + k; }}"
    unit = parse_source(text.encode(), "f")
    return independent_loop(unit, next(n for n in walk(unit.kernel) if n.type == "for_statement"))


@pytest.mark.parametrize(("body", "operation"), EXTREMES.items())
def test_forms_that_are_recognised(body: str, operation: str) -> None:
    found = loop_of_body(body)

    assert isinstance(found, IndependentLoop), found
    assert [r.operation for r in found.reductions] == [operation]


@pytest.mark.parametrize("body", ORDERED)
def test_loops_whose_order_matters_are_refused(body: str) -> None:
    assert isinstance(loop_of_body(body), str)


def test_a_row_is_normalised_in_place_by_lanes() -> None:
    """The output of a row is stored, read and stored again by the same lane; elements are counted once."""
    kernel = kernel_of(
        [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "rows", "cols", access="out"), size("rows"), size("cols")],
        grid=["ceil_div(rows, 64)"],
        block=[64],
        rows=9,
        cols=37,
    )
    text = """#include <hip/hip_runtime.h>
extern "C" __global__ void f(const float* a, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    const float* in = &a[row * cols];
    float* out = &y[row * cols];
    float top = in[0], sum = 0.0f;
    int place = 0;
    for (int i = 1; i < cols; ++i)
      if (in[i] > top) top = in[i];
    for (int i = 1; i < cols; ++i)
      if (in[i] < in[place]) place = i;
    for (int i = 0; i < cols; ++i) {
      out[i] = expf(in[i] - top);
      sum += out[i];
    }
    for (int i = 0; i < cols; ++i) out[i] = out[i] / sum + place;
  }
}
"""
    (rewrite,) = rewrites_of(RowGroups(kernel=kernel, lanes=[16], kept=[0]), text)

    launch, outputs = emulated(kernel, rewrite.text)

    a = launch.arguments[0].data.astype(np.float64)  # type: ignore[union-attr]
    weights = np.exp(a - a.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) + a.argmin(axis=1)[:, None]
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-5)
