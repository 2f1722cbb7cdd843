"""Text of CDNA instructions: what LLVM assembled is written as it was."""

from __future__ import annotations

import pytest

from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.toolchain.assembly_text import decode_instruction
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.assembly import assemble_code_object, kernel_text, metadata_text

COMMON = """
s_load_dwordx16 s[8:23], s[28:29], -0x40
s_load_dword s3, s[0:1], s5
s_buffer_load_dwordx2 s[4:5], s[8:11], 0x10 glc
s_addc_u32 s27, s27, -1
s_mov_b32 s4, 0x3fb8aa3b
s_mov_b64 s[8:9], 0x3f800000
s_movk_i32 s4, 0xff80
s_cmp_lg_u64 s[4:5], 0
s_getreg_b32 s4, hwreg(HW_REG_MODE, 4, 2)
s_setreg_b32 hwreg(HW_REG_MODE), s4
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), 0xf0
s_waitcnt vmcnt(3) lgkmcnt(0)
s_nop 3
s_getpc_b64 s[4:5]
v_alignbit_b32 v3, v3, v4, 14
v_addc_co_u32_e64 v26, s[0:1], v38, v26, s[0:1]
v_addc_co_u32_e32 v0, vcc, v1, v2, vcc
v_cndmask_b32_e32 v0, v1, v2, vcc
v_cmp_lt_f32_e64 s[4:5], |v1|, -v2
v_cmp_eq_u16_e32 vcc, 7, v1
v_div_scale_f64 v[0:1], vcc, v[2:3], v[4:5], v[6:7]
v_fma_f32 v15, v13, s18, -v15 clamp mul:2
v_mad_u16 v0, v1, v2, v3 op_sel:[1,0,0,1]
v_mul_f32_e32 v1, 0.15915494, v3
v_mul_f64 v[0:1], v[2:3], 0.15915494309189532
v_mul_f16_e32 v1, 0x3456, v3
v_add_f32_e32 v1, -4.0, v3
v_readfirstlane_b32 s9, v12
v_readlane_b32 s9, v12, 3
v_writelane_b32 v12, s9, m0
v_or_b32_sdwa v8, v11, v8 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:DWORD
v_mul_u32_u24_sdwa v7, v11, s0 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:DWORD
v_cmp_eq_u32_sdwa s[4:5], v1, v2 src0_sel:BYTE_0 src1_sel:DWORD
v_cvt_f32_i32_sdwa v0, sext(v1) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1
v_add_f32_dpp v0, -v1, |v2| quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v0, v1 row_shr:8 row_mask:0xa bank_mask:0x5
v_mov_b32_dpp v0, v1 row_bcast:31 row_mask:0xc bank_mask:0xf
v_pk_fma_f32 v[18:19], v[18:19], s[20:21], s[20:21] op_sel_hi:[1,0,0]
v_pk_mul_f32 v[4:5], v[4:5], v[34:35] op_sel:[0,1] neg_lo:[1,0] neg_hi:[1,0]
v_pk_add_f16 v0, v1, v2 op_sel_hi:[0,1] clamp
v_pk_mov_b32 v[138:139], v[114:115], v[114:115] op_sel:[0,1]
v_fma_mix_f32 v7, v6, -s5, |v4| op_sel:[0,0,1] op_sel_hi:[0,0,1]
v_dot4_i32_i8 v0, v1, v2, v3
v_accvgpr_read_b32 v8, a3
v_accvgpr_write_b32 a3, v8
ds_read_b128 v[4:7], v1 offset:128
ds_read2st64_b32 v[4:5], v1 offset1:4
ds_write2_b64 v8, v[6:7], v[10:11] offset0:2 offset1:3
ds_write_b32 v1, a2 offset:65532
ds_add_rtn_u32 v0, v1, v2 offset:4
ds_bpermute_b32 v61, v91, v10 offset:20
ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)
ds_swizzle_b32 v0, v1 offset:swizzle(BROADCAST,4,1)
ds_swizzle_b32 v0, v1 offset:swizzle(REVERSE,8)
ds_swizzle_b32 v0, v1 offset:swizzle(QUAD_PERM,0,2,1,3)
ds_swizzle_b32 v0, v1 offset:swizzle(BITMASK_PERM,"01pip")
global_store_dwordx4 v[4:5], v[16:19], off offset:-8
global_load_dwordx2 a[2:3], v1, s[0:1]
global_atomic_add v[0:1], v2, off
flat_load_dword v0, v[2:3] offset:12
buffer_load_dword v55, off, s[8:11], s3 offset:108
buffer_store_dwordx2 v[8:9], v6, s[16:19], 0 offen
buffer_load_short_d16_hi v1, v[2:3], s[8:11], 0 idxen offen offset:4
buffer_load_format_xyz v[0:2], v3, s[8:11], 0 idxen
"""
CDNA2 = """
v_mac_f32_e32 v0, 0xcf800000, v1
v_mad_f32 v2, -v2, v1, v3
v_madmk_f32 v0, v1, 0x3fb8aa3b, v2
v_madak_f32 v0, v1, v2, 0x3fb8aa3b
v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15] cbsz:1 abid:1 blgp:2
v_mfma_f32_32x32x2f32 v[0:15], v32, a3, 0
v_mfma_f32_16x16x16bf16_1k a[0:3], v[0:1], v[2:3], a[0:3]
v_mfma_f32_32x32x4bf16 a[0:15], v0, v2, a[0:15]
v_mfma_f64_16x16x4f64 a[0:7], v[0:1], v[2:3], a[0:7]
v_mfma_i32_16x16x16i8 a[0:3], v1, v2, a[0:3]
global_atomic_add v42, v[40:41], v42, off offset:256 glc
global_load_dword v2, v[22:23], off glc slc scc
buffer_store_dword v109, v6, s[16:19], 0 offen slc
buffer_wbinvl1_vol
scratch_load_dword v0, off, s4 offset:-4
"""
CDNA3 = """
v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]
v_mfma_f32_16x16x32_fp8_bf8 a[0:3], v[0:1], v[2:3], a[0:3]
v_smfmac_f32_16x16x32_f16 v[0:3], a[4:5], v[6:9], v10 cbsz:1
v_lshl_add_u64 v[2:3], s[2:3], 0, v[0:1]
v_mov_b64_e32 v[0:1], v[2:3]
global_atomic_add v42, v[40:41], v42, off offset:256 sc0
global_load_dword v2, v[22:23], off sc0 nt sc1
buffer_store_dword v109, v6, s[16:19], 0 offen nt
buffer_wbl2 sc0 sc1
buffer_inv sc1
scratch_load_dword v0, v1, off offset:4
"""


@pytest.mark.parametrize(("architecture", "own"), [("gfx90a", CDNA2), ("gfx942", CDNA3)])
def test_the_text_is_the_one_that_was_assembled(architecture: str, own: str) -> None:
    lines = [*COMMON.split("\n"), *own.split("\n")]
    expected = [line for line in lines if line]
    text = kernel_text("k", "\n".join([*expected, "s_endpgm"])) + metadata_text("k", target=architecture)
    decoder = load_architecture(architecture).decoder
    elf = parse_elf(assemble_code_object(text, cpu=architecture))
    code = elf.read(elf.symbols["k"].address, elf.symbols["k"].size)
    assert decoder is not None

    written, position = [], 0
    while position < len(code):
        line, size = decode_instruction(code[position:], decoder)
        written.append(line)
        position += size

    assert written == [*expected, "s_endpgm"]


def test_bytes_that_are_no_instruction() -> None:
    decoder = load_architecture("gfx90a").decoder
    assert decoder is not None

    assert decode_instruction(bytes.fromhex("ffffffff"), decoder) == (".long 0xffffffff", 4)
