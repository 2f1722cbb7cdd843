"""Code of a kernel whose executions were not recorded: bounds of widths, impossible losses, and proofs by counters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.code_account import code_account
from rocm_perf_lab.analysis.counted import CountedEvents
from rocm_perf_lab.analysis.counter_account import counter_account
from rocm_perf_lab.analysis.ledger import Cause, Source
from rocm_perf_lab.analysis.roofline import evaluate_metrics
from rocm_perf_lab.analysis.static_code import StaticCode
from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest
from rocm_perf_lab.jobs.analyze.results import analyze_recording
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.disassembly import AssemblyLine
from tests.builders.kernels import VEC_COPY as COPY_SOURCE
from tests.builders.kernels import build_hip
from tests.builders.profiles import VEC_COPY_NS, vec_copy_profile
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.analysis.ledger import Account

COPY = ("v_mov_b32_e32 v1, 0", "global_load_dword v2, v1, s[0:1]", "s_waitcnt vmcnt(0)", "global_store_dword v1, v2, s[2:3]")
SKIP_TO_END = bytes((2, 0, 0x88, 0xBF))
"""Branch over the next two dwords."""
BACK = bytes((0xFD, 0xFF, 0x82, 0xBF))
WAVES = 1000.0


def code(*texts: str, branch: bytes = SKIP_TO_END) -> StaticCode:
    """Return a code of instructions of four bytes; branches have the encoding `branch`."""
    lines = [
        AssemblyLine(4 * number, branch if text.startswith(("s_cbranch", "s_branch")) else bytes(4), text)
        for number, text in enumerate(texts)
    ]
    return StaticCode.of(lines)


def counted(vector: float, memory: float) -> CountedEvents:
    return CountedEvents(({"SQ_WAVES": WAVES, "SQ_INSTS_VALU": vector * WAVES, "SQ_INSTS_VMEM": memory * WAVES},), emulated=False)


def account(directory: Path, counters: Mapping[str, float], static: StaticCode | None) -> Account:
    profile = vec_copy_profile(directory, counters)
    return counter_account(profile, evaluate_metrics(profile, VEC_COPY_NS), VEC_COPY_NS, static=static)


@pytest.mark.parametrize(
    ("texts", "widths"),
    [
        (COPY, (4, 4)),
        ((*COPY, "buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen", "buffer_wbl2 sc1", "buffer_inv sc1"), (4, 16)),
        ((*COPY, "s_swappc_b64 s[30:31], s[4:5]"), None),  # the called function may access anything
        ((*COPY, "image_load v0, v1, s[0:7]"), None),
        (("s_endpgm",), None),
    ],
)
def test_widths_are_bounds_of_all_accesses(texts: tuple[str, ...], widths: tuple[int, int] | None) -> None:
    assert code(*texts).widths == widths


def test_what_the_code_does_not_contain_is_impossible() -> None:
    lds = {Cause.LDS_BANK_CONFLICTS, Cause.LDS_UNALIGNED, Cause.LDS_LATENCY}

    assert code(*COPY).impossible == {Cause.BARRIER_IMBALANCE, Cause.ATOMIC_CONTENTION, *lds}
    assert code("s_barrier", "ds_add_u32 v0, v1").impossible == {Cause.STORE_DRAIN}
    assert not lds & code("global_load_lds_dword v[0:1], off").impossible
    assert code("s_swappc_b64 s[30:31], s[4:5]").impossible == frozenset()


def test_counters_prove_that_every_instruction_executed_once() -> None:
    guarded = code(COPY[0], "s_cbranch_execz 2", *COPY[1:], "s_endpgm")
    loop = code(*COPY, "s_cbranch_vccnz 65533", branch=BACK)

    assert code(*COPY).executed(CountedEvents((), emulated=False)) is not None  # no branch can skip any
    assert guarded.executed(CountedEvents((), emulated=False)) is None
    assert guarded.executed(counted(vector=1, memory=1.4)) is None  # some wavefronts skip the store
    assert loop.executed(counted(vector=1, memory=2)) is None

    executed = guarded.executed(counted(vector=1, memory=2))
    assert executed is not None
    assert (executed.lane_bytes, executed.scratch_share) == (4.0, 0.0)


def test_barriers_are_not_blamed_in_code_without_barriers(tmp_path: Path) -> None:
    clocks, units = 16_800.0, 304
    waves = 8.0 * units * clocks / 4
    counters = {
        "GRBM_GUI_ACTIVE": 8 * clocks,
        "SQ_BUSY_CYCLES": 32 * clocks,
        "SQ_BUSY_CU_CYCLES": units * clocks,
        "SQ_WAVES": 16_384.0,
        "SQ_WAVE_CYCLES": waves,
        "SQ_WAIT_ANY": 0.9 * waves,
        "SQ_WAIT_INST_ANY": 0.05 * waves,
        "SQ_ACTIVE_INST_ANY": 0.05 * waves,
        "SQ_INSTS_VMEM": 0.0,
        "SQ_INSTS_LDS": 0.0,
        "SQ_INSTS_SMEM": 0.0,
    }
    blamed = {part.cause for part in account(tmp_path, counters, None).losses}
    kept = {part.cause for part in account(tmp_path, counters, code(*COPY)).losses}
    assert Cause.BARRIER_IMBALANCE in blamed
    assert kept == blamed - code(*COPY).impossible


def test_code_that_cannot_reach_scratch_has_no_spills(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path)
    spilled = replace(profile, resources=replace(profile.resources, scratch_bytes=400, vgpr_spills=100))

    (part,) = code_account(spilled, None, code(*COPY, "scratch_load_dword v1, off, s32")).losses[:1]

    assert part.cause is Cause.REGISTER_SPILLS
    assert "(1 of the 3 in the code do)" in part.evidence[0].text
    assert [one.cause for one in code_account(spilled, None, code(*COPY)).losses] == [Cause.MEMORY_BACKPRESSURE]


def test_the_code_object_beside_a_database_with_counters_is_evidence(tmp_path: Path) -> None:
    # 64 lookups per access are those of scattered lanes: 16 would serve any width, 8 the 8 bytes of every access of the code.
    accesses = 8 * 16_384.0
    counters = {
        "GRBM_GUI_ACTIVE": 8 * 16_800.0,
        "SQ_WAVES": 16_384.0,
        "SQ_INSTS_VMEM": accesses,
        "TCP_TOTAL_CACHE_ACCESSES_sum": 64 * accesses,
    }
    run = recorded_run(load_target("mi300x"), [dispatch(1000, 1000 + VEC_COPY_NS, counters=counters)], kernels=(VEC_COPY,))
    (tmp_path / "run").mkdir()
    write_database(tmp_path / "run" / "x_results.db", run)
    assert "coalesced lanes need 16.0" in _reasons(tmp_path)

    (tmp_path / "run" / "x_gfx942_code_object_id_2.out").write_bytes(build_hip(COPY_SOURCE, tmp_path).code_object.data)

    assert "coalesced lanes need 8.0" in _reasons(tmp_path)


def _reasons(directory: Path) -> str:
    found = analyze_recording(AnalyzeRequest.of([directory / "run"], output=directory / "out"), directory / "out")
    assert found.ledger is not None
    evidence = [one for loss in found.ledger.losses for one in loss.evidence if loss.cause is Cause.UNCOALESCED_ACCESS]
    return "; ".join(one.text for one in evidence if one.source is Source.COUNTERS)
