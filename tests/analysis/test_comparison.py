"""Verdicts on pairs of times that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.comparison import KernelComparison, KernelTimes, RunTimes, compare, differences

MEASURED = (("time_kind", "measured"), ("architecture", "gfx942"))
NOISE = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0, 1.002)


def kernel(mangled: str, factor: float = 1.0, *, name: str | None = None, times: tuple[float, ...] = NOISE) -> KernelTimes:
    durations = tuple(factor * time for time in times)
    return KernelTimes(name or mangled, mangled, float(np.median(durations)), len(durations), 0.0, durations)


def run(*kernels: KernelTimes, emulated: bool = False) -> RunTimes:
    return RunTimes(emulated, MEASURED, kernels)


def only(base: KernelTimes, new: KernelTimes, *, emulated: bool = False) -> KernelComparison:
    (row,) = compare(run(base, emulated=emulated), run(new, emulated=emulated))
    return row


@pytest.mark.parametrize(("factor", "verdict"), [(1.1, "slower"), (0.9, "faster"), (1.0, "same"), (1.002, "same")])
def test_a_change_beyond_the_noise_has_a_direction(factor: float, verdict: str) -> None:
    row = only(kernel("a"), kernel("a", factor))

    assert (row.verdict, row.basis) == (verdict, "bootstrap")
    assert row.change == pytest.approx(factor - 1)
    assert row.interval is not None
    assert row.interval[0] <= factor - 1 <= row.interval[1]


def test_a_large_change_within_larger_noise_is_none() -> None:
    wild = (1.0, 3.0, 0.5, 2.0, 0.8, 1.5)

    row = only(kernel("a", times=wild), kernel("a", 1.2, times=wild))

    assert (row.verdict, row.significant) == ("same", False)
    assert not row.is_regression(0.05)


def test_a_regression_is_beyond_the_threshold_and_significant() -> None:
    row = only(kernel("a"), kernel("a", 1.04))

    assert row.verdict == "slower"
    assert (row.is_regression(0.05), row.is_regression(0.03)) == (False, True)


def test_five_measured_runs_are_too_few() -> None:
    row = only(kernel("a", times=NOISE[:5]), kernel("a", 2.0))

    assert (row.verdict, row.significant, row.basis) == ("unclear", None, "none")
    assert "5 runs cannot show a difference" in str(row.note)


def test_one_emulated_run_is_enough_as_it_repeats_exactly() -> None:
    row = only(kernel("a", times=(1.0,)), kernel("a", 1.001, times=(1.0,)), emulated=True)

    assert (row.verdict, row.basis, row.significant) == ("slower", "exact", True)


def test_a_summary_stands_in_for_times_and_says_so() -> None:
    # 1.2533 * 0.01 / sqrt(25) = 0.25 % per median, 0.35 % together, times 1.96 = 0.69 %.
    base = KernelTimes("a", "a", 1.0, 25, stddev_ms=0.01)

    inside, beyond = only(base, replace(base, time_ms=1.006)), only(base, replace(base, time_ms=1.008))

    assert (inside.verdict, beyond.verdict) == ("same", "slower")
    assert beyond.basis == "summary"
    assert "kept no times" in str(beyond.note)


def test_without_any_spread_nothing_is_claimed() -> None:
    base = KernelTimes("a", "a", 1.0, 25)

    assert only(base, replace(base, time_ms=3.0)).verdict == "unclear"


def test_a_time_of_zero_has_no_ratio() -> None:
    base = KernelTimes("a", "a", 0.0, 25, durations_ms=(0.0,) * 25)

    row = only(base, kernel("a"))

    assert (row.verdict, row.change, row.interval) == ("unclear", None, None)


def test_kernels_are_matched_by_mangled_name_else_by_name_else_new_or_gone() -> None:
    base = run(kernel("_Z1av", name="a()"), kernel("_Z1bIiEvv", name="b()"), kernel("_Z1cv", name="c()"))
    new = run(kernel("_Z1bIfEvv", 2.0, name="b()"), kernel("_Z1av", name="a() [clone]"), kernel("_Z1dv", name="d()"))

    rows = {row.name: row.verdict for row in compare(base, new)}

    assert rows == {"b()": "slower", "a() [clone]": "same", "d()": "new", "c()": "gone"}


def test_two_kernels_of_one_name_are_not_matched_to_the_same_one() -> None:
    rows = compare(run(kernel("x1", name="f")), run(kernel("y1", name="f"), kernel("y2", name="f")))

    assert [row.verdict for row in rows] == ["same", "new"]


def test_another_launch_is_mentioned() -> None:
    base = replace(kernel("a"), launch="4096x1x1 of 256x1x1")

    assert "launched as" in str(only(base, replace(base, launch="2048x1x1 of 256x1x1")).note)


def test_runs_of_different_kinds_say_what_differs() -> None:
    emulated = RunTimes(True, (("time_kind", "emulated"), ("architecture", "gfx90a")), ())

    assert differences(run(), emulated) == ("time_kind: measured and emulated", "architecture: gfx942 and gfx90a")
    assert differences(run(), run()) == ()


TIMES = st.lists(st.floats(0.001, 1000), min_size=6, max_size=20).map(tuple)


@given(TIMES)
@settings(deadline=None)
def test_a_run_never_differs_from_itself(times: tuple[float, ...]) -> None:
    assert only(kernel("a", times=times), kernel("a", times=times)).verdict == "same"


@given(TIMES, TIMES)
@settings(deadline=None)
def test_there_and_back_never_agree_on_a_direction(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    a, b = kernel("a", times=first), kernel("a", times=second)

    assert {only(a, b).verdict, only(b, a).verdict} not in ({"slower"}, {"faster"})
