"""Accounts of thread traces for the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.analysis.executed_code import ExecutedCode
from rocm_perf_lab.analysis.ledger import Account, Cause, HardwareUnit, Source, TimePart, UnitUse
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.analysis.trace_account import trace_account
from rocm_perf_lab.rocprof.att.model import Clocks
from tests.builders.profiles import vec_copy_profile
from tests.builders.simd_traces import Step, Traced

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.att.model import AttTrace, Integers

LOAD = ("global_load_dword v1, v0, s[0:1]", "k.hip:10")
BARE_LOAD = ("global_load_dword v3, v0, s[0:1]", "")
WAIT = ("s_waitcnt vmcnt(0)", "k.hip:11")
FMA = ("v_fma_f32 v2, v1, v1, v2", "k.hip:12")
MFMA = ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "k.hip:13")
OPEN = ("s_and_saveexec_b64 s[6:7], vcc", "k.hip:14")
CLOSE = ("s_or_b64 exec, exec, s[6:7]", "k.hip:15")
END = ("s_endpgm", "")
LOADING: list[Step] = [(1, 0, 0, 4), (2, 0, 792, 792), (3, 0, 0, 4)]


def traced(trace: AttTrace, **options: float) -> ThreadTrace:
    result = analyse(trace, **options)  # type: ignore[arg-type]
    assert isinstance(result, ThreadTrace)
    return result


def account_of(trace: AttTrace, profile: Profile | None = None, **options: float) -> Account:
    return trace_account(traced(trace, **options), profile)


def part(account: Account, cause: Cause) -> TimePart:
    return next(one for one in account.losses if one.cause is cause)


def unit(account: Account, wanted: HardwareUnit) -> UnitUse:
    return next(one for one in account.units if one.unit is wanted)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return vec_copy_profile(tmp_path)


def test_a_loss_has_its_share_location_and_evidence() -> None:
    account = account_of(Traced([LOAD, WAIT, FMA]).wave(LOADING).trace())

    loss = part(account, Cause.MEMORY_LATENCY)
    assert loss.share == pytest.approx(792 / 800)
    assert loss.gain == pytest.approx(792 / 800)
    assert loss.location == "k.hip:10"
    assert loss.evidence[0].source is Source.THREAD_TRACE
    assert loss.evidence[0].text == "wavefronts wait for vector memory loads: 99% of the traced SIMD time"
    assert loss.evidence[1].text == "latency of a load: 796 clocks (90 % below 796, 1 waits)"
    assert unit(account, HardwareUnit.VALU).share == pytest.approx(4 / 800)
    assert sum(one.share or 0 for one in account.losses) + max(one.share for one in account.units) == pytest.approx(1)


def test_without_source_lines_the_address_and_the_instruction_are_the_location() -> None:
    code = [LOAD, BARE_LOAD, WAIT, FMA]
    steps: list[Step] = [(1, 0, 0, 4), (3, 0, 96, 96), (2, 0, 0, 4), (3, 0, 292, 292), (4, 0, 0, 4)]

    account = account_of(Traced(code).wave(steps).trace())

    parts = [one for one in account.losses if one.cause is Cause.MEMORY_LATENCY]
    assert [(one.location, round((one.share or 0) * 400)) for one in parts] == [
        ("0x1008 global_load_dword", 292),
        ("k.hip:10", 96),
    ]


def test_shares_are_scaled_to_the_duration_of_the_kernel(profile: Profile) -> None:
    # 800 clocks at 2 GHz are 400 ns of the 1,600 ns that the dispatch took; the launch had 4 wavefronts for each compute unit.
    trace = replace(
        Traced([LOAD, WAIT, FMA]).wave(LOADING).trace(),
        clocks=Clocks(100_000_000, {0: _clock_pairs(20)}),
    )
    kernel = replace(profile, durations_ns=(1600, 1500, 1700))
    per_unit = profile.target.compute_units * profile.target.simds_per_cu

    complete = account_of(trace, kernel, launched_waves=per_unit)
    incomplete = account_of(trace, kernel, launched_waves=100 * per_unit)

    assert part(complete, Cause.MEMORY_LATENCY).share == pytest.approx(792 / 800 / 4)
    assert part(incomplete, Cause.MEMORY_LATENCY).share == pytest.approx(792 / 800)


def _clock_pairs(ratio: int) -> Integers:
    return np.array([[0, 0], [1000 * ratio, 1000]], dtype=np.int64)


def test_latency_is_not_confused_with_bandwidth(profile: Profile) -> None:
    account = account_of(Traced([LOAD, WAIT, FMA]).wave(LOADING).trace(), profile)

    # One load of 256 bytes is no bandwidth: no bytes need to be collected to say so.
    assert part(account, Cause.MEMORY_LATENCY).confidence > 0.6
    assert account.missing == ()
    without = account_of(Traced([LOAD, WAIT, FMA]).wave(LOADING).trace())
    assert "--pmc FETCH_SIZE WRITE_SIZE" in without.missing[0]


def test_bytes_that_counters_state_are_not_asked_for(profile: Profile) -> None:
    # 64 lanes of 16 bytes every 40 clocks are more than a unit's share of the bandwidth.
    loads: list[Step] = [(1, 0, 0, 4), (2, 0, 32, 32), (3, 0, 0, 4)] * 20
    trace = Traced([("global_load_dwordx4 v[4:7], v0, s[0:1]", "k.hip:10"), WAIT, FMA]).wave(loads).trace()

    def missing(*counters: str) -> tuple[str, ...]:
        return account_of(trace, replace(profile, counter_passes=(dict.fromkeys(counters, 1000.0),))).missing

    assert "passes.counters=[FETCH_SIZE,WRITE_SIZE]" in missing("FETCH_SIZE")[0]
    assert missing("FETCH_SIZE", "WRITE_SIZE") == ()
    assert missing("TCC_EA0_RDREQ_sum", "TCC_EA0_WRREQ_sum") == ()


def test_loads_that_queue_at_the_bandwidth_of_the_memory_suggest_its_roof(profile: Profile) -> None:
    # 16 wavefronts load 1,024 bytes each every 2,700 clocks.
    code = [("global_load_dwordx4 v[4:7], v0, s[0:1]", "k.hip:10"), WAIT, FMA]
    loads: list[Step] = [(1, 0, 0, 4), (2, 0, 2692, 2692), (3, 0, 0, 4)] * 20
    busy = Traced(code)
    for number in range(16):
        busy.wave(loads, simd=number % 4, slot=number // 4)
    trace = replace(busy.trace(), clocks=Clocks(100_000_000, {0: _clock_pairs(21)}))

    counted = account_of(trace, profile)
    uncounted = account_of(trace, replace(profile, counter_passes=()))

    peak = profile.target.peaks.dram_gb_per_s
    assert peak is not None
    per_unit = peak / profile.target.compute_units / 2.1
    # 20 rounds are requested in 19 times 2,700 clocks; 80 % of the peak are achievable.
    found = unit(uncounted, HardwareUnit.DRAM)
    assert found.share == pytest.approx(16 * 20 * 1024 / (19 * 2700) / per_unit / 0.8)
    assert found.share < 1
    assert found.reliable
    assert not unit(counted, HardwareUnit.DRAM).reliable


def test_lanes_of_divergent_code_are_unknown_and_their_loss_is_an_estimate_of_little_confidence() -> None:
    code = [OPEN, FMA, CLOSE, END]
    steps: list[Step] = [(1, 0, 0, 4), *[(2, 0, 0, 4)] * 97, (3, 0, 0, 4), (4, 0, 0, 4)]

    account = account_of(Traced(code).wave(steps).trace())

    lost = part(account, Cause.DIVERGENCE)
    assert lost.share == pytest.approx(0.97 * 0.6)
    assert lost.confidence < 0.55
    assert unit(account, HardwareUnit.VALU).share == pytest.approx(0.97 * 0.4)
    assert account.missing == (
        "the active lanes: 100% of the vector instructions issue in divergent code; collect SQ_THREAD_CYCLES_VALU and"
        " SQ_ACTIVE_INST_VALU",
    )


def test_a_guard_that_is_never_closed_is_no_divergence() -> None:
    steps: list[Step] = [(1, 0, 0, 4), *[(2, 0, 0, 4)] * 98, (3, 0, 0, 4)]

    account = account_of(Traced([OPEN, FMA, END]).wave(steps).trace())

    assert unit(account, HardwareUnit.VALU).reliable
    assert account.missing == ()


def test_matrix_instructions_of_unknown_rate_are_no_evidence() -> None:
    unknown = ("v_mfma_f32_128x128x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "k.hip:13")
    steps: list[Step] = [(1, 0, 0, 4), *[(1, 0, 28, 32)] * 9]

    known, other = (account_of(Traced([row, END]).wave(steps).trace()) for row in (MFMA, unknown))

    assert unit(known, HardwareUnit.MATRIX).reliable
    assert not unit(other, HardwareUnit.MATRIX).reliable
    assert "the rates of the matrix instructions are unknown: their issue time counts as busy" in other.notes


def test_few_wavefronts_of_a_partial_trace_are_less_certain() -> None:
    whole, partial = (
        part(account_of(Traced([LOAD, WAIT, FMA]).wave(LOADING).trace(is_partial=cut)), Cause.MEMORY_LATENCY).confidence
        for cut in (False, True)
    )

    assert partial == pytest.approx(0.8 * whole)


def test_a_long_prologue_is_noted_and_advised_on() -> None:
    back = ("s_cbranch_scc1 65500", "k.hip:20")
    steps: list[Step] = [(1, 0, 0, 4), (2, 0, 596, 596), *[(3, 0, 0, 4), (4, 0, 0, 4)] * 50]

    account = account_of(Traced([LOAD, WAIT, FMA, back]).wave(steps).trace())

    assert "60% of a wavefront's time is before its first loop, 40% in loops, 0% after them" in account.notes
    suggestion = part(account, Cause.MEMORY_LATENCY).suggestion
    assert suggestion is not None
    assert suggestion.startswith("60% of a wavefront's time is before its first loop")


def test_a_trace_without_timelines_asks_for_wavefronts() -> None:
    trace = Traced([LOAD, WAIT, FMA]).wave(LOADING).trace()

    account = account_of(replace(trace, waves=()))

    assert (account.losses, account.units) == ((), ())
    assert "choose another --att-target-cu" in account.missing[0]


def test_wavefronts_with_contradicting_times_do_not_count() -> None:
    trace = Traced([LOAD, WAIT, FMA]).wave(LOADING).wave(LOADING, slot=1).trace()
    damaged = replace(trace, waves=(trace.waves[0], replace(trace.waves[1], end=-5)))

    account = account_of(damaged)

    assert part(account, Cause.MEMORY_LATENCY).share == pytest.approx(792 / 800)
    assert "1 wavefronts have times that contradict each other and do not count" in account.notes


def test_vector_instructions_that_compute_addresses_are_overhead_beside_the_useful_ones() -> None:
    shift = ("v_lshlrev_b32_e32 v0, 2, v7", "k.hip:1")
    add = ("v_add_u32_e32 v0, s4, v0", "k.hip:2")
    store = ("global_store_dword v0, v2, s[2:3]", "k.hip:3")
    # 60 of 80 vector instructions reach only the address of the store: 240 of 328 clocks, and 20 the stored value.
    steps: list[Step] = [*[(1, 0, 0, 4), (2, 0, 0, 4), (2, 0, 0, 4), (3, 0, 0, 4)] * 20, (4, 0, 0, 4), (5, 0, 0, 4)]
    trace = Traced([shift, add, ("v_mul_f32_e32 v2, v5, v6", "k.hip:4"), store, END]).wave(steps).trace()

    account = trace_account(traced(trace), code=ExecutedCode.of_trace(trace))

    assert part(account, Cause.INSTRUCTION_OVERHEAD).share is not None
    wasted = [one for one in account.losses if one.cause is Cause.INSTRUCTION_OVERHEAD and "75% of" in one.evidence[0].text]
    assert [one.share for one in wasted] == [pytest.approx(240 / 328)]
    assert unit(account, HardwareUnit.VALU).share == pytest.approx(80 / 328)


def test_a_dispatch_that_outlasts_the_traced_wavefronts_says_what_is_missing(profile: Profile) -> None:
    steps: list[Step] = [(1, 0, 0, 4), (2, 0, 192, 192), (3, 0, 0, 4)]
    trace = Traced([LOAD, WAIT, FMA]).wave(steps).trace()
    result = traced(trace)
    complete = replace(result, coverage=replace(result.coverage, launched_waves=1))

    # 200 clocks at a few GHz are about 0.1 us of a dispatch of many.
    outlasting = trace_account(complete, replace(profile, durations_ns=(100_000,)))
    matching = trace_account(complete)

    assert any("had no wavefront: collect GRBM_GUI_ACTIVE" in line for line in outlasting.missing)
    assert not any("had no wavefront" in line for line in matching.missing)
