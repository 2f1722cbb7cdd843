"""Time for which matrix instructions occupy the matrix core, and recognition of an architecture by its code."""

from __future__ import annotations

import pytest

from rocm_perf_lab.arch.registry import architecture_of_code, load_architecture


@pytest.mark.parametrize(
    ("architecture", "text", "clocks"),
    [
        # Measured in thread traces of MI300X and MI325X.
        ("gfx942", "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", 32),
        ("gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]", 16),
        # 512 float16 operations per SIMD and clock, in the published ratios of the other types.
        ("gfx942", "v_mfma_f32_16x16x4_f32 a[0:3], v0, v1, a[0:3]", 2 * 16 * 16 * 4 // 64),
        ("gfx942", "v_mfma_f32_32x32x2_f32 a[0:15], v0, v1, a[0:15]", 2 * 32 * 32 * 2 // 64),
        ("gfx942", "v_mfma_f32_32x32x4_xf32 a[0:15], v[0:1], v[2:3], a[0:15]", 2 * 32 * 32 * 4 // 256),
        ("gfx942", "v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7]", 2 * 16 * 16 * 4 // 64),
        ("gfx942", "v_mfma_i32_32x32x16_i8 a[0:15], v[0:1], v[2:3], a[0:15]", 2 * 32 * 32 * 16 // 1024),
        ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8 a[0:3], v[0:1], v[2:3], a[0:3]", 2 * 16 * 16 * 32 // 1024),
        ("gfx942", "v_smfmac_f32_32x32x16_f16 a[0:15], v[0:1], v[2:5], v6", 32),
        ("gfx90a", "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]", 2 * 32 * 32 * 8 // 256),
        ("gfx90a", "v_mfma_f64_16x16x4f64 a[0:7], v[0:1], v[2:3], a[0:7]", 2 * 16 * 16 * 4 // 64),
        ("gfx950", "v_mfma_f32_32x32x16_f16 a[0:15], v[0:3], v[4:7], a[0:15]", 2 * 32 * 32 * 16 // 1024),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:9], v[10:15], v[0:3] cbsz:4 blgp:4", 2 * 16 * 16 * 128 // 4096),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3]", 2 * 16 * 16 * 128 // 2048),
        ("gfx950", "v_mfma_f64_16x16x4_f64 a[0:7], v[0:1], v[2:3], a[0:7]", 2 * 16 * 16 * 4 // 32),
        ("gfx942", "v_add_f32_e32 v0, v1, v2", None),
        ("gfx1030", "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", None),
    ],
)
def test_clocks_of_matrix_instructions(architecture: str, text: str, clocks: int | None) -> None:
    assert load_architecture(architecture).matrix_clocks(text) == clocks


@pytest.mark.parametrize(
    ("generation", "instructions", "name"),
    [
        (9, ["s_endpgm", "v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], a[0:15]"], "gfx90a"),
        (9, ["v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]"], "gfx942"),
        (9, ["v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], a[0:3]"], "gfx950"),
        (9, ["s_endpgm"], "gfx942"),
        (11, ["v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]"], "gfx1030"),
    ],
)
def test_an_architecture_is_recognised_by_its_instructions(generation: int, instructions: list[str], name: str) -> None:
    found = architecture_of_code(generation, instructions)

    assert found is not None
    assert found.name == name
