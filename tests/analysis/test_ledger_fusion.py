"""Fusion of accounts into a ledger: amounts by hand, and the invariant for any accounts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, HardwareUnit, Reassignment, Source, TimePart, UnitUse
from rocm_perf_lab.analysis.ledger_fusion import fuse
from rocm_perf_lab.analysis.ledger_verdict import UNDECIDED

SHARES = st.floats(0.0, 3.0, allow_nan=False)


def evidence(source: Source, text: str = "seen") -> Evidence:
    return Evidence(source, text)


def part(cause: Cause, share: float | None, source: Source = Source.COUNTERS, *, sure: float = 0.8) -> TimePart:
    return TimePart(cause, share, None, sure, (evidence(source, f"{source} {cause}"),))


def use(unit: HardwareUnit, share: float, source: Source = Source.COUNTERS, *, reliable: bool = True) -> UnitUse:
    return UnitUse(unit, share, evidence(source), reliable=reliable)


def parts(source: Source) -> st.SearchStrategy[TimePart]:
    return st.builds(
        TimePart,
        st.sampled_from(Cause),
        st.none() | SHARES,
        st.none() | SHARES,
        st.floats(0.0, 1.0),
        st.just((evidence(source),)),
        st.none(),
        st.none() | st.just("a.hip:1"),
    )


def accounts() -> st.SearchStrategy[Account]:
    return st.sampled_from(Source).flatmap(
        lambda source: st.builds(
            Account,
            st.just(source),
            st.lists(parts(source), max_size=6).map(tuple),
            st.lists(
                st.builds(
                    UnitUse, st.sampled_from(HardwareUnit), SHARES, st.just(evidence(source)), st.booleans(), st.booleans()
                ),
                max_size=4,
            ).map(tuple),
            st.lists(
                st.builds(
                    Reassignment,
                    st.sampled_from(Cause),
                    st.floats(0.0, 1.0),
                    st.lists(st.sampled_from(Cause), max_size=4).map(tuple),
                    st.just(evidence(source)),
                ),
                max_size=3,
            ).map(tuple),
        )
    )


@given(st.lists(accounts(), max_size=5), st.none() | st.floats(1.0, 1e12))
def test_roof_losses_and_rest_are_the_measured_time_and_never_negative(found: list[Account], duration_ns: float | None) -> None:
    ledger = fuse(found, duration_ns)

    used = ledger.roof.utilisation if ledger.roof else 0.0
    shares = [used, *(loss.share for loss in ledger.losses), ledger.unexplained]
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(1.0)
    assert 0 <= ledger.confidence <= 1
    assert [loss.share for loss in ledger.losses] == sorted((loss.share for loss in ledger.losses), reverse=True)
    assert len({loss.cause for loss in ledger.losses}) == len(ledger.losses)
    assert all(loss.share <= loss.gain <= 1 for loss in ledger.losses)
    if duration_ns is not None:
        times = [used * duration_ns, *(loss.amount_ns or 0.0 for loss in ledger.losses), ledger.unexplained_ns or 0.0]
        assert sum(times) == pytest.approx(duration_ns)


def test_two_sources_of_one_cause_are_averaged_by_confidence_and_not_added() -> None:
    counters = Account(Source.COUNTERS, (part(Cause.DIVERGENCE, 0.3, sure=0.8),))
    samples = Account(Source.PC_SAMPLES, (part(Cause.DIVERGENCE, 0.4, Source.PC_SAMPLES, sure=0.4),))

    (loss,) = fuse((counters, samples), 1000.0).losses

    assert loss.share == pytest.approx((0.3 * 0.64 + 0.4 * 0.16) / 0.8)  # 0.32
    assert {one.source for one in loss.evidence} == {Source.COUNTERS, Source.PC_SAMPLES}


def test_disagreeing_sources_lower_the_confidence() -> None:
    def sure(other: float) -> float:
        samples = Account(Source.PC_SAMPLES, (part(Cause.DIVERGENCE, other, Source.PC_SAMPLES),))
        return fuse((Account(Source.COUNTERS, (part(Cause.DIVERGENCE, 0.5),)), samples), 1000.0).losses[0].confidence

    assert sure(0.1) < sure(0.5)


def test_a_trace_replaces_the_waiting_that_counters_see_as_a_sum() -> None:
    counters = Account(Source.COUNTERS, (part(Cause.MEMORY_LATENCY, 0.6),))
    traced = Account(
        Source.THREAD_TRACE,
        (part(Cause.BARRIER_IMBALANCE, 0.5, Source.THREAD_TRACE), part(Cause.LDS_LATENCY, 0.1, Source.THREAD_TRACE)),
    )

    ledger = fuse((counters, traced), 1000.0)

    assert {loss.cause: loss.amount_ns for loss in ledger.losses} == {
        Cause.BARRIER_IMBALANCE: pytest.approx(500.0),
        Cause.LDS_LATENCY: pytest.approx(100.0),
    }


def test_traced_time_is_scaled_to_the_part_of_the_gpu_that_works() -> None:
    # Half of the time is launch; of the rest the trace loses 40 %: 20 % of the time.
    launch = Account(Source.LAUNCH, (part(Cause.LAUNCH_OVERHEAD, 0.5, Source.LAUNCH),))
    traced = Account(Source.THREAD_TRACE, (part(Cause.MEMORY_LATENCY, 0.4, Source.THREAD_TRACE),))

    losses = {loss.cause: loss.share for loss in fuse((launch, traced), 1000.0).losses}

    assert losses == {Cause.LAUNCH_OVERHEAD: pytest.approx(0.5), Cause.MEMORY_LATENCY: pytest.approx(0.2)}


def test_waiting_beside_a_saturated_bandwidth_is_no_loss() -> None:
    account = Account(Source.COUNTERS, (part(Cause.MEMORY_LATENCY, 0.95),), (use(HardwareUnit.DRAM, 0.93),))

    ledger = fuse((account,), 1000.0)

    assert ledger.verdict == "near the dram roof"
    assert ledger.losses[0].share == pytest.approx(0.07)


def test_an_untrustworthy_unit_is_no_roof() -> None:
    account = Account(Source.COUNTERS, (), (use(HardwareUnit.DRAM, 1.0, reliable=False), use(HardwareUnit.VALU, 0.2)))

    ledger = fuse((account,), 1000.0)

    assert ledger.roof is not None
    assert (ledger.roof.unit, ledger.verdict) == (HardwareUnit.VALU, UNDECIDED)


def test_few_wavefronts_take_over_the_latency_that_more_would_hide() -> None:
    reason = Reassignment(Cause.LOW_OCCUPANCY, 0.75, (Cause.MEMORY_LATENCY,), evidence(Source.LAUNCH, "1 of 8 wavefronts"))
    accounts = (Account(Source.COUNTERS, (part(Cause.MEMORY_LATENCY, 0.8),)), Account(Source.LAUNCH, reassigned=(reason,)))

    ledger = fuse(accounts, 1000.0)

    assert ledger.verdict == "low_occupancy"
    assert {loss.cause: loss.share for loss in ledger.losses} == {
        Cause.LOW_OCCUPANCY: pytest.approx(0.6),
        Cause.MEMORY_LATENCY: pytest.approx(0.2),
    }
    assert ledger.losses[0].gain == pytest.approx(0.8)


def test_the_evidence_of_the_larger_part_of_a_cause_comes_first() -> None:
    reason = Reassignment(Cause.SMALL_GRID, 0.5, (Cause.MEMORY_LATENCY,), evidence(Source.LAUNCH, "1 of 8 wavefronts"))
    counted = Account(Source.COUNTERS, (part(Cause.SMALL_GRID, 0.1), part(Cause.MEMORY_LATENCY, 0.8)))

    ledger = fuse((counted, Account(Source.LAUNCH, reassigned=(reason,))), 1000.0)

    # 0.1 of idle units, and half of the latency of 0.8.
    assert ledger.losses[0].share == pytest.approx(0.5)
    assert [one.text for one in ledger.losses[0].evidence][:2] == ["1 of 8 wavefronts", "counters memory_latency"]


def test_a_launch_alone_is_the_verdict_if_it_is_almost_all_of_the_time() -> None:
    def verdict(share: float) -> str:
        return fuse((Account(Source.LAUNCH, (part(Cause.LAUNCH_OVERHEAD, share, Source.LAUNCH, sure=0.6),)),), 1000.0).verdict

    assert (verdict(1.0), verdict(0.6)) == ("launch_overhead", UNDECIDED)


def test_a_proof_without_amount_supports_but_adds_nothing() -> None:
    code = Account(Source.CODE, (part(Cause.REGISTER_SPILLS, None, Source.CODE),))

    ledger = fuse((code, Account(Source.COUNTERS, (part(Cause.MEMORY_LATENCY, 0.5),))), 1000.0)

    assert [loss.cause for loss in ledger.losses] == [Cause.MEMORY_LATENCY]


def test_without_times_the_shares_remain() -> None:
    ledger = fuse((Account(Source.COUNTERS, (part(Cause.MEMORY_LATENCY, 0.7),), (use(HardwareUnit.VALU, 0.2),)),), None)

    assert (ledger.measured_ns, ledger.unexplained_ns, ledger.losses[0].amount_ns) == (None, None, None)
    assert ledger.losses[0].share == pytest.approx(0.7)
    assert ledger.verdict == "memory_latency"


def test_nothing_recorded_is_not_decidable() -> None:
    ledger = fuse((Account(Source.COUNTERS, missing=("collect",)),), 1000.0)

    assert (ledger.verdict, ledger.confidence, ledger.missing) == (UNDECIDED, 0.0, ("collect",))
    assert ledger.unexplained == 1.0


@pytest.mark.parametrize(("launch", "other", "verdict"), [(0.35, 0.34, "memory_latency"), (0.6, 0.3, "launch_overhead")])
def test_launch_overhead_is_the_verdict_only_if_it_dominates(launch: float, other: float, verdict: str) -> None:
    found = Account(Source.COUNTERS, (part(Cause.LAUNCH_OVERHEAD, launch), part(Cause.MEMORY_LATENCY, other)))

    assert fuse((found,), 1000.0).verdict == verdict
