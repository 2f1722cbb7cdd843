"""One set of evidence per class, with the numbers that a kernel of that class shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.bottleneck import RuleEvidence, classify, gather_evidence
from rocm_perf_lab.analysis.roofline import evaluate_metrics, roofline
from rocm_perf_lab.profiling.profile import Profile, build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.peaks import MeasuredPeaks
from tests.builders.profiles import VEC_COPY_NS, vec_copy_counters, vec_copy_profile
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

HEALTHY = {
    "memory": 0.3, "memory_load": 0.375, "arithmetic": 0.3, "occupancy": 1.0, "achieved_occupancy": 0.9, "device_fill": 8.0,
    "wait_share": 0.2, "active_lanes": 1.0, "valu_busy": 0.5, "lds_conflict_share": 0.0, "lds_busy": 0.0, "atomic_share": 0.0,
    "duration_us": 500.0,
}  # fmt: skip
WORDS = {"memory_level": "dram", "arithmetic_unit": "vector f32", "limiter": "vgpr"}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "balanced"),
        ({"memory": 0.7, "memory_load": 0.875}, "memory_bandwidth_bound"),
        ({"arithmetic": 0.9}, "compute_bound"),
        ({"lds_conflict_share": 0.8, "lds_busy": 0.9}, "lds_bank_conflicts"),
        ({"lds_conflict_share": 0.8, "lds_busy": 0.1}, "balanced"),
        ({"active_lanes": 0.25}, "divergence_limited"),
        ({"active_lanes": 0.25, "valu_busy": 0.1}, "balanced"),
        ({"occupancy": 0.125}, "under_occupied"),
        ({"device_fill": 0.1}, "under_occupied"),
        ({"wait_share": 0.9, "memory": 0.1, "arithmetic": 0.05}, "latency_bound"),
        ({"atomic_share": 0.01, "achieved_occupancy": 0.2}, "latency_bound"),
        ({"duration_us": 0.5}, "launch_bound"),
        ({"duration_us": 0.5, "device_fill": 0.01}, "launch_bound"),
    ],
)
def test_evidence_determines_the_class(changes: dict[str, float], name: str) -> None:
    found = classify(RuleEvidence({**HEALTHY, **changes}, WORDS))

    assert found.name == name
    assert found.reasons
    assert found.recommendations
    assert found.not_judged == ()


def test_confidence_grows_with_the_evidence() -> None:
    weak = classify(RuleEvidence({**HEALTHY, "memory_load": 0.76}, WORDS))
    strong = classify(RuleEvidence({**HEALTHY, "memory_load": 0.95}, WORDS))

    assert weak.confidence == pytest.approx(0.88)
    assert strong.confidence == pytest.approx(0.975)


def test_reasons_contain_the_numbers() -> None:
    found = classify(RuleEvidence({**HEALTHY, "memory": 0.85, "memory_load": 1.06}, WORDS))

    assert found.reasons == ("dram runs at 85% of its peak bandwidth",)


def test_weaker_matches_are_listed_after_the_strongest() -> None:
    found = classify(RuleEvidence({**HEALTHY, "occupancy": 0.125, "active_lanes": 0.5}, WORDS))

    assert (found.name, found.others) == ("under_occupied", ("divergence_limited",))


@pytest.mark.parametrize("cause", [{"occupancy": 0.125}, {"device_fill": 0.2}, {"duration_us": 3.0}])
def test_waiting_with_a_known_cause_is_not_latency(cause: dict[str, float]) -> None:
    found = classify(RuleEvidence({**HEALTHY, "wait_share": 0.9, **cause}, WORDS))

    assert found.name != "latency_bound"
    assert "latency_bound" not in found.others


def test_a_rule_without_evidence_is_not_evaluated() -> None:
    numbers = {name: value for name, value in HEALTHY.items() if name != "wait_share"}

    found = classify(RuleEvidence(numbers, WORDS))

    assert (found.name, found.confidence) == ("unknown", 0.0)
    assert "latency_bound (no wait_share)" in found.not_judged


def test_saturated_memory_is_not_a_lack_of_occupancy() -> None:
    found = classify(RuleEvidence({**HEALTHY, "occupancy": 0.125, "memory_load": 0.9}, WORDS))

    assert (found.name, found.others) == ("memory_bandwidth_bound", ())


def test_evidence_of_the_real_copy_kernel(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path)
    metrics = evaluate_metrics(profile)

    evidence = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    numbers = evidence.numbers
    assert numbers["memory"] == pytest.approx(16792512 / VEC_COPY_NS / 5324.8)
    assert evidence.words["memory_level"] == "dram"
    assert (numbers["active_lanes"], numbers["lds_conflict_share"]) == (1.0, 0.0)
    # DRAM achieves 0.8 of its theoretical peak; 98304 of the slots of 304 CUs hold a vector instruction.
    assert numbers["memory_load"] == pytest.approx(numbers["memory"] / 0.8)
    assert numbers["valu_busy"] == pytest.approx(98304 / (vec_copy_counters()["GRBM_GUI_ACTIVE"] / 8 * 304))
    # 8 workgroups of 4 wavefronts fit on a CU: 4096 / (8 * 304).
    assert (numbers["occupancy"], numbers["device_fill"]) == (1.0, 4096 / (8 * 304))


def test_a_copy_three_times_slower_than_its_roof_that_waits_is_latency_bound(tmp_path: Path) -> None:
    counters = vec_copy_counters()
    waiting = {**counters, "SQ_WAIT_ANY": 0.9 * counters["SQ_WAVE_CYCLES"]}
    profile = vec_copy_profile(tmp_path, waiting)
    metrics = evaluate_metrics(profile)

    found = classify(gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS))

    assert found.name == "latency_bound"
    assert found.reasons[0] == "wavefronts wait 90% of their lifetime"


def test_a_level_is_relative_to_its_achievable_share_and_an_empirical_roof_is_fully_achievable(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path)
    metrics = evaluate_metrics(profile)
    measured = MeasuredPeaks("roofline.csv", memory={"dram": 4000.0}, compute={})

    placed = roofline(profile, metrics, VEC_COPY_NS, measured)

    evidence = gather_evidence(profile, placed, metrics, VEC_COPY_NS)
    assert evidence.numbers["memory_load"] == evidence.numbers["memory"] == pytest.approx(16792512 / VEC_COPY_NS / 4000)


def test_lookups_above_the_vector_l1_roof_count_half(tmp_path: Path) -> None:
    # 1.5 lookups for every clock of the 304 caches: at least three quarters of their 64 bytes per clock.
    lookups = 1.5 * 304 * 2.1 * VEC_COPY_NS
    profile = vec_copy_profile(tmp_path, {**vec_copy_counters(), "TCP_TOTAL_CACHE_ACCESSES_sum": lookups})
    metrics = evaluate_metrics(profile)

    found = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    assert found.words["memory_level"] == "vector_l1"
    assert found.numbers["memory"] == pytest.approx(0.75)


@pytest.mark.parametrize("conflicts", [0.0, 0.75])
def test_a_busy_lds_is_a_lack_of_bandwidth_or_of_free_banks(tmp_path: Path, conflicts: float) -> None:
    # LDS works in 95 % of the clocks of the 304 CUs at 2.1 GHz.
    active = 0.95 * 304 * 2.1 * VEC_COPY_NS
    counters = {
        **vec_copy_counters(),
        "SQ_INSTS_LDS": 1e6,
        "SQ_LDS_IDX_ACTIVE": active,
        "SQ_LDS_BANK_CONFLICT": conflicts * active,
    }
    profile = vec_copy_profile(tmp_path, counters)
    metrics = evaluate_metrics(profile)

    evidence = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    assert evidence.numbers["lds_busy"] == pytest.approx(0.95)
    expected = "lds_bank_conflicts" if conflicts else "memory_bandwidth_bound"
    assert classify(evidence).name == expected


def test_scalar_instructions_have_one_slot_per_clock_and_cu(tmp_path: Path) -> None:
    instructions = 0.9 * 304 * 2.1 * VEC_COPY_NS
    counters = {**vec_copy_counters(), "SQ_INSTS_SALU": instructions, "SQ_INSTS_SMEM": 0.0}
    profile = vec_copy_profile(tmp_path, counters)
    metrics = evaluate_metrics(profile)

    evidence = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    assert evidence.words["arithmetic_unit"] == "SALU issue slots"
    assert evidence.numbers["arithmetic"] == pytest.approx(0.9)


def test_issue_slots_are_full_if_wavefronts_issue_in_pairs(tmp_path: Path) -> None:
    # 1.8 vector instructions per SIMD and quad-cycle: MI300X can issue two wavefronts at once.
    cycles = 1e6
    counters = {
        **vec_copy_counters(),
        "GRBM_GUI_ACTIVE": 8 * cycles,
        "SQ_ACTIVE_INST_VALU": 1.8 * cycles * 304,
        "SQ_THREAD_CYCLES_VALU": 64 * 1.8 * cycles * 304,
    }
    profile = vec_copy_profile(tmp_path, counters)
    metrics = evaluate_metrics(profile)

    evidence = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    assert evidence.numbers["valu_busy"] == pytest.approx(1.8)
    assert evidence.words["arithmetic_unit"] == "VALU issue slots"
    assert evidence.numbers["arithmetic"] == pytest.approx(1.0)
    assert classify(evidence).name == "compute_bound"


def test_traffic_above_the_dram_peak_is_attributed_to_mall(tmp_path: Path) -> None:
    # 14 TB/s from behind L2: 2.6 times what DRAM gives, 81 % of what MALL gives.
    requests = 14000 * VEC_COPY_NS / 128
    counters = {
        **vec_copy_counters(),
        "TCC_EA0_RDREQ_sum": requests,
        "TCC_BUBBLE_sum": requests,
        "TCC_EA0_WRREQ_sum": 0.0,
        "TCC_EA0_WRREQ_64B_sum": 0.0,
    }
    profile = vec_copy_profile(tmp_path, counters)
    metrics = evaluate_metrics(profile)

    evidence = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    assert "dram" not in evidence.numbers
    assert evidence.words["memory_level"] == "mall"
    assert evidence.numbers["mall"] == pytest.approx(14000 / 17200)
    assert classify(evidence).name == "memory_bandwidth_bound"


def radeon_profile(directory: Path, counters: dict[str, float]) -> Profile:
    """A dispatch of 10 us on an RX 6800 XT: 72 CUs of two SIMDs at 2.25 GHz."""
    target = load_target("rx6800xt")
    run = [dispatch(1000, 1000 + VEC_COPY_NS, counters=counters)]
    write_database(directory / "radeon.db", recorded_run(target, run, kernels=(VEC_COPY,)))
    return build_profile(read_database(directory / "radeon.db"), target=target)


RADEON_IDLE = {
    **{f"GL2C_EA_RDREQ_{size}B_sum": 0.0 for size in (32, 64, 96)}, "GL2C_EA_RDREQ_128B_sum": 1000.0,
    "GL2C_EA_WRREQ_64B_sum": 0.0, "GL2C_MC_WRREQ_sum": 0.0, "GL2C_HIT_sum": 1.0, "GL2C_MISS_sum": 1000.0,
    "SQ_INSTS_LDS": 0.0, "SQ_WAVES": 4096 * 8.0, "SQ_WAVE_CYCLES": 1e6, "SQ_WAIT_ANY": 1e5, "SQ_INSTS_SALU": 0.0,
    "SQ_INSTS_SMEM": 0.0, "SQ_INSTS_VALU": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(("waves", "instructions_per_slot"), [(4096 * 8, 1.0), (4096 * 4, 0.5)])
def test_rdna_without_flop_counters_is_classified_by_instructions(
    tmp_path: Path, waves: int, instructions_per_slot: float
) -> None:
    # A SIMD issues a wave32 instruction in a clock and a wave64 one in two.
    slots = 72 * 2 * 2.25 * VEC_COPY_NS
    busy = {**RADEON_IDLE, "SQ_WAVES": float(waves), "SQ_INSTS_VALU": 0.9 * slots * instructions_per_slot}
    profile = radeon_profile(tmp_path, busy)
    metrics = evaluate_metrics(profile)

    evidence = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    assert evidence.numbers["arithmetic"] == pytest.approx(0.9)
    assert classify(evidence).name == "compute_bound"


def test_rdna_that_waits_is_latency_bound(tmp_path: Path) -> None:
    profile = radeon_profile(tmp_path, {**RADEON_IDLE, "SQ_WAIT_ANY": 9e5, "SQ_INSTS_VALU": 1e5})
    metrics = evaluate_metrics(profile)

    found = classify(gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS))

    assert found.name == "latency_bound"


def test_instructions_replace_missing_issue_counters(tmp_path: Path) -> None:
    # An instruction of 64 lanes holds one of four SIMDs for four clocks.
    counters = {**vec_copy_counters(), "SQ_INSTS_VALU": 0.7 * 304 * 2.1 * VEC_COPY_NS}
    del counters["SQ_ACTIVE_INST_VALU"]
    profile = vec_copy_profile(tmp_path, counters)
    metrics = evaluate_metrics(profile)

    assert gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS).numbers["valu_busy"] == pytest.approx(0.7)
