"""Executed instructions: widths of accesses, scratch accesses, and the useful part of the work, by hand."""

from __future__ import annotations

import pytest

from rocm_perf_lab.analysis.executed_code import ExecutedCode, ExecutedInstruction, access_bytes


def code(*rows: tuple[str, int]) -> ExecutedCode:
    return ExecutedCode(tuple(ExecutedInstruction(text, times, 8 * n) for n, (text, times) in enumerate(rows)))


@pytest.mark.parametrize(
    ("mnemonic", "size"),
    [
        ("global_load_dwordx4", 16),
        ("global_load_dword", 4),
        ("global_load_ubyte", 1),
        ("global_load_short_d16", 2),
        ("flat_store_dwordx2", 8),
        ("buffer_load_b128", 16),
        ("global_load_u16", 2),
        ("scratch_load_dwordx3", 12),
        ("global_atomic_add_x2", 8),
        ("global_atomic_add_f32", 4),
        ("v_add_f32_e32", None),
        ("ds_read_b32", None),
    ],
)
def test_the_mnemonic_states_the_bytes_per_lane(mnemonic: str, size: int | None) -> None:
    assert access_bytes(mnemonic) == size


def test_widths_are_weighted_by_executions() -> None:
    found = code(("global_load_dwordx4 v[0:3], v8, s[0:1]", 30), ("global_store_dword v8, v0, s[2:3]", 10))

    assert found.lane_bytes == (16 * 30 + 4 * 10) / 40


def test_scratch_accesses_count_by_number_and_by_bytes() -> None:
    found = code(("scratch_load_dwordx4 v[0:3], off, s32", 1), ("global_load_dword v4, v5, s[0:1]", 3))

    assert found.scratch_share == 0.25
    assert found.scratch_bytes_share == 16 / 28


def test_address_arithmetic_is_overhead_and_stored_values_are_not() -> None:
    found = code(
        ("v_lshlrev_b32_e32 v1, 2, v0", 1),  # address
        ("v_add_u32_e32 v1, s4, v1", 1),  # address
        ("global_load_dword v2, v1, s[0:1]", 1),
        ("v_mul_f32_e32 v3, v2, v2", 1),  # data
        ("global_store_dword v1, v3, s[2:3]", 1),
    )

    assert found.overhead == {"valu": pytest.approx(2 / 3)}


def test_a_value_that_a_loop_brings_back_is_useful() -> None:
    # The branch at address 24 goes back to address 8: 24 + 4 - 5 * 4.
    found = code(
        ("v_mov_b32_e32 v2, 0", 1),
        ("v_add_f32_e32 v2, v2, v3", 100),
        ("s_add_i32 s4, s4, -1", 100),
        ("s_cbranch_scc1 65531", 100),
        ("global_store_dword v1, v2, s[2:3]", 1),
    )

    assert found.overhead["valu"] == 0.0
    assert found.overhead["salu"] == 1.0  # the loop counter and the branch


def test_a_hash_of_integers_is_useful_if_it_is_stored() -> None:
    found = code(
        ("v_xor_b32_e32 v2, v0, v1", 50),
        ("v_mul_lo_u32 v2, v2, s4", 50),
        ("global_store_dword v3, v2, s[2:3]", 1),
    )

    assert found.overhead["valu"] == 0.0


def test_a_condition_that_selects_a_stored_value_is_useful() -> None:
    found = code(
        ("s_and_b32 s5, s3, 1", 9),
        ("s_cmp_eq_u32 s5, 0", 9),
        ("s_mul_i32 s12, s4, s4", 9),  # does not change SCC
        ("s_cselect_b32 s0, s0, s12", 9),
        ("v_mov_b32_e32 v1, s0", 1),
        ("global_store_dword v0, v1, s[6:7]", 1),
    )

    assert found.overhead == {"valu": 0.0, "salu": 0.0}


def test_matrix_operands_are_data() -> None:
    found = code(
        ("v_cvt_f16_f32_e32 v0, v4", 1),
        ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", 1),
    )

    assert found.overhead["valu"] == 0.0


def test_damaged_text_is_no_error() -> None:
    assert code(("", 1), ("?", 2), ("s_cbranch_scc0 label_1", 1), ("v_mov_b32", 1)).lane_bytes is None
    assert code(("", 1), ("?", 2), ("s_cbranch_scc0 label_1", 1), ("v_mov_b32", 1)).overhead
