"""Causes of waits, in small sequences with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.rocprof.att.effects import Counter, row_effects
from rocm_perf_lab.rocprof.att.waits import Follower, counter_of


def waited(*texts: str, gfxip: int | None = 9) -> dict[int, list[int]]:
    """Position of a waiting instruction -> positions of its causes."""
    follower = Follower({row: row_effects(text, gfxip) for row, text in enumerate(texts)}, gfxip)
    rows = np.arange(len(texts))
    found: dict[int, list[int]] = {}
    for links in (follower.counter_links(rows), follower.matrix_links(rows, np.ones(len(texts), np.bool_))):
        for victim, cause in zip(links.victims.tolist(), links.causes.tolist(), strict=True):
            found[victim] = sorted([*found.get(victim, []), cause])
    return found


A, B = "global_load_dword v1, v0, s[0:1]", "buffer_load_dwordx4 v[4:7], v0, s[8:11], 0 offen"
LDS, SMEM, FLAT = "ds_read_b32 v9, v8", "s_load_dwordx2 s[0:1], s[4:5], 0x0", "flat_load_dword v3, v[2:3]"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([A, "s_waitcnt vmcnt(0)"], {1: [0]}),
        ([A, B, "s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)"], {2: [0], 3: [1]}),
        ([A, B, "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(0)"], {2: [0, 1]}),
        ([A, LDS, "s_waitcnt lgkmcnt(0)"], {2: [1]}),
        ([A, SMEM, "s_waitcnt vmcnt(0) lgkmcnt(0)"], {2: [0, 1]}),
        ([A, SMEM, "s_waitcnt vmcnt(0) & lgkmcnt(0)"], {2: [0, 1]}),
        ([FLAT, "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)"], {1: [0], 2: [0]}),
        (["global_store_dword v0, v1, s[0:1]", "s_waitcnt vmcnt(0)"], {1: [0]}),
        ([A, "v_add_f32_e32 v2, v1, v1", "s_waitcnt vmcnt(2)"], {}),
        (["s_waitcnt vmcnt(0)"], {}),
        ([A, LDS, "s_waitcnt 0xf70"], {2: [0]}),
        ([A, LDS, "s_waitcnt 0xc07f"], {2: [1]}),
        (["buffer_inv sc1", "s_waitcnt vmcnt(0)"], {}),
    ],
)
def test_counters_of_gfx9(texts: list[str], expected: dict[int, list[int]]) -> None:
    assert waited(*texts) == expected
    assert waited(*texts, gfxip=None) == expected


def test_gfx10_counts_stores_separately() -> None:
    store = "global_store_dword v0, v1, off"

    assert waited(store, A, "s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0", gfxip=10) == {2: [1], 3: [0]}
    assert waited("global_atomic_add v0, v1, off", "s_waitcnt vmcnt(0)", gfxip=10) == {}
    assert waited("global_atomic_add v2, v0, v1, off glc", "s_waitcnt vmcnt(0)", gfxip=10) == {1: [0]}


def test_gfx12_has_counters_for_lds_and_scalar_loads() -> None:
    texts = (A, LDS, SMEM, "s_wait_dscnt 0x0", "s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0")

    assert waited(*texts, gfxip=12) == {3: [1], 4: [2], 5: [0]}
    assert waited(A, A, LDS, "s_wait_loadcnt_dscnt 0x100", gfxip=12) == {3: [0, 2]}


def test_a_reader_waits_for_the_result_of_a_matrix_instruction() -> None:
    first = "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]"
    second = "v_mfma_f32_32x32x8_f16 a[16:31], v[0:1], v[2:3], a[16:31]"

    assert waited(first, second, "v_accvgpr_read_b32 v9, a3") == {1: [0], 2: [0]}
    assert waited(first, "v_add_f32_e32 v8, v9, v9") == {}
    assert waited(first, "v_add_f32_e32 v8, v9, v9", second) == {2: [0]}
    assert waited(first, "global_store_dword v40, a2, s[0:1]") == {1: [0]}


def test_a_pause_belongs_to_the_following_instruction() -> None:
    first = "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]"

    assert waited(first, "s_nop 7", "s_nop 7", "v_accvgpr_read_b32 v9, a3") == {1: [0], 2: [0], 3: [0]}
    assert waited(first, "s_mov_b32 m0, s1", "s_nop 0", "buffer_load_dword v1, s[0:3], 0 offen lds") == {}
    assert waited(first, "s_nop 7") == {}


def test_the_counter_of_a_cause_is_named() -> None:
    texts = (A, LDS, "s_waitcnt vmcnt(0) lgkmcnt(0)")

    follower = Follower({row: row_effects(text, 9) for row, text in enumerate(texts)})
    links = follower.counter_links(np.arange(3))

    assert [counter_of(number) for number in links.counters.tolist()] == [Counter.VECTOR, Counter.SCALAR_AND_LDS]
