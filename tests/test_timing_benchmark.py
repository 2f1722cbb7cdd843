"""The benchmark of the timing model: its published cases, statistics, and the reading of thread traces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.timing.__main__ import mean_correlation, merged, stored
from benchmarks.timing.agreement import Outcome, agreement, rank_correlation
from benchmarks.timing.measures import MEASURES
from benchmarks.timing.probes import Event, Probe, ProbeRun, TracedWavefront, run_probe
from benchmarks.timing.published import drawn_split, published_cases, published_families
from benchmarks.timing.sheet import Comparison, constants

if TYPE_CHECKING:
    from pathlib import Path


def test_every_series_belongs_to_the_part_that_the_seed_draws() -> None:
    wrong = [
        f"{family.name}/{series.name}"
        for family in published_families()
        for series in family.series
        if series.split != drawn_split(family.name, series.name)
    ]

    assert wrong == []


def test_cases_are_distinct_and_about_half_of_them_are_held_out() -> None:
    cases = published_cases()

    assert len({case.identifier for case in cases}) == len(cases) >= 40
    assert 0.35 < sum(case.series.split == "held_out" for case in cases) / len(cases) < 0.65
    assert {case.family.measure for case in cases} <= MEASURES.keys()


def test_a_held_out_series_that_was_seen_does_not_count_as_held_out() -> None:
    seen = [case for case in published_cases() if case.series.seen]

    assert seen and not any(case.held_out for case in seen)
    assert any(case.held_out for case in published_cases())


def test_constants_of_the_sheet_have_distinct_names_and_ordered_ranges() -> None:
    rows = constants()

    assert len({row.name for row in rows}) == len(rows)
    assert all(row.low <= row.high for row in rows)


def test_agreement_of_four_cases() -> None:
    # emulated / measured: 1/2, 1, 5/4, 2; the product is 5/4
    outcomes = [_outcome("a", 10, 5), _outcome("b", 20, 20), _outcome("c", 40, 50), _outcome("d", 30, 60)]

    found = agreement(outcomes)

    assert found.cases == 4
    assert found.mean == pytest.approx(1.25**0.25)
    assert found.within == 0.5
    assert found.spearman == pytest.approx(0.8)  # 1, 2, 4, 3 against 1, 2, 3, 4: 1 - 6 * 2 / (4 * 15)


def test_a_model_without_differences_has_no_rank_correlation() -> None:
    assert rank_correlation([_outcome(name, value, 7) for name, value in zip("abcd", (1, 2, 3, 4), strict=True)]) == 0.0
    assert rank_correlation([_outcome(name, 3, value) for name, value in zip("abcd", (1, 2, 3, 4), strict=True)]) is None
    assert rank_correlation([_outcome("a", 1, 2), _outcome("b", 2, 3)]) is None


def test_the_mean_correlation_weights_families_by_their_cases() -> None:
    right = [_outcome(str(value), value, value) for value in range(4)]
    wrong = [_outcome(str(value), value, -value) for value in range(8)]

    assert mean_correlation([right, wrong]) == pytest.approx((4 - 8) / 12)
    assert mean_correlation([[_outcome("a", 1, 1)]]) is None


def test_fresh_outcomes_replace_stored_ones_of_the_same_case(tmp_path: Path) -> None:
    first, second = (case.identifier for case in published_cases()[:2])
    path = tmp_path / "timing.json"
    path.write_text(json.dumps({"data": {"cases": [vars(_outcome(second, 1, 1)), vars(_outcome("no longer there", 1, 1))]}}))

    found = merged([*stored(path), _outcome(first, 2, 2)], [_outcome(second, 1, 3)])

    assert [(outcome.case, outcome.emulated) for outcome in found] == [(first, 2), (second, 3)]
    assert stored(tmp_path / "absent.json") == []


def test_gaps_and_latencies_of_a_trace() -> None:
    load, wait = Event("global_load_dword v1", 100, 104, 108), Event("s_waitcnt vmcnt(0)", 108, 108, 310)
    add = Event("v_add_f32 v2", 310, 314, 318)
    run = ProbeRun((TracedWavefront(0, 0, 90, 400, (load, wait, add)),), nanoseconds=1000, clock_ghz=2.1)

    assert run.latency("global_load") == 206  # from the issue to the end of the wait
    assert run.gap("s_waitcnt", "v_add") == 206
    assert run.busy(first="global_load") == 210  # from the first attempt
    with pytest.raises(ValueError, match="no 's_nop' directly before 'v_add'"):
        run.gap("s_nop", "v_add")


def test_a_probe_reads_issue_intervals_from_the_thread_trace() -> None:
    run = run_probe(Probe(".rept 8\n v_add_f32 v1, v2, v3\n.endr\n", waves=2))

    assert len(run.waves) == 2
    assert all(len(wave.find("v_add_f32")) == 8 for wave in run.waves)  # one of three iterations
    assert run.gap("v_add_f32", "v_add_f32") == 4


def test_a_comparison_is_within_the_closed_range() -> None:
    assert Comparison("name", 4, 8, "clk", "H", 8.0).cells == ("name", "4 to 8 clk", "H", "8", "yes")
    assert not Comparison("name", 4, 4, "clk", "H", 8.0).within


def _outcome(case: str, measured: float, emulated: float) -> Outcome:
    return Outcome(
        case=case,
        family="family",
        measured=measured,
        emulated=emulated,
        unit="us",
        slower=emulated / measured if measured else 1.0,
        held_out=False,
        source="S1, row 1",
        trust="A",
        commit="",
        seconds=0.0,
    )
