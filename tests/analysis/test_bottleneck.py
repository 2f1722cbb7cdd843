"""One set of evidence per class, with the numbers that a kernel of that class shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.bottleneck import Evidence, classify, gather_evidence
from rocm_perf_lab.analysis.roofline import evaluate_metrics, roofline
from tests.builders.profiles import VEC_COPY_NS, vec_copy_counters, vec_copy_profile

if TYPE_CHECKING:
    from pathlib import Path

HEALTHY = {
    "memory": 0.3, "dram": 0.3, "l2": 0.2, "vector_l1": 0.1, "lds": 0.0, "arithmetic": 0.3, "occupancy": 1.0,
    "device_fill": 8.0, "wait_share": 0.2, "active_lanes": 1.0, "vector_instructions": 0.5, "lds_conflict_share": 0.0,
    "lds_instructions": 0.0, "duration_us": 500.0,
}  # fmt: skip
WORDS = {"memory_level": "dram", "arithmetic_unit": "vector f32", "limiter": "vgpr"}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "balanced"),
        ({"memory": 0.85}, "memory_bandwidth_bound"),
        ({"arithmetic": 0.9}, "compute_bound"),
        ({"lds_conflict_share": 0.8, "lds_instructions": 0.2}, "lds_bank_conflicts"),
        ({"active_lanes": 0.25}, "divergence_limited"),
        ({"occupancy": 0.125}, "under_occupied"),
        ({"device_fill": 0.1}, "under_occupied"),
        ({"wait_share": 0.9, "memory": 0.1, "arithmetic": 0.05}, "latency_bound"),
        ({"duration_us": 0.5}, "launch_bound"),
    ],
)
def test_each_class_is_named_by_its_evidence(changes: dict[str, float], name: str) -> None:
    found = classify(Evidence({**HEALTHY, **changes}, WORDS))

    assert found.name == name
    assert found.reasons
    assert found.recommendations
    assert found.not_judged == ()


def test_confidence_grows_with_the_evidence() -> None:
    weak = classify(Evidence({**HEALTHY, "memory": 0.6}, WORDS))
    strong = classify(Evidence({**HEALTHY, "memory": 0.95}, WORDS))

    assert (weak.confidence, strong.confidence) == (pytest.approx(0.8), pytest.approx(0.975))


def test_reasons_carry_the_numbers() -> None:
    found = classify(Evidence({**HEALTHY, "memory": 0.85}, WORDS))

    assert found.reasons == ("dram runs at 85% of its peak bandwidth",)


def test_weaker_matches_are_reported_beside_the_strongest() -> None:
    found = classify(Evidence({**HEALTHY, "occupancy": 0.125, "lds_conflict_share": 0.4, "lds_instructions": 0.1}, WORDS))

    assert (found.name, found.others) == ("under_occupied", ("lds_bank_conflicts",))


@pytest.mark.parametrize("cause", [{"occupancy": 0.125}, {"device_fill": 0.2}, {"duration_us": 3.0}])
def test_waiting_is_not_called_latency_where_its_cause_is_known(cause: dict[str, float]) -> None:
    found = classify(Evidence({**HEALTHY, "wait_share": 0.9, **cause}, WORDS))

    assert found.name != "latency_bound"
    assert "latency_bound" not in found.others


def test_a_rule_without_its_evidence_is_not_judged() -> None:
    numbers = {name: value for name, value in HEALTHY.items() if name != "wait_share"}

    found = classify(Evidence(numbers, WORDS))

    assert (found.name, found.confidence) == ("unknown", 0.0)
    assert found.not_judged == ("latency_bound (no wait_share)",)


def test_saturated_memory_is_no_lack_of_occupancy() -> None:
    found = classify(Evidence({**HEALTHY, "occupancy": 0.125, "memory": 0.9}, WORDS))

    assert (found.name, found.others) == ("memory_bandwidth_bound", ())


def test_evidence_of_the_real_copy_kernel(tmp_path: Path) -> None:
    profile = vec_copy_profile(tmp_path)
    metrics = evaluate_metrics(profile)

    evidence = gather_evidence(profile, roofline(profile, metrics), metrics, VEC_COPY_NS)

    numbers = evidence.numbers
    assert numbers["memory"] == pytest.approx(16792512 / VEC_COPY_NS / 5324.8)
    assert evidence.words["memory_level"] == "dram"
    assert (numbers["active_lanes"], numbers["lds_conflict_share"]) == (1.0, 0.0)
    assert numbers["vector_instructions"] == 98304 / 327680
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
