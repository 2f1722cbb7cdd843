"""Bottleneck classes of documents, derived from ledgers."""

from __future__ import annotations

from rocm_perf_lab.analysis.bottleneck import bottleneck_of
from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, HardwareUnit, Source, TimePart, UnitUse
from rocm_perf_lab.analysis.ledger_fusion import fuse


def part(cause: Cause, share: float, location: str | None = None) -> TimePart:
    return TimePart(cause, share, None, 0.9, (Evidence(Source.COUNTERS, f"{cause} for {share:.0%}"),), None, location)


def use(unit: HardwareUnit, share: float) -> UnitUse:
    return UnitUse(unit, share, Evidence(Source.COUNTERS, f"{unit} is busy"))


def test_the_largest_loss_names_the_class_and_the_advice_comes_first() -> None:
    account = Account(
        Source.COUNTERS, (part(Cause.MEMORY_LATENCY, 0.6, "a.hip:7"), part(Cause.DIVERGENCE, 0.1)), (use(HardwareUnit.VALU, 0.2),)
    )

    found = bottleneck_of(fuse((account,), 1000.0))

    assert (found.name, found.others) == ("latency_bound", ("divergence_limited",))
    assert found.reasons[0] == "exposed latency of vector memory costs 60% of the time; removing it gains at most 60%"
    assert found.recommendations[0].startswith("a.hip:7: ")


def test_a_busy_matrix_core_is_a_roof_and_no_disease() -> None:
    account = Account(Source.COUNTERS, (part(Cause.DEPENDENCY, 0.05),), (use(HardwareUnit.MATRIX, 0.91),))

    found = bottleneck_of(fuse((account,), 1000.0))

    assert found.name == "compute_bound"
    assert found.confidence >= 0.9
    assert found.reasons[0] == "91% of the time is needed at the matrix cores roof"


def test_a_bandwidth_roof_is_memory_bandwidth_bound() -> None:
    assert (
        bottleneck_of(fuse((Account(Source.COUNTERS, (), (use(HardwareUnit.DRAM, 0.9),)),), 1.0)).name == "memory_bandwidth_bound"
    )


def test_without_evidence_the_bottleneck_is_unknown_and_names_what_to_collect() -> None:
    found = bottleneck_of(fuse((Account(Source.COUNTERS, missing=("collect FETCH_SIZE",)),), 1000.0))

    assert (found.name, found.confidence) == ("unknown", 0.0)
    assert found.not_judged == ("collect FETCH_SIZE",)
    assert found.recommendations == ("collect FETCH_SIZE",)
