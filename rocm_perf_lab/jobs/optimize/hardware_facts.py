"""Facts of the target for prompts: registers, LDS, caches, and matrix instructions with their builtins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import find_architecture
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set

if TYPE_CHECKING:
    from rocm_perf_lab.target.model import Target

_KIB = 1024
_LDS_BANKS, _BANK_BYTES = 32, 4
"""LDS banks of all GCN, CDNA and RDNA compute units (AMD's ISA guides)."""


@dataclass(frozen=True)
class MatrixBuiltin:
    """Builtin of LLVM for a matrix instruction; `operands` are the types of one lane for A, B and C."""

    mnemonic: str
    builtin: str
    operands: str


_MATRIX = (
    MatrixBuiltin("v_mfma_f32_16x16x32_f16", "mfma_f32_16x16x32_f16", "half8, half8, float4"),
    MatrixBuiltin("v_mfma_f32_32x32x16_f16", "mfma_f32_32x32x16_f16", "half8, half8, float16"),
    MatrixBuiltin("v_mfma_f32_16x16x16_f16", "mfma_f32_16x16x16f16", "half4, half4, float4"),
    MatrixBuiltin("v_mfma_f32_32x32x8_f16", "mfma_f32_32x32x8f16", "half4, half4, float16"),
    MatrixBuiltin("v_mfma_f32_16x16x16_bf16", "mfma_f32_16x16x16bf16_1k", "short4, short4, float4"),
    MatrixBuiltin("v_mfma_f32_32x32x8_bf16", "mfma_f32_32x32x8bf16_1k", "short4, short4, float16"),
    MatrixBuiltin("v_mfma_f32_16x16x4_f32", "mfma_f32_16x16x4f32", "float, float, float4"),
    MatrixBuiltin("v_mfma_f32_32x32x2_f32", "mfma_f32_32x32x2f32", "float, float, float16"),
    MatrixBuiltin("v_mfma_i32_16x16x32_i8", "mfma_i32_16x16x32_i8", "long, long, int4"),
    MatrixBuiltin("v_mfma_i32_32x32x16_i8", "mfma_i32_32x32x16_i8", "long, long, int16"),
    MatrixBuiltin("v_mfma_f32_16x16x32_fp8_fp8", "mfma_f32_16x16x32_fp8_fp8", "long, long, float4"),
    MatrixBuiltin("v_mfma_f64_16x16x4_f64", "mfma_f64_16x16x4f64", "double, double, double4"),
)
"""Dense shapes, with the names in clang's BuiltinsAMDGPU; vectors are `ext_vector_type`s."""


def hardware_facts(target: Target) -> list[str]:
    """Return sentences about the target for the author of a rewrite."""
    limits, lds, caches, peaks = target.wave_limits, target.lds_pool, target.caches, target.peaks
    waves = limits.max_waves_per_simd
    facts = [
        f"{target.compute_units} compute units (CUs) in {target.xcds} dies, {target.simds_per_cu} SIMDs per CU, wavefronts of "
        f"{limits.wave_size} lanes; workgroups are distributed to the dies round-robin",
        f"vector registers: {limits.vgprs_per_lane} per lane and SIMD for all wavefronts, allocated in steps of "
        f"{limits.vgpr_granule}: {limits.vgprs_per_lane // waves} allow {waves} wavefronts, "
        f"{limits.vgprs_per_lane // 4} allow 4, {limits.vgprs_per_lane // 2} allow 2",
        f"LDS: {lds.bytes // _KIB} KiB per CU, at most {lds.max_per_workgroup_bytes // _KIB} KiB per workgroup, "
        f"{_LDS_BANKS} banks of {_BANK_BYTES} bytes: a stride of {_LDS_BANKS} elements of {_BANK_BYTES} bytes conflicts",
        f"caches: {caches.vector_l1_bytes // _KIB} KiB of vector L1 per CU in lines of {caches.vector_l1_line_bytes} bytes, "
        f"{caches.l2_bytes_per_xcd // _KIB} KiB of L2 per die, {caches.mall_bytes >> 20} MiB of memory-side cache",
        *_rates(peaks.vector_flops_per_cu_clock, "vector"),
        *_rates(peaks.matrix_flops_per_cu_clock, "matrix"),
    ]
    timing = target.timing
    if timing is not None:
        facts.append(
            f"latencies in clocks: LDS {timing.lds_latency}, vector L1 {timing.vector_l1_latency}, L2 {timing.l2_latency}, "
            f"memory {timing.dram_latency}"
        )
    return [*facts, *_matrix_facts(target.architecture)]


def _rates(rates: dict[str, float], kind: str) -> list[str]:
    if not rates:
        return []
    texts = ", ".join(f"{name.replace('_', ' ')} {rate:g}" for name, rate in rates.items())
    return [f"{kind} operations per CU and clock (an FMA counts as two): {texts}"]


def _matrix_facts(architecture: str) -> list[str]:
    """Return the matrix instructions of an architecture; empty if it has none or if they are not described."""
    described = find_architecture(architecture)
    if described is None or described.emulator is None or not described.matrix_passes:
        return []
    isa = instruction_set(architecture)
    clocks = {row: described.matrix_clocks(row.mnemonic) for row in _MATRIX if isa.has(row.mnemonic.upper())}
    rows = [f"__builtin_amdgcn_{r.builtin}({r.operands}, 0, 0, 0): {time} clocks" for r, time in clocks.items() if time]
    layout = (
        "matrix operands of M x N x K: lane l holds A[l % M][k0 + j] and B[k0 + j][l % N], k0 = (l / M) * (elements per lane); "
        "of C it holds column l % N, rows 4 * (l / N) + j (16 x 16), or 8 * (j / 4) + 4 * (l / 32) + j % 4 (32 x 32)"
    )
    return [f"matrix instructions: {'; '.join(rows)}", layout] if rows else []
