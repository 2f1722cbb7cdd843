"""Transposing element maps through LDS tiles: results at odd sizes, and kernels that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.transforms.transpose_tiles import TransposeTiles
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription

ROWS, COLS, BATCH = 37, 70, 3
INDICES = "int x = blockIdx.x * blockDim.x + threadIdx.x;\n  int y = blockIdx.y * blockDim.y + threadIdx.y;"
GUARD = "if (x >= cols || y >= rows) return;"
STORE = "out[x * rows + y] = in[y * cols + x];"
PARAMETERS = "const float* in, float* out, const float* bias, int rows, int cols"
HALVES = "const __half* in, __half* out, const float* bias, int rows, int cols"
ONE_BUFFER = "float* in, float* out, const float* bias, int rows, int cols"


def kernel(
    dtype: str = "f32",
    *,
    grid: tuple[str, ...] = ("ceil_div(cols, 16)", "ceil_div(rows, 16)"),
    block: tuple[int, ...] = (16, 16),
    rows: int = ROWS,
    cols: int = COLS,
    access: str = "out",
) -> KernelDescription:
    """Return the description of a kernel that stores a transposed matrix, or several."""
    shape = (("batch",) if len(grid) == 3 else ()) + ("rows", "cols")
    out = buffer("out", dtype, *shape[:-2], "cols", "rows", access=access)
    arguments = [buffer("in", dtype, *shape), out, buffer("bias", "f32", "cols"), size("rows"), size("cols")]
    if access == "inout":
        out["init"] = {"kind": "normal", "seed": 5}
    return kernel_of(arguments, grid=list(grid), block=list(block), rows=rows, cols=cols, batch=BATCH)


def source(
    store: str = STORE, *, guard: str = GUARD, indices: str = INDICES, parameters: str = PARAMETERS, head: str = ""
) -> str:
    """Return a kernel with one element per work-item."""
    return f"""#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
{head}
extern "C" __global__ void f({parameters}) {{
  {indices}
  {guard}
  {store}
}}
"""


def transform(description: KernelDescription, *tiles: tuple[int, int], padding: int = 1) -> TransposeTiles:
    """Return the transform with some tiles."""
    return TransposeTiles(kernel=description, tiles=tiles or [(32, 8)], paddings=[padding])


def rewritten(text: str, description: KernelDescription, *tiles: tuple[int, int]) -> tuple[Launch, NDArray[Any], NDArray[Any]]:
    """Return launch, input and output of the only rewrite."""
    (rewrite,) = rewrites_of(transform(description, *tiles), text)
    launch, outputs = emulated(description, rewrite.text)
    return launch, launch.arguments[0].data, outputs["out"]  # type: ignore[union-attr]


def test_a_tile_is_loaded_by_rows_and_stored_by_columns() -> None:
    (rewrite,) = rewrites_of(transform(kernel(), (64, 8)), source())

    launch, outputs = emulated(kernel(), rewrite.text)

    np.testing.assert_array_equal(outputs["out"], launch.arguments[0].data.T)  # type: ignore[union-attr]
    assert (launch.grid, launch.block) == ((2, 1, 1), (64, 8, 1))
    assert "__shared__ float rpl_tile_0[64][65];" in rewrite.text


@pytest.mark.parametrize(
    "text",
    [
        source(guard="if (x < cols && y < rows) {", store=f"{STORE} }}"),
        source(guard="if (x >= cols) return; if (y >= rows) return;"),
        source(guard="if (rows < 1 || x >= cols || y >= rows) return;"),
        source("const int at = y * cols + x; const float* from = in + at; size_t to = (size_t)x * rows; out[to + y] = from[0];"),
        source("const float* row = &in[y * cols]; float* column = out + x * rows; column[y] = __ldg(&row[x]);"),
        source("float sum = 0; sum += in[y * cols + x]; out[x * rows + y] = sum;"),
        source(indices="auto x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;"),
        source("out[x * rows + y] = in[x + cols * static_cast<size_t>(y)];", indices=f"const int wide = cols; {INDICES}"),
    ],
)
def test_other_guards_and_variables(text: str) -> None:
    _, given, out = rewritten(text, kernel())

    np.testing.assert_array_equal(out, given.T)


@pytest.mark.parametrize(("rows", "cols"), [(1, 70), (37, 1), (64, 32), (33, 31)])
def test_matrices_that_no_tile_divides(rows: int, cols: int) -> None:
    _, given, out = rewritten(source(), kernel(rows=rows, cols=cols))

    np.testing.assert_array_equal(out, given.T)


def test_the_first_axis_may_follow_rows() -> None:
    description = kernel(grid=("ceil_div(rows, 16)", "ceil_div(cols, 16)"))
    indices = "unsigned y = blockIdx.x * 16 + threadIdx.x, x = blockIdx.y * 16 + threadIdx.y;"

    launch, given, out = rewritten(source(indices=indices), description)

    assert launch.grid == (2, 3, 1)  # 37 x 70 by 32 x 32
    np.testing.assert_array_equal(out, given.T)


@pytest.mark.parametrize(
    ("indices", "guard", "store"),
    [
        (f"{INDICES} int b = blockIdx.z;", GUARD, "out[(b * cols + x) * rows + y] = in[(b * rows + y) * cols + x];"),
        (
            f"{INDICES} int n = rows, b = blockIdx.z * blockDim.z + threadIdx.z;",
            "if (b >= 2 || y >= rows || x >= cols) return;",
            STORE.replace("[", "[b * rows * cols + "),
        ),
        (f"in += blockIdx.z * rows * cols; out += blockIdx.z * rows * cols; {INDICES}", GUARD, STORE),
    ],
    ids=["index", "bounded", "pointers"],
)
def test_several_matrices(indices: str, guard: str, store: str) -> None:
    description = kernel("f16", grid=("ceil_div(cols, 16)", "ceil_div(rows, 16)", "batch"))
    text = source(store, guard=guard, indices=indices, parameters=HALVES)

    launch, given, out = rewritten(text, description)

    count = 2 if "b >= 2" in guard else BATCH
    assert launch.grid == (3, 2, BATCH)
    np.testing.assert_array_equal(out[:count], given.transpose(0, 2, 1)[:count])
    assert np.isnan(out[count:]).all()  # not written


def test_values_are_computed_after_the_exchange() -> None:
    store = "const float v = 2 * in[y * cols + x] + bias[x]; if (v > 0) out[x * rows + y] = v; "

    launch, given, out = rewritten(source(store), kernel())

    bias = launch.arguments[2].data  # type: ignore[union-attr]
    expected = 2 * given.T + bias[:, None]
    np.testing.assert_allclose(out, np.where(expected > 0, expected, np.nan), rtol=1e-5, atol=1e-6)  # others are not written


def test_the_stored_element_may_be_read() -> None:
    description = kernel(access="inout")

    launch, given, out = rewritten(source("out[x * rows + y] += in[y * cols + x] * 0.5f;"), description)

    before: NDArray[Any] = launch.arguments[1].data  # type: ignore[union-attr]
    np.testing.assert_allclose(out, before + 0.5 * given.T, atol=1e-6)


def test_two_inputs_have_two_tiles() -> None:
    text = source("out[x * rows + y] = in[y * cols + x] - other[y * cols + x];", parameters=PARAMETERS.replace("bias", "other"))
    arguments = [buffer("in", "f32", "rows", "cols"), buffer("out", "f32", "cols", "rows", access="out")]
    arguments += [buffer("other", "f32", "rows", "cols", seed=2), size("rows"), size("cols")]
    description = kernel_of(arguments, grid=["ceil_div(cols, 16)", "ceil_div(rows, 16)"], block=[16, 16], rows=ROWS, cols=COLS)

    launch, given, out = rewritten(text, description)

    np.testing.assert_array_equal(out, (given - launch.arguments[2].data).T)  # type: ignore[union-attr]


def test_an_index_that_is_divided_into_row_and_column() -> None:
    indices = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    store = "int y = i / cols, x = i % cols; out[x * rows + y] = in[i];"
    text = source(store, guard="if (i >= rows * cols) return;", indices=indices)

    launch, given, out = rewritten(text, kernel(grid=("ceil_div(rows * cols, 256)",), block=(256,)))

    assert launch.grid == (3, 2, 1)
    np.testing.assert_array_equal(out, given.T)


def test_a_row_per_workgroup_is_bounded_by_the_launch() -> None:
    indices = "int x = blockIdx.x * blockDim.x + threadIdx.x; int y = blockIdx.y;"

    launch, given, out = rewritten(
        source(guard="if (x < cols)", indices=indices), kernel(grid=("ceil_div(cols, 64)", "rows"), block=(64,))
    )

    assert launch.grid == (3, 2, 1)
    np.testing.assert_array_equal(out, given.T)


def test_a_launch_of_whole_workgroups_keeps_its_grid() -> None:
    description = kernel(grid=("cols / 32", "rows / 32"), block=(32, 32), rows=64, cols=96)

    launch, given, out = rewritten(source(guard=""), description)

    assert (launch.grid, launch.block) == ((3, 2, 1), (32, 8, 1))
    np.testing.assert_array_equal(out, given.T)


def test_launch_bounds_limit_the_workgroup() -> None:
    text = source().replace("void f", "__launch_bounds__(256) void f")

    assert [r.description for r in rewrites_of(transform(kernel(), (64, 8), (32, 8)), text)] == [
        "LDS tiles of 32 x 32, 8 rows at once, padded by 1 words"
    ]
    assert "no tile fits" in reason_of(transform(kernel(), (64, 8)), text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (source("out[y * cols + x] = in[y * cols + x];"), "along the same index"),
        (source("out[x * rows + y] = in[x * rows + y];"), "along the same index"),
        (source("out[x * rows + y] = bias[x];"), "along the same index"),
        (source("out[x * rows + 2 * y] = in[y * cols + x];"), "is not contiguous along one index"),
        (source("out[x * rows + y % 4] = in[y * cols + x];"), "is not contiguous along one index"),
        (source("out[x * rows + y] = in[y * cols + (x ^ 1)];"), "along the same index"),
        (source("out[x * rows + y] = in[y * cols - x];"), "along the same index"),
        (source("out[x + y] = in[y * cols + x];"), "is not contiguous along one index"),
        (source("out[y] = in[y * cols + x];"), "does not depend on x"),
    ],
)
def test_other_orders_of_access_are_refused(text: str, reason: str) -> None:
    assert reason in reason_of(transform(kernel()), text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (source("in[x * cols + y] = in[y * cols + x];", parameters=ONE_BUFFER), "reads and writes in"),
        (source("float* p = out; out[x * rows + y] = p[y * cols + x];"), "reads and writes out"),
        (source("const float* p = rows > 3 ? in : out; out[x * rows + y] = p[y * cols + x];"), "not a plain access"),
        (source(f"{STORE} out[0] = 1;"), "has 2 stores"),
        (source("*(out + x * rows + y) = in[y * cols + x];"), "dereferenced pointers"),
        (source("float& to = out[x * rows + y]; to = in[y * cols + x];"), "references"),
        (source("atomicAdd(&out[x * rows + y], in[y * cols + x]);"), "uses atomicAdd"),
        (source(parameters=PARAMETERS.replace("const float* in", "const volatile float* in")), "uses volatile"),
        (source(f"__shared__ float t[4]; {STORE}"), "uses __shared__"),
        (source(f"__syncthreads(); {STORE}"), "uses __syncthreads"),
        (source(f'printf("%d", x); {STORE}'), "uses printf"),
        (source("out[x * rows + y] = __shfl(in[y * cols + x], 3);"), "uses __shfl"),
        (source("for (int i = 0; i < 2; ++i) out[x * rows + y] = in[y * cols + x];"), "has a loop"),
        (source(f"if (threadIdx.x == 0) {STORE}"), "uses threadIdx.x"),
        (source("out[x * rows + y] = in[y * cols + x] + gridDim.x;"), "uses gridDim.x"),
        (source("out[x * rows + y] = in[AT];", head="#define AT (y * cols + x)"), "uses the macro AT"),
        (
            source(
                "out[x * rows + y] = next(in[y * cols + x]);", head="__device__ float next(float v) { static int n; return ++n; }"
            ),
            "uses next",
        ),
    ],
)
def test_side_effects_are_refused(text: str, reason: str) -> None:
    assert reason in reason_of(transform(kernel()), text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (source(guard=""), "no bounds"),
        (source(guard="if (x + y >= rows) return;"), "no bounds"),
        (source(guard="if (x >= cols) return;"), "no bounds"),
        (source(guard="const int end = cols - y; if (x >= end || y >= rows) return;"), "bounds"),
        (source(guard="if (bias[0] > 0 || x >= cols || y >= rows) return;"), "may differ between work-items"),
        (source(f"if (y < 3) return; {STORE}"), "has an unsupported statement"),
        (source(f"if (x > 2) {STORE}"), "conditionally"),
        (source("out[x * rows + y] = x > 2 ? in[y * cols + x] : 0;"), "conditionally"),
        (source(f"x += 1; {STORE}"), "assigns an index"),
        (source("out += x * rows; out[y] = in[y * cols + x];"), "assigns out"),
        (source("int at = y; at += x; out[x * rows + y] = in[at + y * cols + x];"), "which changes"),
        (source("int n = y; { int n = rows; out[x * n + y] = in[y * cols + x]; }"), "declares n twice"),
        (source(indices=INDICES.replace("int x", "short x")), "type of an index"),
        (source(head="// rocm-perf launch: {}"), "already rewritten"),
    ],
)
def test_elements_that_are_not_independent_are_refused(text: str, reason: str) -> None:
    description = kernel(block=(16, 8), grid=("ceil_div(cols, 16)", "ceil_div(rows, 8)"))

    assert reason in reason_of(transform(description), text)


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        (kernel(grid=("1", "1")), "not known to cover its bounds"),
        (kernel(block=(16, 16, 2), grid=("ceil_div(cols, 16)", "ceil_div(rows, 16)", "1")), "along z"),
        (kernel(block=(16, 1), grid=("ceil_div(cols, 16)", "ceil_div(rows, 16)")), "not known to cover"),
    ],
)
def test_other_launches_are_refused(description: KernelDescription, reason: str) -> None:
    assert reason in reason_of(transform(description), source())


@pytest.mark.parametrize("tile", [(64, 7), (64, 32), (0, 0)])
def test_tiles_are_validated(tile: tuple[int, int]) -> None:
    with pytest.raises(LabError, match="invalid tile"):
        transform(kernel(), tile)
