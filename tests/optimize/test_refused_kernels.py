"""Kernels near to those that transforms rewrite, in which the rewrite would compute something else: no transform proposes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.grid_atomics import GridAtomics
from rocm_perf_lab.optimize.transforms.hoisting import HoistInvariants
from rocm_perf_lab.optimize.transforms.launch_shapes import LaunchShapes
from rocm_perf_lab.optimize.transforms.matrix_tiles import MatrixTiles
from rocm_perf_lab.optimize.transforms.row_groups import RowGroups
from rocm_perf_lab.optimize.transforms.strength_reduction import ReduceStrength
from rocm_perf_lab.optimize.transforms.tree_reductions import TreeReductions
from rocm_perf_lab.optimize.transforms.vector_loads import VectorLoads
from rocm_perf_lab.optimize.transforms.wave_reduction import WaveReduction
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

if TYPE_CHECKING:
    from rocm_perf_lab.languages.description import KernelDescription

HEAD = "#include <hip/hip_runtime.h>\n"
INDEX = "int row = blockIdx.x * blockDim.x + threadIdx.x;\n  "
TEST = "if (row >= rows) return;\n  "
SUM = "float s = 0; for (int i = 0; i < cols; ++i) s += a[row * cols + i]; y[row] = s;"


def rows(grid: str = "ceil_div(rows, 64)", block: int = 64) -> KernelDescription:
    """Return the description of a kernel with one work-item per row."""
    arguments = [buffer("a", "f32", "rows", "cols"), buffer("y", "f32", "rows", "cols", access="out"), size("rows"), size("cols")]
    return kernel_of(arguments, grid=[grid], block=[block], rows=24, cols=70)


def row_source(body: str, *, before: str = INDEX + TEST, head: str = "", a: str = "const float* a", y: str = "float* y") -> str:
    """Return a kernel over rows of `a`."""
    return f'{HEAD}{head}extern "C" __global__ void f({a}, {y}, int rows, int cols) {{\n  {before}{body}}}\n'


ROWS_REFUSED = {
    "a variable of an inner scope has the name of the sum": row_source(
        "float s = 0; for (int i = 0; i < cols; ++i) { s += a[row * cols + i]; { float s = 1; s += 2; } } y[row] = s;"
    ),
    "a pointer moves against the index": row_source(
        "for (int i = 0; i < cols; ++i) { float* p = y + row * cols - i; p[i] = a[row * cols + i]; }"
    ),
    "a member depends on the element before": row_source(
        "for (int i = 1; i < cols; ++i) y[row * cols + i].x = y[row * cols + i - 1].x + a[row * cols + i];", y="float2* y"
    ),
    "a reference is to the same element twice": row_source(
        "for (int i = 0; i < cols; ++i) { float& r = y[row * cols + i / 2]; r += a[row * cols + i]; }"
    ),
    "an outer loop shifts the index": row_source(
        "for (int k = 0; k < 3; ++k) for (int i = 0; i < cols - 3; ++i) y[row * cols + i + k] += a[row * cols + i];"
    ),
    "an outer loop changes the start": row_source(
        "for (int j = 0; j < cols; ++j) for (int i = j; i < cols; ++i) y[row * cols + i] += a[row * cols + j];"
    ),
    "an integer sum of floats is rounded in each step": row_source(
        "int s = 0; for (int i = 0; i < cols; ++i) s += a[row * cols + i]; y[row] = s;"
    ),
    "an integer maximum of floats is rounded in each step": row_source(
        "int best = -9, at = 0; for (int i = 0; i < cols; ++i) "
        "if (a[row * cols + i] > best) { best = a[row * cols + i]; at = i; } y[row] = at;"
    ),
    "an index of one byte wraps": row_source(
        "float s = 0; for (unsigned char i = 0; i < cols; ++i) s += a[row * cols + i]; y[row] = s;"
    ),
    "memory is volatile": row_source(SUM, a="const volatile float* a"),
    "a function reads the size of the workgroup": row_source(SUM, head="__device__ int w() { return blockDim.x; }\n").replace(
        "= s;", "= s * w();"
    ),
    "a macro is the index": row_source(SUM.replace("= s;", "= s * TID;"), head="#define TID threadIdx.x\n"),
    "an older name is the index": row_source(SUM.replace("= s;", "= s * hipThreadIdx_x;")),
    "a copy is the size of the workgroup": row_source("dim3 t = blockDim; " + SUM.replace("= s;", "= s * t.x;")),
    "a pointer to a structure is written": row_source(
        "for (int i = 1; i < cols; ++i) { float2* p = y + row * cols; p->x = a[row * cols + i]; }", y="float2* y"
    ),
}


@pytest.mark.parametrize("text", ROWS_REFUSED.values(), ids=ROWS_REFUSED)
def test_rows_are_not_distributed_if(text: str) -> None:
    assert reason_of(RowGroups(kernel=rows()), text)


LOOPS_REFUSED = {
    "a pointer writes the next element": row_source(
        "float s = 0; for (int i = 0; i < cols - 1; ++i) { s += y[row * cols + i]; *(y + row * cols + i + 1) = s; }"
    ),
    "a function writes the next element": row_source(
        "float s = 0; for (int i = 0; i < cols - 1; ++i) { s += y[row * cols + i]; put(y + row * cols + i + 1, s); }",
        head="__device__ void put(float* p, float v) { *p = v; }\n",
    ),
    "an element is read under a condition": row_source(
        "float s = 0; for (int i = 0; i < cols; ++i) { if (i < cols / 2) s += a[row * cols / 2 + i]; } y[row] = s;"
    ),
    "an element is selected": row_source(
        "float s = 0; for (int i = 0; i < cols; ++i) s += i > 0 ? a[row * cols + i - 1] : 0.0f; y[row] = s;"
    ),
    "a reference is written": row_source(
        "float s = 0; for (int i = 0; i < cols - 1; ++i) { float& r = y[row * cols + i + 1]; s += y[row * cols + i]; r = s; }"
    ),
    "the loop writes its end": row_source("for (int i = 0; i < y[0]; ++i) y[i] = a[i];"),
    "a pointer moves with the loop": row_source(
        "float s = 0; for (int i = 0; i < cols; ++i) { const float* p = a + row * cols - i; s += p[i]; } y[row] = s;"
    ),
}


@pytest.mark.parametrize("text", LOOPS_REFUSED.values(), ids=LOOPS_REFUSED)
def test_loads_are_not_vectorised_if(text: str) -> None:
    assert reason_of(VectorLoads(kernel=rows()), text)


INVARIANTS_REFUSED = {
    "a pointer writes them": row_source("for (int i = 0; i < cols; ++i) *(y + row * cols + i) = y[row * cols] + 1;"),
    "a member of an element is written": row_source(
        "for (int i = 0; i < cols; ++i) y[row * cols + i].x = y[row * cols].x + 1;", y="float2* y"
    ),
    "a pointer to a structure is written": row_source(
        "float2* p = y + row * cols; for (int i = 0; i < cols; ++i) { p->x += a[i]; y[i].y = y[row * cols].x; }", y="float2* y"
    ),
    "memory is volatile": row_source(
        "float s = 0; for (int i = 0; i < cols; ++i) s += a[row]; y[row] = s;", a="const volatile float* a"
    ),
    "the end of the loop reads them": row_source("for (int i = 0; i < y[row]; ++i) y[row] -= 1;"),
    "a reference writes them": row_source(
        "float& r = y[row]; float s = 0; for (int i = 0; i < cols; ++i) { r += a[i]; s += y[row]; } y[row + 1] = s;"
    ),
}


@pytest.mark.parametrize("text", INVARIANTS_REFUSED.values(), ids=INVARIANTS_REFUSED)
def test_accesses_are_not_hoisted_if(text: str) -> None:
    assert reason_of(HoistInvariants(), text)


SHAPES_REFUSED = {
    "work-items beyond the limit store": row_source("y[row] = 1;", before=f"{INDEX}y[row] = 2; {TEST}"),
    "work-items beyond the limit load": row_source("y[row] = v;", before=f"{INDEX}float v = a[row]; {TEST}"),
    "a macro is the index": row_source("y[row] = TID;", head="#define TID threadIdx.x\n"),
    "an older name is the index": row_source("y[row] = hipThreadIdx_x;"),
    "a copy is the index": row_source("dim3 t = threadIdx; y[row] = t.x;"),
}


@pytest.mark.parametrize("text", SHAPES_REFUSED.values(), ids=SHAPES_REFUSED)
def test_the_launch_is_not_changed_if(text: str) -> None:
    assert reason_of(LaunchShapes(kernel=rows()), text)


def test_a_launch_of_a_part_of_the_elements_is_not_rounded_up() -> None:
    """A workgroup of 16 computes 16 of 24 rows; one of 256 would compute all of them."""
    partial = rows(grid="1", block=16)

    assert "cover" in reason_of(LaunchShapes(kernel=partial), row_source("y[row] = a[row];"))
    texts = [rewrite.text for rewrite in rewrites_of(RowGroups(kernel=partial), row_source(SUM))]
    assert all('"grid": ["(1) * ' in text for text in texts)


def test_rows_without_a_limit_have_exactly_the_described_work_items() -> None:
    """24 rows in workgroups of 8: 16 rows per workgroup would access rows that do not exist."""
    exact = rows(grid="rows // 8", block=8)
    found = rewrites_of(RowGroups(kernel=exact), row_source(SUM, before=INDEX))

    assert [rewrite.description for rewrite in found] == ["256 lanes per row", "64 lanes per row"]
    launch, outputs = emulated(exact, found[1].text)  # findings of accesses out of bounds fail the test

    a = launch.arguments[0].data.astype(np.float64)  # type: ignore[union-attr]
    np.testing.assert_allclose(outputs["y"].reshape(-1)[:24], a.sum(axis=1), rtol=1e-4, atol=1e-4)


ATOMIC = kernel_of(
    [buffer("x", "i32", "n"), buffer("c", "u32", "bins", access="out"), size("n"), size("bins")],
    grid=["ceil_div(n, 64)"],
    block=[64],
    n=1000,
    bins=32,
)


def atomic_source(body: str, *, head: str = "") -> str:
    """Return a kernel with atomics on `c`."""
    index = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n  "
    return f'{HEAD}{head}extern "C" __global__ void f(const int* x, unsigned* c, int n, int bins) {{\n  {index}{body}}}\n'


def test_atomics_before_the_limit_are_not_collected() -> None:
    """Work-items beyond the limit execute them too."""
    assert reason_of(GridAtomics(kernel=ATOMIC), atomic_source("atomicAdd(&c[0], 1u); if (i >= n) return; int z = x[i];"))


ADDRESSES_REFUSED = {
    "a function": atomic_source("atomicAdd(&c[lane()], 1u);", head="__device__ int lane() { return threadIdx.x % 32; }\n"),
    "an output argument": atomic_source(
        "int k = 0; get(&k); atomicAdd(&c[k], 1u);", head="__device__ void get(int* k) { *k = threadIdx.x; }\n"
    ),
    "an older name": atomic_source("atomicAdd(&c[hipThreadIdx_x], 1u);"),
    "a macro": atomic_source("atomicAdd(&c[TID], 1u);", head="#define TID threadIdx.x\n"),
    "a moved pointer": atomic_source("unsigned* p = c; p += threadIdx.x; atomicAdd(p, 1u);"),
}


@pytest.mark.parametrize("text", ADDRESSES_REFUSED.values(), ids=ADDRESSES_REFUSED)
def test_atomics_are_not_combined_if_their_address_comes_from(text: str) -> None:
    assert "differs between work-items" in reason_of(WaveReduction(kernel=ATOMIC), text)


def product(dtype: str, *, grid: tuple[str, str] = ("ceil_div(n, 16)", "ceil_div(m, 16)")) -> KernelDescription:
    """Return the description of a matrix product."""
    arguments = [buffer("a", dtype, "m", "k"), buffer("b", dtype, "k", "n"), buffer("c", "f32", "m", "n", access="out")]
    sizes = [size("m"), size("n"), size("k")]
    return kernel_of([*arguments, *sizes], grid=list(grid), block=[16, 16], m=40, n=50, k=33)


def product_source(step: str, *, element: str = "float") -> str:
    """Return a matrix product with one step of its loop."""
    index = "int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;\n  "
    body = f"float s = 0; for (int i = 0; i < k; ++i) s += {step}; c[row * n + col] = s;"
    kernel = f"const {element}* a, const {element}* b, float* c, int m, int n, int k"
    return f'{HEAD}extern "C" __global__ void f({kernel}) {{\n  {index}if (row >= m || col >= n) return;\n  {body}}}\n'


@pytest.mark.parametrize(
    ("dtype", "text", "reason"),
    [
        ("f32", product_source("(int)a[row * k + i] * (int)b[i * n + col]"), "is converted to int"),
        ("f16", product_source("a[row * k + i] * b[i * n + col]", element="_Float16"), "rounds each product"),
        ("f32", product_source("c[row * n + i] * b[i * n + col]"), "stores to an operand"),
    ],
)
def test_products_of_other_values_use_no_matrix_instructions(dtype: str, text: str, reason: str) -> None:
    assert reason in reason_of(MatrixTiles(kernel=product(dtype), target=load_target("mi300x")), text)


def test_a_product_of_a_part_of_the_elements_uses_no_matrix_instructions() -> None:
    transform = MatrixTiles(kernel=product("f32", grid=("1", "1")), target=load_target("mi300x"))

    assert "cover" in reason_of(transform, product_source("a[row * k + i] * b[i * n + col]"))


@pytest.mark.parametrize("lane", ["t", "threadIdx.x", "hipThreadIdx_x"])
def test_a_tree_whose_work_items_return_early_stays_in_lds(lane: str) -> None:
    tree = "for (int s = 32; s > 0; s >>= 1) { if (t < s) x[t] += x[t + s]; __syncthreads(); }"
    body = f"x[t] = a[t]; __syncthreads(); {tree} if (t == 0) y[blockIdx.x] = x[0];"
    text = row_source(f"__shared__ float x[64]; int t = threadIdx.x; if ({lane} >= cols) return; {body}", before="")

    assert reason_of(TreeReductions(kernel=rows()), text) == "some work-items return early"


def test_a_maximum_ignores_nan_in_every_lane() -> None:
    """The maximum starts with the first element, which is NaN."""
    body = "float s = a[row * cols] / 0.0f * 0.0f; for (int i = 1; i < cols; ++i) s = fmaxf(s, a[row * cols + i]); "
    text = row_source(body + "for (int i = 0; i < cols; ++i) y[row * cols + i] = s;")
    (rewrite,) = rewrites_of(RowGroups(kernel=rows(), lanes=[256], kept=[0]), text)

    launch, outputs = emulated(rows(), rewrite.text)

    a = launch.arguments[0].data  # type: ignore[union-attr]
    np.testing.assert_array_equal(outputs["y"], np.repeat(a[:, 1:].max(axis=1)[:, None], 70, axis=1))


def test_quotients_of_negative_indices_are_divided() -> None:
    """C rounds towards zero: -1 / 3 is 0, and the quotient does not grow from -5 to 2 by one per 3 elements."""
    text = row_source(
        "for (int i = -5; i < cols - 5; ++i) y[row * cols + i + 5] = i / three;", before=f"{INDEX}{TEST}int three = 3; "
    )
    (rewrite,) = rewrites_of(ReduceStrength(), text)

    _, outputs = emulated(rows(), rewrite.text)

    np.testing.assert_array_equal(outputs["y"][0], np.trunc(np.arange(-5, 65) / 3))
