"""Reductions over arrays in LDS that move to registers: results, and the kernels that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.tree_reductions import TreeReductions
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

ROWS, ITEMS = 5, 128
HEAD = "#include <hip/hip_runtime.h>\n"
KERNEL = kernel_of(
    [buffer("a", "f32", "rows", "128"), buffer("y", "f32", "rows", access="out"), size("rows")],
    grid=["rows"],
    block=[ITEMS],
    rows=ROWS,
)
STORE = "s[threadIdx.x] = a[blockIdx.x * 128 + threadIdx.x];\n__syncthreads();\n"
STEP = "if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];\n__syncthreads();\n"
HALVED = f"for (int k = 64; k > 0; k >>= 1) {{ {STEP} }}\n"
END = "if (threadIdx.x == 0) y[blockIdx.x] = s[0];\n"


def source(body: str) -> str:
    """Return a kernel with one workgroup per row, and an array `s` in LDS."""
    start = f'{HEAD}extern "C" __global__ void f(const float* a, float* y, int rows) {{\n'
    return f"{start}__shared__ float s[128];\n{body}}}\n"


def rewritten(body: str) -> str:
    (rewrite,) = rewrites_of(TreeReductions(kernel=KERNEL), source(body))
    return rewrite.text


def outcome(body: str) -> tuple[np.ndarray, np.ndarray]:
    """Return input and output of the rewrite of a kernel."""
    launch, outputs = emulated(KERNEL, rewritten(body))
    return launch.arguments[0].data.astype(np.float64), outputs["y"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "loop",
    [
        HALVED,
        "for (unsigned k = blockDim.x / 2; k; k /= 2) { if (threadIdx.x < k) { s[threadIdx.x] = s[threadIdx.x + k] +"
        " s[threadIdx.x]; } __syncthreads(); }\n",
        "for (int k = 1; k < blockDim.x; k *= 2) { if (threadIdx.x % (2 * k) == 0) s[threadIdx.x] += s[threadIdx.x + k];"
        " __syncthreads(); }\n",
    ],
    ids=["halved", "blockDim", "doubled"],
)
def test_a_sum_moves_to_registers(loop: str) -> None:
    a, y = outcome(f"{STORE}{loop}{END}")

    np.testing.assert_allclose(y, a.sum(axis=1), rtol=1e-5, atol=1e-5)


def test_an_array_in_dynamic_lds_moves_to_registers_unless_it_is_shared() -> None:
    text = source(f"{STORE}{HALVED}{END}").replace("__shared__ float s[128];", "extern __shared__ float s[];")
    (rewrite,) = rewrites_of(TreeReductions(kernel=KERNEL), text)

    launch, outputs = emulated(KERNEL, rewrite.text)

    a = launch.arguments[0].data.astype(np.float64)  # type: ignore[union-attr]
    np.testing.assert_allclose(outputs["y"], a.sum(axis=1), rtol=1e-5, atol=1e-5)
    both = text.replace("float s[];", "float s[]; extern __shared__ int others[];")
    assert "shares dynamic LDS" in reason_of(TreeReductions(kernel=KERNEL), both)


def test_two_reductions_use_the_array_one_after_the_other() -> None:
    """A softmax denominator: the maximum and then the sum of each row."""
    most = HALVED.replace("s[threadIdx.x] += s[threadIdx.x + k]", "s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + k])")
    again = (
        "float top = s[0];\n__syncthreads();\ns[threadIdx.x] = expf(a[blockIdx.x * 128 + threadIdx.x] - top);\n__syncthreads();\n"
    )

    a, y = outcome(f"{STORE}{most}{again}{HALVED}{END}")

    np.testing.assert_allclose(y, np.exp(a - a.max(axis=1, keepdims=True)).sum(axis=1), rtol=1e-5)


def test_two_arrays_are_reduced_by_one_loop() -> None:
    both = "__shared__ float q[128];\n"
    both += "int t = threadIdx.x; float v = a[blockIdx.x * 128 + t]; s[t] = v; q[t] = v * v; __syncthreads();\n"
    both += "for (int k = 64; k > 0; k >>= 1) { if (t < k) { s[t] += s[t + k]; q[t] += q[t + k]; } __syncthreads(); }\n"

    a, y = outcome(f"{both} if (t == 0) y[blockIdx.x] = q[0] - s[0] * s[0] / 128;\n")

    np.testing.assert_allclose(y, (a * a).sum(axis=1) - a.sum(axis=1) ** 2 / 128, rtol=1e-4)


def test_barriers_that_order_nothing_else_disappear() -> None:
    inside = rewritten(f"{STORE}{HALVED}{END}").partition("void f(")[2]

    assert "__syncthreads" not in inside
    assert "__shared__" not in inside


def test_barriers_stay_with_another_array() -> None:
    body = f"__shared__ int other[4]; if (threadIdx.x < 4) other[threadIdx.x] = 1;\n{STORE}{HALVED}{END}"

    assert "__syncthreads" in rewritten(body).partition("void f(")[2]


def test_barriers_stay_with_a_buffer_that_is_written_twice() -> None:
    body = f"y[blockIdx.x] = 0;\n{STORE}{HALVED}{END}"

    assert "__syncthreads" in rewritten(body).partition("void f(")[2]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"{STORE}{HALVED.replace('64', '32')}{END}", "no reduction"),
        (f"{STORE}{HALVED}if (threadIdx.x == 1) y[blockIdx.x] = s[1];", "is used as s[1]"),
        (f"{STORE}{HALVED}s[threadIdx.x] += 1; {END}", "is used as s[threadIdx.x]"),
        (f"float z = s[0]; {STORE}{HALVED}{END} y[0] = z;", "where its elements are not reduced"),
        (f"if (rows > 2) {{ {STORE} }} {HALVED}{END}", "is not stored by all work-items"),
        (f"s[127 - threadIdx.x] = 1; {STORE}{HALVED}{END}", "is used as s[127 - threadIdx.x]"),
        (f"{STORE}{HALVED.replace('__syncthreads();', '')}{END}", "no reduction"),
        (f"{STORE}{HALVED.replace('+= s', '-= s')}{END}", "no reduction"),
        (f"float* p = s; {STORE}{HALVED}{END} y[0] = p[3];", "is used in line"),
        (f"{STORE}{HALVED}s[threadIdx.x] = 2; __syncthreads(); {END}", "where its elements are not reduced"),
    ],
)
def test_other_kernels_are_refused(body: str, reason: str) -> None:
    assert reason in reason_of(TreeReductions(kernel=KERNEL), source(body))


def test_a_workgroup_with_another_size_is_refused() -> None:
    kernel = KERNEL.model_copy(update={"block": (96,)})

    assert "no power of two" in reason_of(TreeReductions(kernel=kernel), source(f"{STORE}{HALVED}{END}"))
