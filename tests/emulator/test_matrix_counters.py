"""Counters of matrix instructions, of partial wavefronts and of atomics, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.isa.issue import vector_quads
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.sampling import SamplePolicy
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.emulator.launching import LaunchResult
    from rocm_perf_lab.emulator.memory import Allocation

MATRIX = """\
#include <hip/hip_runtime.h>
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float float16 __attribute__((ext_vector_type(16)));
typedef float float4v __attribute__((ext_vector_type(4)));
__global__ void products(const float* a, float* out) {
  half4 x = {(_Float16)a[threadIdx.x], 1, 2, 3};
  float16 sum = {};
  float4v small = {};
  for (int k = 0; k < 10; k++) sum = __builtin_amdgcn_mfma_f32_32x32x8f16(x, x, sum, 0, 0, 0);
  for (int k = 0; k < 5; k++) small = __builtin_amdgcn_mfma_f32_4x4x4f16(x, x, small, 0, 0, 0);
  for (int k = 0; k < 16; k++) out[64 * k + threadIdx.x] = sum[k] + small[k % 4];
}
"""
ATOMICS = """\
#include <hip/hip_runtime.h>
__global__ void count(int* total, int* old, int n) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= n) return;
  atomicAdd(&total[2 * threadIdx.x], 1);
  old[id] = atomicAdd(&total[threadIdx.x], 2);
}
"""


def run(source: str, directory: Path, grid: int, block: int, buffers: int, *scalars: bytes) -> LaunchResult:
    code_object = build_hip(source, directory).code_object
    with EmulatedGpu(mi300x(), max_instructions=10**6, threads=1, sample=SamplePolicy(1)) as machine:
        allocated: list[int | bytes | Allocation] = [machine.allocate(f"b{number}", 4096 * 4) for number in range(buffers)]
        return machine.launch(
            machine.load(code_object), code_object.kernels[0].symbol, (grid, 1, 1), (block, 1, 1), [*allocated, *scalars]
        )


def test_matrix_instructions_count_as_on_hardware(tmp_path: Path) -> None:
    result = run(MATRIX, tmp_path, 3, 64, 2)
    counters, waves = result.counters, 3
    vector = counters["SQ_INSTS_VALU"]

    assert counters["SQ_INSTS_MFMA"] == counters["SQ_INSTS_VALU_MFMA_F16"] == 15 * waves
    assert counters["SQ_ACTIVE_INST_VALU"] == vector  # one quad-cycle each, whatever the duration
    assert counters["SQ_THREAD_CYCLES_VALU"] == 64 * vector  # with full EXEC
    assert counters["SQ_VALU_MFMA_BUSY_CYCLES"] == (10 * 32 + 5 * 8) * waves  # 8 passes and 2 passes of four clocks
    assert counters["SQ_INSTS_VALU_MFMA_MOPS_F16"] == (10 * 2 * 32 * 32 * 8 + 5 * 2 * 4 * 4 * 4 * 16) // 512 * waves


def test_atomics_count_by_lane_and_by_segment(tmp_path: Path) -> None:
    counters = run(ATOMICS, tmp_path, 2, 64, 2, np.int32(100).tobytes()).counters  # 64 and 36 lanes

    assert counters["TD_ATOMIC_WAVEFRONT_sum"] == 4
    # Without return: every other dword, not merged. With return: contiguous dwords, four lanes a request.
    assert counters["TCP_TOTAL_ATOMIC_WITHOUT_RET_sum"] == 64 + 36
    assert counters["TCP_TOTAL_ATOMIC_WITH_RET_sum"] == 16 + 9
    assert counters["TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum"] == 8 + 5  # 512 and 288 bytes in segments of 64
    assert counters["TCP_TCC_ATOMIC_WITH_RET_REQ_sum"] == 4 + 3  # 256 and 144 bytes
    assert counters["TCC_ATOMIC_sum"] == 20
    assert "TCP_ATOMIC_TAGCONFLICT_STALL_CYCLES_sum" not in counters  # not modelled, so not invented


@pytest.mark.parametrize(
    ("block", "below"), [(64, ()), (60, (64,)), (47, (64, 48)), (32 + 64, (64, 48)), (31, (64, 48, 32)), (15, (64, 48, 32, 16))]
)
def test_partial_wavefronts_count_by_size(block: int, below: tuple[int, ...], tmp_path: Path) -> None:
    counters = run(ATOMICS, tmp_path, 2, block, 2, np.int32(1000).tobytes()).counters

    assert {k: counters[f"SQ_WAVES_LT_{k}"] for k in (64, 48, 32, 16)} == {k: 2 * (k in below) for k in (64, 48, 32, 16)}
    assert counters["SQ_WAVES"] == counters["SPI_CSN_WAVE"] == 2 * -(-block // 64)


def test_passes_of_sparse_and_double_products(tmp_path: Path) -> None:
    source = """\
#include <hip/hip_runtime.h>
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef float float4v __attribute__((ext_vector_type(4)));
typedef double double4v __attribute__((ext_vector_type(4)));
__global__ void passes(const double* a, float* out) {
  half4 x = {(_Float16)a[threadIdx.x], 1, 2, 3};
  half8 y = {x[0], 1, 2, 3, 4, 5, 6, 7};
  float4v s = {};
  double4v d = {};
  s = __builtin_amdgcn_smfmac_f32_16x16x32_f16(x, y, s, 0, 0, 0);
  d = __builtin_amdgcn_mfma_f64_16x16x4f64(a[threadIdx.x], a[threadIdx.x], d, 0, 0, 0);
  double e = __builtin_amdgcn_mfma_f64_4x4x4f64(a[threadIdx.x], a[threadIdx.x], 0.0, 0, 0, 0);
  out[threadIdx.x] = s[0] + (float)d[0] + (float)e;
}
"""
    program = run(source, tmp_path, 1, 64, 2).program
    quads = {i.mnemonic: vector_quads(i) for i in program.instructions if i.is_matrix}

    # Passes in the CDNA3 instruction set guide: half of those of a dense product of the same shape; 8 and 4 for float64.
    assert quads == {"V_SMFMAC_F32_16X16X32_F16": 4, "V_MFMA_F64_16X16X4_F64": 8, "V_MFMA_F64_4X4X4_4B_F64": 4}
