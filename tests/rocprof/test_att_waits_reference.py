"""Links of waits against a slow and obvious model: every state that the hardware can be in is kept.

A state is the set of operations that are still out. Operations of one queue come back from the front, those of an unordered
one from anywhere. A wait lets those states through that have few enough out, after anything that may come has come. What is
out in no state behind a wait, and was in one before it, is what the wait is certain to have waited for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.rocprof.att.effects import row_effects
from rocm_perf_lab.rocprof.att.waits import Follower

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Operation = tuple[int, str]
"""Its place, and its queue; `?` at the end of a queue's name means that it returns in any order."""


@dataclass(frozen=True)
class Told:
    """An instruction as the ISA documents tell it: queues by counter that it joins, counters that it waits for."""

    text: str
    joins: tuple[tuple[str, str], ...] = ()
    waits: tuple[tuple[str, int], ...] = ()


def both(text: str, *joins: tuple[str, str]) -> Told:
    return Told(text, joins)


def waiting(text: str, **waits: int) -> Told:
    return Told(text, waits=tuple(waits.items()))


LOAD = "global_load_dwordx4 v[4:7], v[0:1], off"
STORE = "global_store_dword v[0:1], v2, off"
ATOMIC, RETURNING = "global_atomic_add_u32 v[0:1], v2, off", "global_atomic_add_u32 v3, v[0:1], v2, off {}"
FLAT, FLAT_STORE = "flat_load_dword v3, v[0:1]", "flat_store_dword v[0:1], v3"
LDS, GDS = "ds_read_b128 v[8:11], v2", "ds_add_u32 v1, v2 gds"
SCALAR, MESSAGE, ANSWERED = "s_load_dwordx8 s[0:7], s[8:9], 0x0", "s_sendmsg sendmsg(MSG_INTERRUPT)", "s_sendmsg_rtn_b32 s0, 1"
OTHERS = [Told("v_add_f32_e32 v1, v2, v3"), Told("s_add_u32 s0, s1, s2"), Told("s_nop 0"), Told("s_barrier")]

GFX9 = [
    *OTHERS,
    both(LOAD, ("vmcnt", "v")), both(STORE, ("vmcnt", "v")), both(ATOMIC, ("vmcnt", "v")),
    both(RETURNING.format("sc0"), ("vmcnt", "v")), both("buffer_load_dword v211, s[12:15], 0 offen lds", ("vmcnt", "v")),
    both("buffer_wbl2 sc1", ("vmcnt", "v")), Told("buffer_inv sc1"), Told("buffer_wbinvl1_vol"), Told("s_dcache_inv"),
    both("scratch_store_dwordx2 off, v[2:3], s32", ("vmcnt", "v")),
    both(FLAT, ("vmcnt", "f?"), ("lgkmcnt", "f?")), both(FLAT_STORE, ("vmcnt", "f?"), ("lgkmcnt", "f?")),
    both(LDS, ("lgkmcnt", "lds")), both(GDS, ("lgkmcnt", "gds"), ("expcnt", "gds")), both(SCALAR, ("lgkmcnt", "s?")),
    both("s_memtime s[0:1]", ("lgkmcnt", "s?")), both(MESSAGE, ("lgkmcnt", "m")),
    both("exp mrt0 v0, v1, v2, v3 done", ("expcnt", "e")),
    *(waiting(f"s_waitcnt vmcnt({n})", vmcnt=n) for n in range(4)),
    *(waiting(f"s_waitcnt lgkmcnt({n})", lgkmcnt=n) for n in range(4)),
    waiting("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)", vmcnt=0, expcnt=0, lgkmcnt=0),
    waiting("s_waitcnt vmcnt(2) lgkmcnt(1)", vmcnt=2, lgkmcnt=1), waiting("s_waitcnt vmcnt(0) & lgkmcnt(0)", vmcnt=0, lgkmcnt=0),
    waiting("s_waitcnt expcnt(0)", expcnt=0), waiting("s_waitcnt lgkmcnt(0x1)", lgkmcnt=1),
    waiting("s_waitcnt 0x0f71", vmcnt=1), waiting("s_waitcnt 0xc17f", lgkmcnt=1),
    waiting("s_waitcnt 0", vmcnt=0, expcnt=0, lgkmcnt=0),
]  # fmt: skip
GFX10 = [
    *OTHERS,
    both(LOAD, ("vmcnt", "v")), both(STORE, ("vscnt", "w")), both(ATOMIC, ("vscnt", "w")),
    both(RETURNING.format("glc"), ("vmcnt", "v")), both("image_sample v[0:3], v[4:5], s[0:7], s[8:11]", ("vmcnt", "v")),
    both("image_store v[0:3], v[4:5], s[0:7]", ("vscnt", "w")), Told("buffer_gl0_inv"), Told("buffer_gl1_inv"),
    both("image_bvh_intersect_ray v[0:3], v[4:15], s[0:3]", ("vmcnt", "v")),
    both(FLAT, ("vmcnt", "v"), ("lgkmcnt", "lds")), both(FLAT_STORE, ("vscnt", "w"), ("lgkmcnt", "lds")),
    both(LDS, ("lgkmcnt", "lds")), both(SCALAR, ("lgkmcnt", "s?")), both(MESSAGE, ("lgkmcnt", "m")),
    *(waiting(f"s_waitcnt vmcnt({n})", vmcnt=n) for n in range(3)),
    *(waiting(f"s_waitcnt lgkmcnt({n})", lgkmcnt=n) for n in range(3)),
    *(waiting(f"s_waitcnt_vscnt null, 0x{n:x}", vscnt=n) for n in range(3)),
    waiting("s_waitcnt vmcnt(0) lgkmcnt(0)", vmcnt=0, lgkmcnt=0), waiting("s_waitcnt_vmcnt null, 0x0", vmcnt=0),
    waiting("s_waitcnt_lgkmcnt null, 0x1", lgkmcnt=1), waiting("s_waitcnt 0x3f71", vmcnt=1), Told("s_waitcnt_depctr 0xffe3"),
]  # fmt: skip
GFX11 = [
    *GFX10[:-3], both("lds_param_load v1, attr0.x", ("expcnt", "lds")), both(ANSWERED, ("lgkmcnt", "m"), ("lgkmcnt", "m")),
    waiting("s_waitcnt expcnt(0)", expcnt=0), waiting("s_waitcnt 0x07f7", vmcnt=1), waiting("s_waitcnt 0xfc07", lgkmcnt=0),
]  # fmt: skip
GFX12 = [
    *OTHERS,
    both(LOAD, ("loadcnt", "v")), both(STORE, ("storecnt", "w")), both(ATOMIC, ("storecnt", "w")),
    both(RETURNING.format("th:TH_ATOMIC_RETURN"), ("loadcnt", "v")), both("global_inv scope:SCOPE_SYS", ("loadcnt", "v")),
    both("global_wb scope:SCOPE_SYS", ("storecnt", "w")), both("image_load v0, v1, s[0:7]", ("loadcnt", "v")),
    both("image_sample v[0:3], [v4, v5], s[0:7], s[8:11]", ("samplecnt", "v")),
    both("image_bvh64_intersect_ray v[0:3], [v4], s[0:3]", ("bvhcnt", "v")),
    both("flat_load_b32 v3, v[0:1]", ("loadcnt", "v"), ("dscnt", "lds")),
    both("flat_store_b32 v[0:1], v3", ("storecnt", "w"), ("dscnt", "lds")), both("ds_load_b128 v[8:11], v2", ("dscnt", "lds")),
    both("ds_param_load v1, attr0.x", ("expcnt", "lds")), both("s_load_b256 s[0:7], s[8:9], 0x0", ("kmcnt", "s?")),
    both(MESSAGE, ("kmcnt", "m")), both(ANSWERED, ("kmcnt", "m"), ("kmcnt", "m")), Told("s_prefetch_data s[0:1], 0x0, null, 0"),
    *(waiting(f"s_wait_{name} 0x{n:x}", **{name: n}) for n in range(3)
      for name in ("loadcnt", "storecnt", "dscnt", "kmcnt", "samplecnt", "bvhcnt", "expcnt")),
    waiting("s_wait_loadcnt_dscnt 0x100", loadcnt=1, dscnt=0), waiting("s_wait_storecnt_dscnt 0x1", storecnt=0, dscnt=1),
    waiting("s_wait_idle", loadcnt=0, storecnt=0, dscnt=0, kmcnt=0, samplecnt=0, bvhcnt=0, expcnt=0), Told("s_wait_alu 0xfffd"),
]  # fmt: skip
GENERATIONS = {9: GFX9, 10: GFX10, 11: GFX11, 12: GFX12}


def predecessors_come(out: frozenset[Operation]) -> Iterable[frozenset[Operation]]:
    """All that may be out later, from what is out now."""
    queues: dict[str, list[Operation]] = {}
    for one in sorted(out):
        queues.setdefault(one[1], []).append(one)
    choices = []
    for name, members in queues.items():
        if name.endswith("?"):
            choices.append([set(kept) for size in range(len(members) + 1) for kept in itertools.combinations(members, size)])
        else:
            choices.append([set(members[come:]) for come in range(len(members) + 1)])
    return (frozenset().union(*parts) for parts in itertools.product(*choices))


def certain(stream: Sequence[Told]) -> dict[int, set[int]]:
    """Place of a wait -> places of what it certainly waited for, by simulating every counter in all states."""
    found: dict[int, set[int]] = {}
    for counter in {name for told in stream for name, _ in (*told.joins, *told.waits)}:
        states = {frozenset[Operation]()}
        for place, told in enumerate(stream):
            # An operation that counts twice is two operations of one place, half a place apart.
            added = [(2 * place + n, queue) for n, queue in enumerate(q for name, q in told.joins if name == counter)]
            states = {state | frozenset(added) for state in states}
            for left in (left for name, left in told.waits if name == counter):
                before = frozenset().union(*states)
                states = {later for state in states for later in predecessors_come(state) if len(later) <= left}
                certainly = before - frozenset().union(*states)
                found.setdefault(place, set()).update(number // 2 for number, _ in certainly)
    return {place: causes for place, causes in found.items() if causes}


def linked(stream: Sequence[Told], gfxip: int) -> dict[int, set[int]]:
    texts = sorted({told.text for told in stream})
    follower = Follower({row: row_effects(text, gfxip) for row, text in enumerate(texts)}, gfxip)
    links = follower.counter_links(np.array([texts.index(told.text) for told in stream], np.int64))
    found: dict[int, set[int]] = {}
    for victim, cause in zip(links.victims.tolist(), links.causes.tolist(), strict=True):
        found.setdefault(victim, set()).add(cause)
    return found


@pytest.mark.parametrize("gfxip", GENERATIONS)
def test_links_hold_in_every_possible_history(gfxip: int) -> None:
    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.sampled_from(GENERATIONS[gfxip]), max_size=9))
    def agrees(stream: list[Told]) -> None:
        assert linked(stream, gfxip) == certain(stream)

    agrees()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(GFX9), min_size=1, max_size=4), st.integers(1, 3))
def test_links_cross_loop_iterations(body: list[Told], turns: int) -> None:
    assert linked(body * turns, 9) == certain(body * turns)


MATRIX = [
    Told("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]"),
    Told("v_mfma_f32_4x4x4_16b_f16 a[16:19], v[0:1], v[2:3], a[0:3]"),
    Told("v_smfmac_f32_16x16x32_f16 v[8:11], v[0:1], v[4:7], v12"),
    Told("v_accvgpr_read_b32 v9, a3"), Told("v_add_f32_e32 v20, v9, v21"), Told("ds_write_b64 v30, v[8:9]"),
    Told("global_store_dword v[40:41], a17, off"), Told("s_nop 7"), Told("s_mov_b32 m0, s1"),
]  # fmt: skip
RESULTS = [{f"a{n}" for n in range(16)}, {f"a{n}" for n in range(16, 20)}, {f"v{n}" for n in range(8, 12)}]
WRITES = [*RESULTS, *(set[str]() for _ in range(6))]
TOUCHES = [
    {*RESULTS[0], "v0", "v1", "v2", "v3"}, {*RESULTS[1], "v0", "v1", "v2", "v3", "a0", "a1", "a2", "a3"},
    {*RESULTS[2], "v0", "v1", "v4", "v5", "v6", "v7", "v12"}, {"v9", "a3"}, {"v20", "v9", "v21"}, {"v30", "v8", "v9"},
    {"v40", "v41", "a17"}, set(), set(),
]  # fmt: skip
PAUSE = 7


def matrix_causes(stream: Sequence[int], stalled: Sequence[bool]) -> dict[int, int]:
    """Looking back from every stalled instruction, or from what a pause is there for, through sixteen matrix instructions."""
    found: dict[int, int] = {}
    for place, row in enumerate(stream):
        acting = next((later for later in range(place, len(stream)) if stream[later] != PAUSE), None)
        earlier = [before for before in range(place) if WRITES[stream[before]]][-16:]
        if not stalled[place] or acting is None:
            continue
        touching = [before for before in earlier if WRITES[stream[before]] & TOUCHES[stream[acting]]]
        if touching:
            found[place] = touching[-1]
        elif WRITES[row] and earlier:
            found[place] = earlier[-1]
    return found


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(MATRIX) - 1), st.booleans()), max_size=40))
def test_matrix_links_match_a_backward_search(drawn: list[tuple[int, bool]]) -> None:
    rows, stalled = [row for row, _ in drawn], [one for _, one in drawn]
    follower = Follower({row: row_effects(told.text, 9) for row, told in enumerate(MATRIX)}, 9)

    links = follower.matrix_links(np.array(rows, np.int64), np.array(stalled, np.bool_))

    assert dict(zip(links.victims.tolist(), links.causes.tolist(), strict=True)) == matrix_causes(rows, stalled)
