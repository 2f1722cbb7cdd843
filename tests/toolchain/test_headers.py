"""HIP headers for machines without ROCm: kernels compile to the expected hardware instructions."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.disassembly import disassemble
from tests.builders.kernels import write_source

if TYPE_CHECKING:
    from pathlib import Path

HALF = """
#include <hip/hip_fp16.h>
extern "C" __global__ void k(__half* a, half2* p, float* f, int* n) {
  int i = threadIdx.x;
  __half x = __float2half(f[i]), y = a[i];
  x = __hfma(x, y, __float2half_rn(1.5f)) + half(2) * y;
  x = __hadd(__hsub(x, y), __hmul(__hmax(x, y), __hdiv(x, __hneg(y))));
  if (__hgt(x, y) && !__hisnan(x)) x = hexp(hsqrt(hrcp(hlog(__habs(x)))));
  __half2 v = __hfma2(p[i], __half2half2(x), __floats2half2_rn(1.0f, 2.0f));
  v = __hadd2(v, p[i + 1]) * make_half2(x, y);
  v += h2exp(__lowhigh2highlow(v));
  float2 w = __half22float2(v);
  f[i] = __half2float(x) + w.x + __high2float(v) + float(__shfl_xor(x, 1));
  n[i] = __half2int_rn(x) + __half_as_ushort(y) + __half2int_rz(__low2half(__shfl_down(v, 2)));
  a[i] = __int2half_rn(n[i]);
  p[i] = v;
}"""

BFLOAT = """
#include <hip/hip_bf16.h>
extern "C" __global__ void k(__hip_bfloat16* a, __hip_bfloat162* p, float* f) {
  int i = threadIdx.x;
  __hip_bfloat16 x = __float2bfloat16(f[i]), y = a[i];
  x = __hfma(x, y, __float2bfloat16(1.5f)) + y;
  if (__hlt(x, y)) x = hexp(__hmin(x, __hdiv(y, x)));
  __hip_bfloat162 v = __hmul2(__hadd2(p[i], __floats2bfloat162_rn(f[i], 2.0f)), __halves2bfloat162(x, y));
  float2 w = __bfloat1622float2(v);
  f[i] = __bfloat162float(hsqrt(x)) + w.x * w.y + __bfloat16_as_ushort(__shfl(y, 3));
  a[i] = __low2bfloat16(v);
  p[i] = __float22bfloat162_rn(w);
}"""

HALF_AND_BFLOAT = """
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
extern "C" __global__ void k(__half* a, __hip_bfloat16* b) {
  a[0] = __hadd(a[1], a[2]);
  b[0] = __hadd(b[1], __float2bfloat16(__half2float(a[0])));
}"""

FP8 = """
#include <hip/hip_fp8.h>
extern "C" __global__ void k(__hip_fp8_e4m3_fnuz* a, __hip_fp8_e5m2_fnuz* b, float* f) {
  int i = threadIdx.x;
  f[i] = float(a[i]) + float(b[i]);
  a[i] = __hip_fp8_e4m3_fnuz(f[i]);
  b[i] = __hip_fp8_e5m2_fnuz(f[i] * 2);
  a[i + 1].__x = __hip_cvt_float_to_fp8(f[i], __HIP_NOSAT, __HIP_E4M3_FNUZ);
}"""

GROUPS = """
#include <hip/hip_cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(float* a, int* n) {
  __shared__ float tile_sums[32];
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  float x = a[cg::this_grid().thread_rank()];
  for (int by = tile.size() / 2; by > 0; by /= 2) x += tile.shfl_down(x, by);
  if (tile.thread_rank() == 0) tile_sums[tile.meta_group_rank()] = x;
  block.sync();
  auto quad = cg::tiled_partition<4>(block);
  x = cg::reduce(quad, tile_sums[block.thread_rank() & 31], cg::greater<float>());
  if (block.thread_rank() & 1) {
    auto active = cg::coalesced_threads();
    n[0] = active.size() + active.thread_rank() + active.shfl(n[block.thread_rank()], 0);
  }
  tile.sync();
  a[block.thread_rank()] = x + tile.shfl(x, 0) + tile.shfl_xor(x, 3) + tile.any(x > 0) + tile.all(x > 1);
}"""

GRID_SYNC = """
#include <hip/hip_cooperative_groups.h>
extern "C" __global__ void k(int* n) {
  auto grid = cooperative_groups::this_grid();
  n[grid.thread_rank()] = 1;
  grid.sync();
  n[grid.size() + grid.thread_rank()] = n[0];
}"""

COMPLEX = """
#include <hip/hip_complex.h>
extern "C" __global__ void k(hipFloatComplex* a, hipDoubleComplex* b) {
  int i = threadIdx.x;
  hipFloatComplex z = hipCfmaf(hipCmulf(a[i], hipConjf(a[i + 1])), make_hipComplex(0.0f, 1.0f), a[i]);
  a[i] = hipCdivf(hipCsubf(z, a[i]), make_hipFloatComplex(hipCabsf(z), hipCrealf(z) + hipCimagf(z)));
  b[i] = hipCadd(hipCdiv(b[i], hipComplexFloatToDouble(z)), make_hipDoubleComplex(hipCabs(b[i]), 0.0));
}"""

CONSTANTS = """
#include <hip/hip_runtime.h>
#include <hip/hip_math_constants.h>
static_assert(HIP_PI > 3.14159265358979 && HIP_PI < 3.14159265358980);
static_assert(HIP_PI_F == (float)HIP_PI && HIP_LN2_F == (float)HIP_LN2 && HIP_SQRT_TWO_F == (float)HIP_SQRT_TWO);
static_assert(HIP_PIO2 * 2 == HIP_PI && HIP_2_OVER_PI * HIP_PIO2 == 1.0);
extern "C" __global__ void k(float* a, double* b) {
  a[0] = HIP_INF_F;
  a[1] = HIP_NAN_F;
  a[2] = HIP_MAX_NORMAL_F;
  b[0] = HIP_INF + HIP_L2E * b[1];
}"""


SHORT_NAMES = """
#include "hip_runtime.h"
#include "hip_fp16.h"
#include <hip_bf16.h>
#include <hip_cooperative_groups.h>
#include <hip/hip_fp16.h>
extern "C" __global__ void k(half* a, __hip_bfloat16* b) {
  auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  if (tile.thread_rank() == 0) a[0] = __float2half(__bfloat162float(b[0]));
}"""

EVERY_HEADER = """
#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_complex.h>
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_ext.h>
#include <hip/hip_fp16.h>
#include <hip/hip_fp8.h>
#include <hip/hip_math_constants.h>
extern "C" __global__ void k(float* x) { x[BLOCK] = TILE; }"""

_ENCODING = r"_(e32|e64|sdwa|dpp)$"
"""Compilers choose the encoding of one operation: v_add_f16_e32 or v_add_f16_sdwa."""


def mnemonics(source_text: str, tmp_path: Path, cache_dir: Path) -> Counter[str]:
    """Return the number of occurrences of each operation in the kernel, whatever its encoding; ROCm is not used."""
    source = write_source(source_text, tmp_path)
    result = compile_source(
        CompileRequest(source, flags=("-Wall", "-Werror")), compiler=find_compiler(("pip",)), cache_dir=cache_dir
    )
    lines = disassemble(result.code_object, "k")
    return Counter(re.sub(_ENCODING, "", line.mnemonic) for line in lines)


def test_half_arithmetic_uses_half_and_packed_instructions(tmp_path: Path, cache_dir: Path) -> None:
    used = mnemonics(HALF, tmp_path, cache_dir)

    assert {"v_pk_fma_f16", "v_pk_mul_f16", "v_pk_add_f16", "v_cvt_f16_f32", "v_cvt_f32_f16", "v_sqrt_f16"} <= set(used)


def test_bfloat16_is_converted_and_computed_in_float(tmp_path: Path, cache_dir: Path) -> None:
    used = mnemonics(BFLOAT, tmp_path, cache_dir)

    assert used["v_fma_f32"] or used["v_fmac_f32"] or used["v_pk_fma_f32"]
    assert used["v_lshlrev_b32"]  # bfloat16 to float


def test_both_16_bit_floats_can_be_used_in_one_source(tmp_path: Path, cache_dir: Path) -> None:
    used = mnemonics(HALF_AND_BFLOAT, tmp_path, cache_dir)

    assert any(re.fullmatch(r"v_(pk_)?(add|fma|mad)\w*_f16", name) for name in used)


def test_fp8_uses_the_conversion_instructions(tmp_path: Path, cache_dir: Path) -> None:
    used = mnemonics(FP8, tmp_path, cache_dir)

    assert {"v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32", "v_med3_f32"} <= set(used)
    assert any(name.startswith("v_cvt_f32_fp8") for name in used)


def test_cooperative_groups_synchronise_and_shuffle(tmp_path: Path, cache_dir: Path) -> None:
    used = mnemonics(GROUPS, tmp_path, cache_dir)

    assert used["s_barrier"] == 1
    assert used["ds_bpermute_b32"] >= 5
    assert used["v_mbcnt_hi_u32_b32"] >= 1


def test_macros_of_kernels_do_not_change_the_headers(tmp_path: Path, cache_dir: Path) -> None:
    names = ["A", "C", "K", "M", "N", "X", "BLOCK", "GRID", "TILE", "WARP", "WAVE", "SIZE", "VALUE", "TYPE", "KIND"]
    source = write_source(EVERY_HEADER, tmp_path)
    request = CompileRequest(source, defines=dict.fromkeys(names, 7), flags=("-Wall", "-Werror"))

    result = compile_source(request, compiler=find_compiler(("pip",)), cache_dir=cache_dir)

    assert disassemble(result.code_object, "k")[-1].mnemonic == "s_endpgm"


@pytest.mark.parametrize(
    "source", [COMPLEX, CONSTANTS, GRID_SYNC, SHORT_NAMES], ids=["complex", "constants", "grid sync", "short"]
)
def test_kernels_compile_without_warnings(tmp_path: Path, cache_dir: Path, source: str) -> None:
    assert mnemonics(source, tmp_path, cache_dir)["s_endpgm"] >= 1
