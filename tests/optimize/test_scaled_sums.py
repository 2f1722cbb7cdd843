"""Sums relative to the largest value so far: the forms that are recognised, and similar loops that are not."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import walk
from rocm_perf_lab.optimize.transforms.reductions import IndependentLoop, independent_loop
from rocm_perf_lab.optimize.transforms.row_groups import RowGroups
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, rewrites_of, size

NEW_TOP = "float v = x[i], n = fmaxf(m, v); d = d * expf(m - n) + expf(v - n); m = n;"
RECOGNISED = [
    NEW_TOP,
    "float v = x[i]; float n = m > v ? m : v; d = d * expf(m - n) + expf(v - n); m = n;".replace(
        "m > v ? m : v", "v > m ? v : m"
    ),
    "float v = x[i], n = fmaxf(v, m), old = __expf(m - n); d *= old; d += 2.0f * x[i] * __expf(v - n); m = n;",
    "float v = x[i]; if (v > m) { d *= expf(m - v); m = v; } d += expf(v - m);",
    "float v = x[i], n = fmaxf(m, v); d = fmaf(d, expf(m - n), expf(v - n)); m = n;",
]
OTHERS = [
    NEW_TOP.replace("expf(v - n)", "expf(v)"),
    NEW_TOP.replace("expf(v - n)", "m * expf(v - n)"),
    NEW_TOP.replace("expf(v - n)", "expf(v - n) / n"),
    NEW_TOP.replace("d * expf(m - n)", "d * expf(n - m)"),
    NEW_TOP.replace("fmaxf(m, v)", "fminf(m, v)"),
    NEW_TOP.replace("fmaxf(m, v)", "m > v ? m : v"),  # keeps a NaN
    NEW_TOP.replace("d = d", "v = v + 1; d = d"),
    NEW_TOP.replace("m = n;", "m = v;"),
    NEW_TOP.replace("float v = x[i], n", "float v = x[i]; int n"),
    NEW_TOP.replace("m = n;", "m = n; d += 1;"),
    "float v = x[i]; if (v > m) { m = v; d *= expf(m - v); } d += expf(v - m);",
    "float v = x[i]; if (v > m) { d *= expf(m - v); m = v; } v = 0; d += expf(v - m);",
    "float v = x[i]; if (v > m) { d *= expf(m - v); m = v; } d += expf(x[i] - m);",
]


def loop_of_body(body: str) -> IndependentLoop | str:
    """Return the loop with a body, or why it is not independent."""
    loop = f"float m = -INFINITY, d = 0; for (int i = 0; i < count; ++i) {{ {body} }}"
    text = f"__global__ void f(const float* x, float* y, int count) {{ {loop} }}"
    unit = parse_source(text.encode(), "f")
    return independent_loop(unit, next(n for n in walk(unit.kernel) if n.type == "for_statement"))


@pytest.mark.parametrize("body", RECOGNISED)
def test_forms_that_are_recognised(body: str) -> None:
    found = loop_of_body(body)

    assert isinstance(found, IndependentLoop), found
    assert [r.operation for r in found.reductions] == ["scaled sums"]


@pytest.mark.parametrize("body", OTHERS)
def test_similar_loops_are_refused(body: str) -> None:
    assert isinstance(loop_of_body(body), str)


@pytest.mark.parametrize("body", [RECOGNISED[0], RECOGNISED[3]])
def test_rows_with_infinite_elements_have_the_same_result(body: str) -> None:
    """A lane whose elements are all -inf adds nothing. A row that begins with -inf stays NaN."""
    kernel = kernel_of(
        [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "rows", access="out"), size("rows"), size("cols")],
        grid=["1"],
        block=[64],
        rows=5,
        cols=21,
    )
    row = "int row = blockIdx.x * blockDim.x + threadIdx.x; if (row >= rows) return; const float* z = a + row * cols;"
    changed = body.replace("x[i]", "(i % 8 == row || z[i] < -1.0f ? -INFINITY : z[i])")
    text = (
        f'#include <hip/hip_runtime.h>\nextern "C" __global__ void f(const float* a, float* y, int rows, int cols) {{ {row} '
        f"float m = -INFINITY, d = 0.0f; for (int i = 0; i < cols; ++i) {{ {changed} }} y[row] = m + logf(d); }}\n"
    )
    (rewrite,) = rewrites_of(RowGroups(kernel=kernel, lanes=[8], kept=[0]), text)

    _, expected = emulated(kernel, text)
    _, outputs = emulated(kernel, rewrite.text)

    assert np.isnan(expected["y"]).any()
    np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-5)
