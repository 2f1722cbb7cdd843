"""Account of the counters: a recorded copy on an MI300X, and counters whose shares are known by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.counter_account import counter_account
from rocm_perf_lab.analysis.kernel_ledger import kernel_ledger
from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.ledger_verdict import UNDECIDED
from rocm_perf_lab.analysis.roofline import Unavailable, evaluate_metrics
from tests.builders.profiles import VEC_COPY_NS, vec_copy_counters, vec_copy_profile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.analysis.ledger import Account, Ledger

CLOCKS = 16_800.0
"""8 us at 2.1 GHz: 80 % of the 10 us of a dispatch."""
UNITS = 304
BUSY = {
    "GRBM_GUI_ACTIVE": 8 * CLOCKS,
    "SQ_BUSY_CYCLES": 32 * CLOCKS,
    "SQ_BUSY_CU_CYCLES": UNITS * CLOCKS,
    "SQ_INSTS_VMEM": 0.0,
    "SQ_INSTS_LDS": 0.0,
}


def account(directory: Path, counters: Mapping[str, float], duration_ns: float | None = VEC_COPY_NS) -> Account:
    profile = vec_copy_profile(directory, counters)
    return counter_account(profile, evaluate_metrics(profile, duration_ns or 0.0), duration_ns)


def ledger(directory: Path, counters: Mapping[str, float], duration_ns: float = VEC_COPY_NS) -> Ledger:
    profile = vec_copy_profile(directory, counters)
    return kernel_ledger(profile, evaluate_metrics(profile, duration_ns), duration_ns, thread_trace=Unavailable("not taken"))


def used(found: Account) -> dict[HardwareUnit, float]:
    return {use.unit: use.share for use in found.units}


def lost(found: Account) -> dict[Cause, float]:
    causes = {part.cause for part in found.losses}
    return {cause: sum(part.share or 0.0 for part in found.losses if part.cause == cause) for cause in causes}


def free(found: Account) -> float:
    """Return the time beside the launch: nothing else is busy."""
    return 1 - lost(found)[Cause.LAUNCH_OVERHEAD]


def test_the_bandwidth_of_the_recorded_copy_is_its_bytes_over_the_time(tmp_path: Path) -> None:
    found = account(tmp_path, vec_copy_counters())

    # 8.4 MB are read and 8.4 MB written in 10 us; 80 % of 5,324.8 GB/s are achievable.
    assert used(found)[HardwareUnit.DRAM] == pytest.approx(16_792_512 / 10_000 / (0.8 * 5324.8))


def test_bank_conflicts_are_a_loss_and_not_bandwidth(tmp_path: Path) -> None:
    # LDS is busy for 90 % of the clocks, of which two thirds replay conflicts: 0.8 * 0.3 useful, 0.8 * 0.6 lost.
    busy = 0.9 * UNITS * CLOCKS
    found = account(tmp_path, {**BUSY, "SQ_INSTS_LDS": 1e6, "SQ_LDS_IDX_ACTIVE": busy, "SQ_LDS_BANK_CONFLICT": busy * 2 / 3})

    assert used(found)[HardwareUnit.LDS] == pytest.approx(0.24)
    # Of the 90 % a tenth of the time is not bound by LDS.
    assert lost(found)[Cause.LDS_BANK_CONFLICTS] == pytest.approx(0.9 * 0.48)
    (part,) = [part for part in found.losses if part.cause == Cause.LDS_BANK_CONFLICTS]
    assert part.gain == pytest.approx(0.48)


def test_unaligned_accesses_extend_the_busy_time_of_lds(tmp_path: Path) -> None:
    clocks = UNITS * CLOCKS
    found = account(
        tmp_path,
        {
            **BUSY,
            "SQ_INSTS_LDS": 1e6,
            "SQ_LDS_IDX_ACTIVE": 0.5 * clocks,
            "SQ_LDS_BANK_CONFLICT": 0.0,
            "SQ_LDS_UNALIGNED_STALL": 0.5 * clocks,
        },
    )

    assert used(found)[HardwareUnit.LDS] == pytest.approx(0.4)
    assert lost(found)[Cause.LDS_UNALIGNED] == pytest.approx(0.4)


def test_idle_lanes_are_wasted_issue_slots(tmp_path: Path) -> None:
    slots = UNITS * CLOCKS
    found = ledger(tmp_path, {**BUSY, "SQ_INSTS_VALU": slots, "SQ_ACTIVE_INST_VALU": slots, "SQ_THREAD_CYCLES_VALU": 16 * slots})

    assert found.verdict == Cause.DIVERGENCE
    # All slots of 80 % of the time are used, a quarter of the lanes work: 0.2 useful, 0.6 lost, 0.2 launch.
    assert found.roof is not None
    assert found.roof.unit == HardwareUnit.VALU
    assert found.roof.utilisation == pytest.approx(0.2)
    assert found.losses[0].share == pytest.approx(0.6, abs=0.05)  # the launch account estimates a slightly longer launch


def test_waiting_behind_busy_matrix_cores_is_no_loss(tmp_path: Path) -> None:
    waves = 16 * UNITS * CLOCKS / 4  # 16 wavefronts per compute unit, in quad-cycles
    found = ledger(
        tmp_path,
        {
            **BUSY,
            "SQ_INSTS_MFMA": 1e6,
            "SQ_VALU_MFMA_BUSY_CYCLES": 0.95 * 4 * UNITS * CLOCKS,
            "SQ_WAVE_CYCLES": waves,
            "SQ_WAIT_ANY": 0.2 * waves,
            "SQ_WAIT_INST_ANY": 0.7 * waves,
        },
    )

    assert found.verdict == "near the matrix cores roof"
    assert found.roof is not None
    assert found.roof.utilisation == pytest.approx(0.76)


def test_latencies_by_littles_law_divide_the_waiting(tmp_path: Path) -> None:
    waves = 32 * UNITS * CLOCKS / 4
    counters = {
        **BUSY,
        "SQ_WAVES": 1e4,
        "SQ_INSTS_VMEM": 1000.0,
        "SQ_INSTS_LDS": 1000.0,
        "SQ_INSTS_SMEM": 0.0,
        "SQ_WAVE_CYCLES": waves,
        "SQ_WAIT_ANY": 0.8 * waves,
        "SQ_WAIT_INST_ANY": 0.0,
        "SQ_ACTIVE_INST_ANY": 0.2 * waves,
        "SQ_INST_LEVEL_VMEM_ACCUM": 0.6 * 4 * waves,
        "SQ_INST_LEVEL_VMEM": 1.0,
        "SQ_INST_LEVEL_LDS_ACCUM": 0.2 * 4 * waves,
        "SQ_INST_LEVEL_LDS": 1.0,
    }

    found = account(tmp_path, counters)

    # No unit is busy: the time is divided like the life of the wavefronts, 0.6 to 0.2 to 0.2.
    shares = [lost(found)[cause] for cause in (Cause.MEMORY_LATENCY, Cause.LDS_LATENCY, Cause.DEPENDENCY)]
    assert shares == pytest.approx([0.6 * free(found), 0.2 * free(found), 0.2 * free(found)])
    (part,) = [part for part in found.losses if part.cause == Cause.MEMORY_LATENCY]
    assert f"mean latency {0.6 * 4 * waves / 1000:,.0f} clocks" in part.evidence[0].text


def test_waiting_without_operations_in_flight_is_at_barriers(tmp_path: Path) -> None:
    waves = 32 * UNITS * CLOCKS / 4
    levels = {
        "SQ_INST_LEVEL_VMEM": 1.0,
        "SQ_INST_LEVEL_VMEM_ACCUM": 0.2 * 4 * waves,
        "SQ_INSTS_VMEM": 1000.0,
        "SQ_INSTS_SMEM": 0.0,
    }
    waits = {"SQ_WAVE_CYCLES": waves, "SQ_WAIT_ANY": waves}

    found = account(tmp_path, {**BUSY, **levels, **waits})

    assert lost(found)[Cause.BARRIER_IMBALANCE] == pytest.approx(0.8 * free(found))
    assert lost(found)[Cause.MEMORY_LATENCY] == pytest.approx(0.2 * free(found))


def test_a_rate_above_every_roof_is_not_the_verdict(tmp_path: Path) -> None:
    # 64e7 bytes in 10 us are 64 TB/s.
    found = ledger(tmp_path, {**vec_copy_counters(), "TCC_EA0_WRREQ_64B_sum": 1e7, "TCC_EA0_WRREQ_sum": 1e7})

    assert found.roof is None or found.roof.unit not in (HardwareUnit.DRAM, HardwareUnit.MALL)
    assert "64,0" not in found.verdict


@pytest.mark.parametrize(("requests", "is_possible"), [(1e4, True), (1e7, False)])
def test_waiting_for_memory_is_a_doubtful_verdict_if_the_bandwidth_is_unknown(
    tmp_path: Path, requests: float, is_possible: bool
) -> None:
    waves = 32 * UNITS * CLOCKS / 4
    waits = {
        "SQ_WAVE_CYCLES": waves,
        "SQ_WAIT_ANY": 0.9 * waves,
        "SQ_INSTS_VMEM": 1000.0,
        "SQ_INSTS_SMEM": 0.0,
        "SQ_INST_LEVEL_VMEM": 1.0,
        "SQ_INST_LEVEL_VMEM_ACCUM": 0.9 * 4 * waves,
    }
    # 64 bytes per request in 10 us: 64 GB/s each way, or 64 TB/s.
    traffic = {
        **dict.fromkeys(("TCC_EA0_RDREQ_sum", "TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"), requests),
        **dict.fromkeys(("TCC_EA0_RDREQ_32B_sum", "TCC_BUBBLE_sum"), 0.0),
    }

    found = ledger(tmp_path, {**BUSY, **waits, **traffic})

    assert found.verdict == "memory_latency"
    assert (found.confidence > 0.5) is is_possible
    assert ("not trustworthy" in found.missing[0]) is not is_possible


def test_clocks_that_contradict_the_time_make_bandwidths_untrustworthy(tmp_path: Path) -> None:
    # 168,000 clocks in 10 us would be 16.8 GHz.
    counters = {**vec_copy_counters(), "SQ_BUSY_CYCLES": 32 * 10 * CLOCKS, "GRBM_GUI_ACTIVE": 8 * 10 * CLOCKS}

    profile = vec_copy_profile(tmp_path, counters)
    found = counter_account(profile, evaluate_metrics(profile, VEC_COPY_NS), VEC_COPY_NS)

    if not profile.provenance.trace.emulated:
        assert not any(use.reliable for use in found.units if use.unit == HardwareUnit.DRAM)
        assert "above the maximum" in found.notes[0]


def test_without_times_shares_of_the_clocks_remain(tmp_path: Path) -> None:
    found = account(tmp_path, {**vec_copy_counters(), **BUSY}, duration_ns=None)

    # 16.8 MB in 16,800 clocks at 2.1 GHz, 8 us.
    assert used(found)[HardwareUnit.DRAM] == pytest.approx(16_792_512 / 8_000 / (0.8 * 5324.8))
    (dram,) = [use for use in found.units if use.unit == HardwareUnit.DRAM]
    assert "the recording has no times" in dram.evidence.text


def test_a_missing_counter_of_a_sum_yields_a_lower_bound(tmp_path: Path) -> None:
    counters = {name: value for name, value in vec_copy_counters().items() if "WRREQ" not in name}

    (dram,) = [use for use in account(tmp_path, counters).units if use.unit == HardwareUnit.DRAM]

    assert dram.lower_bound
    assert "at least" in dram.evidence.text
    # Only the reads: 65,775 requests, of which 65,536 of 128 bytes and 239 of 64 in the first of three dispatches.
    assert dram.share == pytest.approx(8_403_904 / 10_000 / (0.8 * 5324.8), rel=0.01)


@pytest.mark.parametrize("emulated", [True, False])
def test_without_counters_the_command_to_collect_them_is_named(tmp_path: Path, *, emulated: bool) -> None:
    profile = vec_copy_profile(tmp_path, {})
    trace = replace(profile.provenance.trace, emulated=emulated)
    profile = replace(profile, provenance=replace(profile.provenance, trace=trace))

    found = kernel_ledger(profile, {}, VEC_COPY_NS, thread_trace=Unavailable("not taken"))

    assert found.verdict == UNDECIDED
    wanted = (
        ("passes.counters=[FETCH_SIZE,WRITE_SIZE]", "--deep-analysis") if emulated else ("rocprofv3 --pmc FETCH_SIZE", "--att")
    )
    assert all(any(words in line for line in found.missing) for words in wanted)
    assert emulated != any("rocprof" in line for line in found.missing)
