"""Triton kernels on the emulator against NumPy: matrix products of every type, and what else kernels are made of."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.toolchain.disassembly import disassemble
from tests.builders.triton_kernels import emulate, matmul_launch

if TYPE_CHECKING:
    from rocm_perf_lab.device.protocol import Launch

MATRIX_TYPES = ["f16", "bf16", "f32", "f64", "i8", "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2"]


def matrix_instructions(launch: Launch) -> set[str]:
    names = (line.text.split()[0] for line in disassemble(launch.code_object, launch.symbol))
    return {name for name in names if "mfma" in name}


def check_matmul(launch: Launch) -> None:
    """Small integers: every product and sum is exact, whatever the order."""
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
