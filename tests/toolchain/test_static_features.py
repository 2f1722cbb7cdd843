"""Static features of kernels with known instructions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.static_features import instruction_class, static_features
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.code_object import CodeObject


def test_vec_copy_has_the_instructions_that_an_mi300x_counts(vec_copy: CodeObject) -> None:
    features = static_features(vec_copy, find_kernel(vec_copy, "vecCopy"))

    assert (features.valu, features.salu, features.smem, features.branch, features.vmem) == (6, 3, 4, 1, 2)
    assert (features.waitcnt, features.other, features.lds, features.mfma) == (3, 1, 0, 0)
    assert features.instructions == 20
    assert features.code_bytes == 120


def test_spills_and_scratch_are_those_of_the_compiler(tmp_path: Path) -> None:
    source = """
    #include <hip/hip_runtime.h>
    extern "C" __global__ __launch_bounds__(1024) __attribute__((amdgpu_waves_per_eu(8, 8))) void crowded(float* a) {
      float x[96];
      for (int i = 0; i < 96; i++) x[i] = a[threadIdx.x + i * 1024];
      __syncthreads();
      for (int i = 0; i < 96; i++) a[threadIdx.x + i * 1024] = x[95 - i] * x[i];
    }"""
    code_object = build_hip(source, tmp_path).code_object

    features = static_features(code_object, code_object.kernels[0])

    assert features.vgprs <= 64
    assert features.vgpr_spills > 0
    assert features.scratch_bytes > 0


@pytest.mark.parametrize(
    ("mnemonic", "expected"),
    [
        ("v_mfma_f32_32x32x8_f16", "mfma"),
        ("v_accvgpr_read_b32", "valu"),
        ("v_fma_f32", "valu"),
        ("s_and_b32", "salu"),
        ("s_load_dwordx4", "smem"),
        ("s_buffer_load_dword", "smem"),
        ("buffer_load_dword", "vmem"),
        ("flat_store_dword", "vmem"),
        ("scratch_load_dword", "vmem"),
        ("ds_read_b128", "lds"),
        ("s_cbranch_vccnz", "branch"),
        ("s_waitcnt", "waitcnt"),
        ("s_barrier", "barrier"),
        ("s_endpgm", "other"),
        ("s_atc_probe_buffer", "smem"),
        ("s_dcache_wb", "smem"),
        ("s_gl1_inv", "smem"),
        ("s_prefetch_data", "smem"),
        ("buffer_gl0_inv", "vmem"),
        ("image_bvh64_intersect_ray", "vmem"),
        ("tbuffer_load_format_x", "vmem"),
        ("global_load_lds_dword", "vmem"),
        ("ds_bpermute_b32", "lds"),
        ("v_smfmac_f32_16x16x32_f16", "mfma"),
        ("s_rfe_b64", "branch"),
        ("s_subvector_loop_end", "branch"),
        ("s_waitcnt_vscnt", "waitcnt"),
        ("s_sethalt", "other"),
        ("s_set_gpr_idx_on", "salu"),
        (".long", "other"),
    ],
)
def test_each_mnemonic_has_one_class(mnemonic: str, expected: str) -> None:
    assert instruction_class(mnemonic) == expected


@pytest.mark.parametrize(
    ("architecture", "encodings", "expected"),
    [
        ("cdna", ("FLATOp", "GLOBALOp", "SCRATCHOp", "MUBUFOp", "MTBUFOp"), {"vmem"}),
        ("rdna3", ("FLATOp", "GLOBALOp", "SCRATCHOp", "MUBUFOp", "MTBUFOp", "MIMGOp"), {"vmem"}),
        ("rdna4", ("VFLATOp", "VGLOBALOp", "VSCRATCHOp", "VBUFFEROp", "VIMAGEOp", "VSAMPLEOp"), {"vmem"}),
        ("cdna", ("DSOp",), {"lds"}),
        ("rdna3", ("DSOp", "LDSDIROp"), {"lds"}),
        ("cdna", ("SMEMOp",), {"smem"}),
        ("rdna3", ("SMEMOp",), {"smem"}),
        ("rdna4", ("SMEMOp",), {"smem"}),
        ("cdna", ("VOP1Op", "VOP2Op", "VOP3Op", "VOPCOp", "VOP3SDOp"), {"valu"}),
        ("rdna3", ("VOP1Op", "VOP2Op", "VOP3Op", "VOPCOp", "VOPDOp"), {"valu"}),
        ("cdna", ("VOP3POp", "VOP3PX2Op"), {"valu", "mfma"}),
        ("cdna", ("SOP2Op", "SOPCOp", "SOPKOp", "SOP1Op"), {"salu", "branch"}),
    ],
)
def test_every_instruction_of_an_encoding_has_the_class_of_its_unit(
    architecture: str, encodings: tuple[str, ...], expected: set[str]
) -> None:
    """Opcode tables are generated from AMD's machine-readable ISA."""
    tables = importlib.import_module(f"tinygrad.runtime.autogen.amd.{architecture}.enum")

    # Operations on the instruction cache are not memory operations of a wavefront, whatever their encoding.
    names = [op.name.lower() for encoding in encodings for op in getattr(tables, encoding) if "ICACHE" not in op.name]

    found = {name: instruction_class(name) for name in names}
    assert {name: kind for name, kind in found.items() if kind not in expected} == {}
    assert set(found.values()) == expected
