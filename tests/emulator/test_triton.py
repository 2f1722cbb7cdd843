"""Triton kernels on the emulator against NumPy: matrix products of every type, and other building blocks."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.verify.outputs import verify_outputs
from rocm_perf_lab.verify.reference import expected_outputs
from rocm_perf_lab.verify.tolerances import kernel_tolerances
from tests.builders.triton_kernels import emulate, experiment, launch_of, matmul_launch, unary_launch

if TYPE_CHECKING:
    from rocm_perf_lab.device.protocol import Launch

MATRIX_TYPES = ["f16", "bf16", "f32", "f64", "i8", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2"]


def matrix_instructions(launch: Launch) -> set[str]:
    names = (line.text.split()[0] for line in disassemble(launch.code_object, launch.symbol))
    return {name for name in names if "mfma" in name}


def check_matmul(launch: Launch) -> None:
    """Use small integers, for which products and sums are exact in any order."""
    a, b = (argument.data.astype(np.float64) for argument in launch.arguments[:2])  # type: ignore[union-attr]

    outputs, result = emulate(launch)

    np.testing.assert_array_equal(outputs["c_ptr"].astype(np.float64), a @ b)
    assert bool(result.counters["SQ_INSTS_MFMA"]) == bool(matrix_instructions(launch))


@pytest.mark.parametrize(
    ("dtype", "nonkdim", "instruction"),
    [
        ("f16", 16, "v_mfma_f32_16x16x16_f16"),
        ("f16", 32, "v_mfma_f32_32x32x8_f16"),
        ("bf16", 16, "v_mfma_f32_16x16x16_bf16"),
        ("f32", 32, "v_mfma_f32_32x32x4_xf32"),
        ("f64", 16, "v_mfma_f64_16x16x4_f64"),
        ("i8", 16, "v_mfma_i32_16x16x32_i8"),
        ("f8e4m3fnuz", 16, "v_mfma_f32_16x16x32_fp8_fp8"),
        ("f8e5m2fnuz", 32, "v_mfma_f32_32x32x16_bf8_bf8"),
    ],
)
def test_matrix_products_run_on_the_matrix_cores(dtype: str, nonkdim: int, instruction: str) -> None:
    launch = matmul_launch(dtype, num_warps=4, matrix_instr_nonkdim=nonkdim)

    check_matmul(launch)

    assert matrix_instructions(launch) == {instruction}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", MATRIX_TYPES)
def test_matrix_products_of_every_shape_of_program(dtype: str) -> None:
    for num_warps, num_stages, nonkdim in product((2, 4, 8), (1, 2), (16, 32)):
        if dtype != "f64" or nonkdim == 16:
            check_matmul(matmul_launch(dtype, num_warps=num_warps, num_stages=num_stages, matrix_instr_nonkdim=nonkdim))


@pytest.mark.parametrize(("a", "b"), [("f8e4m3fnuz", "f8e5m2fnuz"), ("f8e5m2fnuz", "f8e4m3fnuz")])
def test_matrix_products_of_two_types(a: str, b: str) -> None:
    check_matmul(matmul_launch(a, other=b, num_warps=2, matrix_instr_nonkdim=16))


def test_accumulation_registers_are_copied_among_themselves() -> None:
    launch = matmul_launch("f64", m=32, n=32, block=(32, 32, 32), num_warps=1, num_stages=2, matrix_instr_nonkdim=32)
    listing = [line.text for line in disassemble(launch.code_object, launch.symbol)]

    assert any(text.startswith("v_accvgpr_mov_b32") for text in listing)
    check_matmul(launch)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("gemm_triton", {"m": 100, "n": 50, "k": 40}),
        ("softmax_triton", {"rows": 8, "cols": 1000, "block": 1024}),
        ("layernorm_triton", {"rows": 4, "cols": 777}),
        ("attention_triton", {"heads": 1, "length": 100}),
        ("attention_triton", {"heads": 1, "length": 128, "causal": 0, "num_warps": 2}),
    ],
)
def test_the_experiments_are_right_for_odd_sizes(name: str, params: dict[str, int]) -> None:
    description = experiment(name, params)
    launch = launch_of(description)

    outputs, _ = emulate(launch)

    expected = expected_outputs(description, launch)
    assert expected is not None
    result = verify_outputs(outputs, expected, kernel_tolerances(description, launch, expected))
    assert result.passed, str(result)


ELEMENTWISE = """
@triton.jit
def elementwise(x_ptr, y_ptr):
    i = tl.arange(0, 1024)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + 0 * 1024 + i, tl.exp(x))
    tl.store(y_ptr + 1 * 1024 + i, tl.log(tl.abs(x)))
    tl.store(y_ptr + 2 * 1024 + i, tl.sin(x))
    tl.store(y_ptr + 3 * 1024 + i, tl.rsqrt(tl.abs(x)))
    tl.store(y_ptr + 4 * 1024 + i, 1.7 / x)
    tl.store(y_ptr + 5 * 1024 + i, tl.erf(x))
    tl.store(y_ptr + 6 * 1024 + i, tl.sigmoid(x))
    tl.store(y_ptr + 7 * 1024 + i, tl.floor(x))
"""


def test_elementwise_functions() -> None:
    launch = unary_launch(
        ELEMENTWISE, "elementwise", {"dtype": "f32", "init": {"kind": "normal"}}, {"dtype": "f32", "shape": [8, 1024]}
    )

    outputs, _ = emulate(launch)

    x = outputs["x_ptr"].astype(np.float64)
    erf = np.vectorize(math.erf)
    expected = [np.exp(x), np.log(abs(x)), np.sin(x), abs(x) ** -0.5, 1.7 / x, erf(x), 1 / (1 + np.exp(-x)), np.floor(x)]
    np.testing.assert_allclose(outputs["y_ptr"], np.stack(expected), rtol=3e-6, atol=3e-7)


REDUCTIONS = """
@triton.jit
def larger(a, b):
    return tl.maximum(a, b)

@triton.jit
def reductions(x_ptr, y_ptr):
    i = tl.arange(0, 1024)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + 0 * 1024 + i, tl.cumsum(x))
    tl.store(y_ptr + 1 * 1024 + i, tl.associative_scan(x, 0, larger))
    tl.store(y_ptr + 2 * 1024 + i, tl.sort(x))
    tl.store(y_ptr + 3 * 1024 + i, tl.flip(x))
    tl.store(y_ptr + 4 * 1024 + i, tl.gather(x, (i * 37) % 1024, 0))
    tl.store(y_ptr + 5 * 1024 + i, i * 0 + tl.sum(x))
    tl.store(y_ptr + 6 * 1024 + i, i * 0 + tl.argmin(x, 0))
    square = tl.reshape(x, (32, 32))
    turned = tl.trans(square) * tl.sum(square, axis=0)[None, :] + tl.max(square, axis=1)[:, None]
    tl.store(y_ptr + 7 * 1024 + i, tl.reshape(turned, (1024,)))
"""


@pytest.mark.parametrize("num_warps", [pytest.param(1, marks=pytest.mark.slow), 4, 8])
def test_reductions_scans_and_sorts(num_warps: int) -> None:
    integers = {"dtype": "i32", "init": {"kind": "integers", "low": -1000, "high": 1000}}
    launch = unary_launch(REDUCTIONS, "reductions", integers, {"dtype": "i32", "shape": [8, 1024]}, num_warps=num_warps)

    outputs, _ = emulate(launch)

    x = outputs["x_ptr"].astype(np.int64)
    square = x.reshape(32, 32)
    turned = square.T * square.sum(0)[None, :] + square.max(1)[:, None]
    ones = np.ones(1024)
    expected = [np.cumsum(x), np.maximum.accumulate(x), np.sort(x), x[::-1], x[np.arange(1024) * 37 % 1024],
                x.sum() * ones, x.argmin() * ones, turned.ravel()]  # fmt: skip
    np.testing.assert_array_equal(outputs["y_ptr"], np.stack(expected))


ATOMICS = """
@triton.jit
def atomics(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.program_id(0) * 256 + tl.arange(0, 256))
    tl.atomic_add(y_ptr + (x & 15), x)
    tl.atomic_max(y_ptr + 16 + (x & 15), x)
"""


@pytest.mark.parametrize("dtype", ["i32", "i64", "f32"])
def test_atomics_of_many_programs(dtype: str) -> None:
    integers = {"dtype": "i32", "init": {"kind": "integers", "low": 0, "high": 1000}}
    zeros = {"dtype": dtype, "shape": [32], "init": {"kind": "constant"}}

    outputs, _ = emulate(unary_launch(ATOMICS, "atomics", integers, zeros, grid=4))

    x = outputs["x_ptr"]
    bins = [x[x % 16 == b] for b in range(16)]
    np.testing.assert_array_equal(outputs["y_ptr"], [*(b.sum() for b in bins), *(b.max(initial=0) for b in bins)])


CAST = """
@triton.jit
def cast(x_ptr, y_ptr):
    i = tl.arange(0, 1024)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))
"""
FLOATS = ["f32", "f16", "bf16", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        *(pytest.param("f32", target, marks=[] if "fnuz" in target else pytest.mark.slow) for target in FLOATS[1:]),
        *(pytest.param(source, "f32", marks=[] if "fnuz" in source else pytest.mark.slow) for source in FLOATS[1:]),
    ],
)
def test_casts_round_as_numpy_does(source: str, target: str) -> None:
    launch = unary_launch(
        CAST, "cast", {"dtype": source, "init": {"kind": "normal", "std": 3}}, {"dtype": target, "shape": [1024]}
    )

    outputs, _ = emulate(launch)

    np.testing.assert_array_equal(outputs["y_ptr"], outputs["x_ptr"].astype(DTYPES[target]))


PRECISION = """
@triton.jit
def precision(x_ptr, y_ptr, HOW: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.dot(x, x, input_precision=HOW))
"""


@pytest.mark.parametrize(("how", "tolerance"), [("ieee", 1e-5), ("bf16x3", 3e-4), ("tf32", 2e-2)])
def test_matrix_products_of_f32_have_the_requested_precision(how: str, tolerance: float) -> None:
    normal = {"dtype": "f32", "init": {"kind": "normal"}}
    launch = unary_launch(PRECISION, "precision", normal, {"dtype": "f32", "shape": [1024]}, constexprs={"HOW": f"'{how}'"})

    outputs, _ = emulate(launch)

    x = outputs["x_ptr"].astype(np.float64).reshape(32, 32)
    np.testing.assert_allclose(outputs["y_ptr"].reshape(32, 32), x @ x, rtol=tolerance, atol=tolerance)


def test_loads_go_straight_into_lds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")
    launch = matmul_launch("f16", k=128, num_warps=4, num_stages=3)
    listing = disassemble(launch.code_object, launch.symbol)

    assert any("lds" in line.text and line.text.startswith("buffer_load_dword") for line in listing)
    check_matmul(launch)
