"""Matrix products by matrix instructions: results at odd sizes for each element type, and kernels that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.transforms.matrix_tiles import MatrixTiles
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

if TYPE_CHECKING:
    from rocm_perf_lab.languages.description import KernelDescription

M, N, K = 37, 70, 41
INDICES = "int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;"


def integers(name: str, dtype: str, *shape: str) -> dict[str, Any]:
    """Return an input of small integers, whose products are exact in every type."""
    init = {"kind": "integers", "low": -8, "high": 8, "seed": 3}
    return {"name": name, "kind": "buffer", "dtype": dtype, "shape": list(shape), "access": "in", "init": init}


def kernel(dtype: str = "f32", *, b_shape: tuple[str, str] = ("k", "n"), total: str = "f32") -> KernelDescription:
    """Return the description of C = A B."""
    arguments = [integers("a", dtype, "m", "k"), integers("b", dtype, *b_shape), buffer("c", total, "m", "n", access="out")]
    sizes = [size("m"), size("n"), size("k")]
    return kernel_of([*arguments, *sizes], grid=["ceil_div(n, 16)", "ceil_div(m, 16)"], block=[16, 16], m=M, n=N, k=K)


def source(element: str, total: str, loop: str, after: str = "c[row * n + col] = sum;", before: str = "") -> str:
    """Return a kernel with one element of the result per work-item."""
    return f"""#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
extern "C" __global__ void f(const {element}* a, const {element}* b, {total}* c, int m, int n, int k) {{
  {INDICES}
  if (row >= m || col >= n) return;
  {before}
  {total} sum = 0;
  for (int i = 0; i < k; ++i) {loop}
  {after}
}}
"""


PLAIN = "sum += a[row * k + i] * b[i * n + col];"


def transform(description: KernelDescription, *tiles: tuple[int, int], gpu: str = "mi300x") -> MatrixTiles:
    """Return the transform with some tiles."""
    return MatrixTiles(kernel=description, target=load_target(gpu), tiles=tiles or [(32, 32)], depths=[2])


@pytest.mark.parametrize(
    ("dtype", "element", "total", "loop"),
    [
        ("f32", "float", "float", PLAIN),
        pytest.param(
            "f16",
            "__half",
            "float",
            "sum += __half2float(a[row * k + i]) * __half2float(b[i * n + col]);",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "bf16",
            "__hip_bfloat16",
            "float",
            "sum += __bfloat162float(a[row * k + i]) * __bfloat162float(b[i * n + col]);",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "i8", "signed char", "int", "{ sum = sum + (int)a[row * k + i] * (int)b[i * n + col]; }", marks=pytest.mark.slow
        ),
    ],
)
def test_products_of_small_integers_are_exact(dtype: str, element: str, total: str, loop: str) -> None:
    description = kernel(dtype, total="i32" if total == "int" else "f32")
    (rewrite,) = rewrites_of(transform(description), source(element, total, loop))

    launch, outputs = emulated(description, rewrite.text)

    a, b = (launch.arguments[n].data.astype(np.float64) for n in (0, 1))  # type: ignore[union-attr]
    np.testing.assert_array_equal(outputs["c"].astype(np.float64), a @ b)
    assert launch.grid == (3, 2, 1)  # 70 x 37 results in tiles of 32 x 32


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("if (row < m) { if (col < n) {", "} }"),
        ("if ((row < m) && (col < n)) {", "}"),
        ("if (k < 0 || row >= m || col >= n) return;", ""),
        ("if (k < 0) return; if (row >= m) return; if (col >= n) return;", ""),
    ],
)
def test_other_guards_and_factors_in_variables(start: str, end: str) -> None:
    loop = "{ const int at = i * n + col; float x = a[row * k + i]; const float y = b[at]; sum = sum + x * y; }"
    text = source("float", "float", loop).replace("if (row >= m || col >= n) return;", start).rstrip("\n}")
    (rewrite,) = rewrites_of(transform(kernel()), f"{text}{end}}}\n")

    launch, outputs = emulated(kernel(), rewrite.text)

    a, b = (launch.arguments[n].data.astype(np.float64) for n in (0, 1))  # type: ignore[union-attr]
    np.testing.assert_array_equal(outputs["c"], a @ b)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("if (row + col > 50 || row >= m || col >= n) return;", "no bounds"),
        ("const int odd = threadIdx.x % 2; if (odd || row >= m || col >= n) return;", "returns early"),
        ("const int odd = row % 2; if (odd > 0 || row >= m || col >= n) return;", "returns early"),
    ],
)
def test_conditions_that_differ_between_work_items_are_refused(start: str, reason: str) -> None:
    text = source("float", "float", PLAIN).replace("if (row >= m || col >= n) return;", start)

    found = reason_of(transform(kernel()), text)
    assert reason in found or "threadIdx" in found


def test_a_transposed_operand_and_code_after_the_loop_are_kept() -> None:
    description = kernel(b_shape=("n", "k"))
    text = source(
        "float",
        "float",
        "sum = fmaf(left[i], b[col * k + i], sum);",
        before="const float* left = a + row * k;",
        after="c[row * n + col] = fmaxf(sum, 0.0f) + row;",
    )
    (rewrite,) = rewrites_of(transform(description, (64, 32)), text)

    launch, outputs = emulated(description, rewrite.text)

    a, b = (launch.arguments[n].data.astype(np.float64) for n in (0, 1))  # type: ignore[union-attr]
    np.testing.assert_array_equal(outputs["c"], np.maximum(a @ b.T, 0) + np.arange(M)[:, None])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (source("float", "float", "sum += a[row * k + i] * b[i * n + row];"), "same index"),
        (source("float", "float", "sum += a[row * k + i] * b[i * n + col + row];"), "does not depend on one index"),
        (source("float", "float", "sum += sqrtf(a[row * k + i]) * b[i * n + col];"), "more than a product"),
        (source("float", "float", "sum -= a[row * k + i] * b[i * n + col];"), "does not add products"),
        (source("double", "double", PLAIN), "type of sum"),
        (source("float", "float", PLAIN).replace("if (row >= m || col >= n) return;", ""), "no bounds"),
        (source("float", "float", PLAIN, after="if (threadIdx.x == 0) c[row * n + col] = sum;"), "uses threadIdx.x"),
        (source("float", "float", PLAIN, after="atomicAdd(&c[row * n + col], sum);"), "uses atomicAdd"),
    ],
)
def test_what_is_not_proved_is_refused(text: str, says: str) -> None:
    assert says in reason_of(transform(kernel()), text)


def test_a_gpu_without_the_instructions_is_refused() -> None:
    assert "lacks" in reason_of(transform(kernel(), gpu="rx6800"), source("float", "float", PLAIN))


def test_tiles_are_validated() -> None:
    with pytest.raises(LabError, match="invalid tile"):
        transform(kernel(), (48, 32))
