"""Several elements per work-item: equal bits, shared statements, and kernels that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.coarsening import CoarsenWorkItems
from rocm_perf_lab.optimize.transforms.launch_shapes import LaunchShapes
from rocm_perf_lab.toolchain.disassembly import disassemble
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

LINE = kernel_of(
    [buffer("a", "f32", "n"), buffer("y", "f32", "n", access="out"), size("n")], grid=["ceil_div(n, 64)"], block=[64], n=203
)
PLANE = kernel_of(
    [buffer("a", "f32", "h", "w"), buffer("b", "f32", "w"), buffer("y", "f32", "h", "w", access="out"), size("h"), size("w")],
    grid=["ceil_div(w, 16)", "ceil_div(h, 4)"],
    block=[16, 4],
    h=21,
    w=37,
)

LINE_BODIES = {
    "early return": "if (i >= n) return; y[i] = 2 * a[i];",
    "neighbours": "if (i < n) { float s = a[i]; if (i) s += a[i - 1]; if (i < n - 1) { s += a[i + 1]; } else s = 3; y[i] = s; }",
    "excluded ends": "if (i < 1 || i >= n) return; int k = i - 1; if (i < n - 1) y[i] = a[k] - a[i + 1];",
    "shared loop": "if (i < n) { float s = 0; for (int k = 0; k < n; ++k) { float d = a[k] - a[i]; s += d * d; } y[i] = s; }",
    "own loop": "if (i < n) { float s = 0; for (int k = 0; k < i; ++k) s += a[k]; y[i] = s; }",
    "jump": "if (i < n) { float s = 0; for (int k = 0; k < n; ++k) { if (k > 5 * i) break; s += a[k]; } y[i] = s; }",
    "while": "if (i < n) { int k = i, c = 0; while (k > 1) { k = k % 2 ? 3 * k + 1 : k / 2; ++c; } y[i] = c; }",
    "array": "if (i < n) { float t[4]; for (int k = 0; k < 4; ++k) t[k] = a[(i + k) % n]; y[i] = t[0] + t[1] - t[2] + t[3]; }",
    "switch": "if (i < n) { float s = a[i]; switch (i % 3) { case 0: s = -s; break; case 1: s += 1; } y[i] = s; }",
    "uniform branch": "if (i < n) { float s = a[i]; if (n > 100) { float t = a[0]; s += t; } else { s = 0; } y[i] = s; }",
    "comment": "if (i < n) // an element\n{ for (int k = 0; k < 2; ++k) // twice\n{ y[i] = a[i] + k; } }",
    "function": "if (i < n) y[i] = at(a, i) + at(a, n - 1 - i);",
}
PLANE_BODIES = {
    "product": "if (r >= h || c >= w) return; float row = a[r * w], col = b[c]; y[r * w + c] = row * col;",
    "sums of rows": "if (r < h && c < w) { float s = 0; for (int k = 0; k < w; k++) s += a[r * w + k]; y[r * w + c] = s + *b; }",
    "variable of two axes": "if (r < h && c < w) { float s = a[r * w], *p = y + r * w; if (r > 3) s *= b[c]; p[c] = s; }",
}


def line(body: str, before: str = "") -> str:
    """Return a kernel with one axis."""
    return f"""#include <hip/hip_runtime.h>
__device__ float at(const float* p, int i) {{ return p[i]; }}
{before}
extern "C" __global__ void f(const float* a, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {body}
}}
"""


def plane(body: str) -> str:
    """Return a kernel with two axes."""
    return f"""#include <hip/hip_runtime.h>
extern "C" __global__ void f(const float* a, const float* b, float* y, int h, int w) {{
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 4 + threadIdx.y;
  {body}
}}
"""


@pytest.mark.parametrize("body", LINE_BODIES.values(), ids=LINE_BODIES)
def test_elements_of_one_axis_have_the_same_bits(body: str) -> None:
    _, wanted = emulated(LINE, line(body))

    for rewrite in rewrites_of(CoarsenWorkItems(kernel=LINE, elements=[3, 4]), line(body)):
        _, outputs = emulated(LINE, rewrite.text)
        np.testing.assert_array_equal(outputs["y"].view(np.uint32), wanted["y"].view(np.uint32), err_msg=rewrite.text)


@pytest.mark.parametrize("body", PLANE_BODIES.values(), ids=PLANE_BODIES)
@pytest.mark.parametrize("block", [(1, 4), (3, 1), (2, 2)])
def test_elements_of_two_axes_have_the_same_bits(body: str, block: tuple[int, int]) -> None:
    _, wanted = emulated(PLANE, plane(body))

    (rewrite,) = rewrites_of(CoarsenWorkItems(kernel=PLANE, blocks=[block]), plane(body))

    _, outputs = emulated(PLANE, rewrite.text)
    np.testing.assert_array_equal(outputs["y"].view(np.uint32), wanted["y"].view(np.uint32))


def test_a_launch_has_as_many_work_items_less() -> None:
    two, four, apart = rewrites_of(CoarsenWorkItems(kernel=LINE, elements=[2, 4]), line(LINE_BODIES["early return"]))

    grids = [emulated(LINE, rewrite.text)[0].grid for rewrite in (two, four, apart)]

    assert grids == [(2, 1, 1), (1, 1, 1), (1, 1, 1)]  # 203 elements by 64 * 2 and by 64 * 4
    assert [r.description for r in (two, apart)] == [
        "2 elements per work-item, along x",
        "4 elements per work-item, a workgroup apart",
    ]


def test_elements_share_loops_and_loads_that_do_not_depend_on_them() -> None:
    (rewrite,) = rewrites_of(CoarsenWorkItems(kernel=PLANE, blocks=[(2, 3)]), plane(PLANE_BODIES["product"]))
    together = rewrite.text.partition("else")[0]

    assert together.count("a[r") == 3  # one per row
    assert together.count("= b[c") == 2  # one per column
    assert together.count("y[r") == 6


def test_consecutive_elements_are_accessed_as_vectors() -> None:
    four = rewrites_of(CoarsenWorkItems(kernel=LINE, elements=[4]), line(LINE_BODIES["early return"]))[0]

    launch, _ = emulated(LINE, four.text)

    used = {row.mnemonic for row in disassemble(launch.code_object, "f")}
    assert {"global_load_dwordx4", "global_store_dwordx4"} <= used


def test_a_source_with_another_workgroup_gets_more_elements_too() -> None:
    text = plane(PLANE_BODIES["sums of rows"])
    _, wanted = emulated(PLANE, text)
    shaped = rewrites_of(LaunchShapes(kernel=PLANE, shapes=[(32, 2)]), text)[0]

    (rewrite,) = rewrites_of(CoarsenWorkItems(kernel=PLANE, blocks=[(1, 4)]), shaped.text)

    launch, outputs = emulated(PLANE, rewrite.text)
    assert (launch.grid, launch.block) == ((2, 3, 1), (32, 2, 1))  # 37 columns by 32, 21 rows by 2 * 4
    np.testing.assert_array_equal(outputs["y"], wanted["y"])


def test_an_atomic_is_executed_once_per_element() -> None:
    counted = kernel_of(
        [
            buffer("a", "f32", "n"),
            {**buffer("y", "f32", "n", access="inout"), "init": {"kind": "constant", "value": 0}},
            size("n"),
        ],
        grid=["ceil_div(n, 64)"],
        block=[64],
        n=203,
    )
    text = line("if (i < n) atomicAdd(&y[n / 2], 1.0f);")

    for rewrite in rewrites_of(CoarsenWorkItems(kernel=counted, elements=[4]), text):
        assert emulated(counted, rewrite.text)[1]["y"][101] == 203


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (line("y[i] = a[i];"), "no bounds"),
        (line("if (i < n) { __shared__ float t; t = a[i]; y[i] = t; }"), "uses __shared__"),
        (line("if (i < n) y[i] = atomicAdd(y, a[i]);"), "calls atomicAdd"),
        (line("if (i < n) { float s = a[i]; if (s < 0) return; y[i] = s; }"), "returns after an access"),
        (line("if (i < n) { y[i] = a[i]; __threadfence(); }"), "uses __threadfence"),
        (line("if (i < n) { float s = a[i]; float* p = &s; y[i] = *p; }"), "uses the address of s"),
        (line("if (i < n) { float t[2]; float* p = t; p[0] = a[i]; y[i] = t[0]; }"), "uses the address of t"),
        (line("if (i < n) { float s = a[i]; float& q = s; q += 1; y[i] = s; }"), "uses references"),
        (line("if (i < n) { auto g = [&](int k) { return a[k]; }; y[i] = g(i); }"), "uses a lambda"),
        (line("if (i < n) { ADD; y[i] = s; }", "#define ADD float s = a[i]"), "uses the macro ADD"),
        (line("if (i < n) { static float s; y[i] = s; }"), "uses static"),
        (line("if (i < n) { y = y + 0; y[i] = a[i]; }"), "assigns y"),
        (line("if (i < n) { i = i + 0; y[i] = a[i]; }"), "assigns an index"),
        (line("if (i < n) { total += 1; y[i] = a[i]; }", "__device__ int total;"), "assigns total"),
    ],
)
def test_kernels_with_other_effects_are_refused(text: str, says: str) -> None:
    assert says in reason_of(CoarsenWorkItems(kernel=LINE), text)
