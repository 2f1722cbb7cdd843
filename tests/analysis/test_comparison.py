"""Verdicts on pairs of times that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.comparison import INDEPENDENT, claims, family_claims, normal, slowed
from rocm_perf_lab.analysis.comparison import compare, differences, remarks
from rocm_perf_lab.analysis.comparison_model import (
    EmulatedBands,
    KernelComparison,
    KernelTimes,
    RunTimes,
)
from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand

MEASURED = (("time_kind", "measured"), ("architecture", "gfx942"))
EMULATED = (("time_kind", "emulated"), ("architecture", "gfx942"))
BANDS = EmulatedBands(TimeBand(coverage=0.95, low=0.5, high=2.0), RatioBand(coverage=0.95, factor=1.25))
BANDS_OF_ANOTHER_VERSION = replace(BANDS, ratio=RatioBand(coverage=0.95, factor=1.5))
NOISE = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0, 1.002)


def kernel(mangled: str, factor: float = 1.0, *, name: str | None = None, times: tuple[float, ...] = NOISE) -> KernelTimes:
    durations = tuple(factor * time for time in times)
    return KernelTimes(name or mangled, mangled, float(np.median(durations)), len(durations), 0.0, durations)


def run(*kernels: KernelTimes, emulated: bool = False) -> RunTimes:
    return RunTimes(emulated, EMULATED, kernels, bands=BANDS) if emulated else RunTimes(False, MEASURED, kernels)


def only(base: KernelTimes, new: KernelTimes, *, emulated: bool = False) -> KernelComparison:
    (row,) = compare(run(base, emulated=emulated), run(new, emulated=emulated))
    return row


@pytest.mark.parametrize(("factor", "verdict"), [(1.1, "slower"), (0.9, "faster"), (1.0, "same"), (1.002, "same")])
def test_a_change_beyond_the_noise_has_a_direction(factor: float, verdict: str) -> None:
    row = only(kernel("a"), kernel("a", factor))

    assert (row.verdict, row.basis) == (verdict, "ranks")
    assert row.change == pytest.approx(factor - 1)
    assert row.interval is not None
    assert row.interval[0] <= factor - 1 <= row.interval[1]


def test_a_large_change_within_larger_noise_is_not_significant() -> None:
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
    assert "5 runs cannot show a difference" in row.reason


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.25, "indistinguishable"), (1.26, "slower"), (0.8, "indistinguishable"), (0.79, "faster")]
)
def test_emulated_times_differ_only_beyond_their_error_band(factor: float, verdict: str) -> None:
    row = only(kernel("a", times=(1.0,)), kernel("a", factor, times=(1.0,)), emulated=True)

    assert (row.verdict, row.basis, row.p_value) == (verdict, "band", None)
    assert row.interval == pytest.approx((factor / 1.25 - 1, factor * 1.25 - 1))
    assert row.is_regression(0.05) is (verdict == "slower")


def test_the_wider_of_two_error_bands_decides() -> None:
    base = run(kernel("a", times=(1.0,)), emulated=True)
    new = replace(run(kernel("a", 1.4, times=(1.0,)), emulated=True), bands=BANDS_OF_ANOTHER_VERSION)

    (row,) = compare(base, new)

    assert (row.verdict, row.basis) == ("indistinguishable", "band")


def test_equal_emulated_times_are_the_same_even_without_error_bands() -> None:
    old = replace(run(kernel("a", times=(1.0,)), kernel("b", times=(1.0,)), emulated=True), bands=None)
    new = replace(old, kernels=(old.kernels[0], kernel("b", 2.0, times=(1.0,))))

    first, second = compare(old, new)

    assert (first.verdict, second.verdict) == ("same", "unclear")
    assert second.reason == "a profile does not contain its error band: profile again"


def test_equal_code_is_a_tie_for_two_versions_of_the_timing_model() -> None:
    code = replace(kernel("a", times=(1.0,)), code_sha256="abc", launch="8x1x1 of 64x1x1")
    base = replace(run(code, emulated=True), versions=(("rocm-perf-lab", "1"),))
    slower = replace(code, time_ms=3.0, durations_ms=(3.0,))
    new = replace(run(slower, emulated=True), versions=(("rocm-perf-lab", "2"),))

    (row,) = compare(base, new)
    (larger,) = compare(base, replace(new, kernels=(replace(slower, launch="24x1x1 of 64x1x1"),)))
    (other_inputs,) = compare(base, replace(new, versions=base.versions))

    assert (row.verdict, row.reason) == ("indistinguishable", "the same code object and launch")
    assert row.note == "both runs have the same code object and launch: the versions differ"
    assert larger.verdict == "not comparable"
    assert (other_inputs.verdict, other_inputs.note) == (
        "slower",
        "both runs have the same code object and launch: the inputs or settings differ",
    )


@pytest.mark.parametrize(("measured", "where"), [(1.9, "inside"), (2.1, "outside"), (0.4, "outside")])
def test_a_measured_time_is_never_faster_or_slower_than_an_emulated_one(measured: float, where: str) -> None:
    emulated = run(kernel("a", times=(1.0,)), emulated=True)
    on_gpu = RunTimes(False, (("time_kind", "measured"), ("architecture", "gfx942")), (kernel("a", measured),))

    for row in (*compare(emulated, on_gpu), *compare(on_gpu, emulated)):
        assert (row.verdict, row.significant) == ("unclear", None)
        assert f"the measured time is {where} the error band of the emulated one, 500 to 2e+03 us (95%)" in row.reason
        assert not row.is_regression(0.0)


def test_emulated_times_of_different_gpus_have_no_error_band() -> None:
    new = replace(
        run(kernel("a", 9.0, times=(1.0,)), emulated=True), traits=(("time_kind", "emulated"), ("architecture", "gfx950"))
    )

    (row,) = compare(run(kernel("a", times=(1.0,)), emulated=True), new)

    assert (row.verdict, row.reason) == ("unclear", "no error band is known for emulated times of different devices")


def test_a_summary_replaces_missing_times_with_a_note() -> None:
    # 1.2533 * 0.01 / sqrt(25) = 0.25 % per median, 0.35 % together, times 1.96 = 0.69 %.
    base = KernelTimes("a", "a", 1.0, 25, stddev_ms=0.01)

    inside, beyond = only(base, replace(base, time_ms=1.006)), only(base, replace(base, time_ms=1.008))

    assert (inside.verdict, beyond.verdict) == ("same", "slower")
    assert beyond.basis == "summary"
    assert "contains no times" in str(beyond.note)


def test_without_spread_the_verdict_is_unclear() -> None:
    base = KernelTimes("a", "a", 1.0, 25)

    assert only(base, replace(base, time_ms=3.0)).verdict == "unclear"


def test_a_time_of_zero_has_no_ratio() -> None:
    base = KernelTimes("a", "a", 0.0, 25, durations_ms=(0.0,) * 25)

    row = only(base, kernel("a"))

    assert (row.verdict, row.change, row.interval) == ("unclear", None, None)


def test_kernels_match_by_mangled_name_then_by_name() -> None:
    base = run(kernel("_Z1av", name="a()"), kernel("_Z1bIiEvv", name="b()"), kernel("_Z1cv", name="c()"))
    new = run(kernel("_Z1bIfEvv", 2.0, name="b()"), kernel("_Z1av", name="a() [clone]"), kernel("_Z1dv", name="d()"))

    rows = {row.name: row.verdict for row in compare(base, new)}

    assert rows == {"b()": "slower", "a() [clone]": "same", "d()": "new", "c()": "gone"}


def test_two_kernels_of_one_name_are_not_matched_to_the_same_one() -> None:
    rows = compare(run(kernel("x1", name="f")), run(kernel("y1", name="f"), kernel("y2", name="f")))

    assert [row.verdict for row in rows] == ["same", "new"]


def launched(factor: float, groups: int, *, times: tuple[float, ...] = NOISE, dram_bytes: float | None = None) -> KernelTimes:
    shape = f"{groups}x1x1 of 256x1x1"
    return replace(kernel("a", factor, times=times), launch=shape, workgroups=groups, dram_bytes=dram_bytes)


def test_another_launch_shape_is_not_comparable_and_no_regression() -> None:
    row = only(launched(1, 4096), launched(100, 65536))

    assert (row.verdict, row.change, row.p_value) == ("not comparable", None, None)
    assert row.reason == (
        "launched as 4096x1x1 of 256x1x1, now as 65536x1x1 of 256x1x1: other work, use --normalise workgroup or byte"
    )
    assert row.base_ms == pytest.approx(1.0)
    assert row.new_ms == pytest.approx(100.0)
    assert not row.is_regression(0)


@pytest.mark.parametrize(("factor", "verdict"), [(16.0, "same"), (20.0, "slower"), (12.0, "faster")])
def test_times_of_other_launch_shapes_compare_per_workgroup(factor: float, verdict: str) -> None:
    (row,) = compare(run(launched(1, 4096)), run(launched(factor, 65536)), "workgroup")

    assert (row.verdict, row.normalised) == (verdict, "workgroup")
    # 1 ms for 4,096 workgroups is 244.1 ns each; 16 times the work in `factor` times the time.
    assert row.change == pytest.approx(factor / 16 - 1)
    assert str(row.note).startswith(f"244.1 and {244.140625 * factor / 16:.4g} ns per workgroup")
    assert "launched as 4096x1x1 of 256x1x1, now as 65536x1x1 of 256x1x1" in str(row.note)
    assert row.new_ms == pytest.approx(factor)
    assert not row.is_regression(0)


def test_times_of_other_launch_shapes_compare_per_byte() -> None:
    base, new = launched(1, 4096, dram_bytes=1e6), launched(3, 512, dram_bytes=2e6)

    (row,) = compare(run(base), run(new), "byte")
    (unknown,) = compare(run(base), run(replace(new, dram_bytes=None)), "byte")

    assert row.verdict == "slower"
    assert row.change == pytest.approx(0.5)
    assert str(row.note).startswith("1 and 1.5 ns per byte")
    assert (unknown.verdict, unknown.change) == ("not comparable", None)
    assert "no DRAM traffic" in unknown.reason


def test_equal_shapes_of_one_kernel_are_compared_with_each_other() -> None:
    base, new = run(launched(16, 65536), launched(1, 4096)), run(launched(1.2, 4096), launched(16, 65536), launched(9, 7))

    rows = compare(base, new)

    assert [(row.launch, row.verdict) for row in rows] == [
        ("4096x1x1 of 256x1x1", "slower"),
        ("65536x1x1 of 256x1x1", "same"),
        ("7x1x1 of 256x1x1", "new"),
    ]
    assert rows[2].reason == "the base run does not contain this launch of the kernel, 7x1x1 of 256x1x1"


def test_emulated_times_of_other_shapes_are_not_comparable_unless_normalised() -> None:
    base, new = run(launched(1, 100), emulated=True), run(launched(4, 200), emulated=True)

    assert compare(base, new)[0].verdict == "not comparable"
    (row,) = compare(base, new, "workgroup")
    assert (row.verdict, row.basis, row.is_regression(0)) == ("slower", "band", False)
    assert row.change == pytest.approx(1.0)


def test_differences_between_runs_are_listed() -> None:
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
def test_swapping_the_runs_reverses_the_direction(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    a, b = kernel("a", times=first), kernel("a", times=second)

    assert {only(a, b).verdict, only(b, a).verdict} not in ({"slower"}, {"faster"})


def test_the_reason_contains_interval_and_p_value() -> None:
    same, slower = only(kernel("a"), kernel("a")), only(kernel("a"), kernel("a", 1.1))

    assert same.reason.startswith("no difference beyond the noise: between -0.")
    assert slower.reason.endswith("0.0002 by chance")  # 2 of the 12,870 ways to choose 8 of 16
    assert slower.p_value == pytest.approx(2 / 12_870)


def test_a_chance_difference_among_many_kernels_is_unclear() -> None:
    base = tuple(1 + 0.01 * i for i in (0, 5, 2, 7, 1, 6, 3, 4))
    shifted = tuple(time + 0.045 for time in base)  # p = 0.0047: one of 210 equal kernels is as far apart
    others = [kernel(f"k{i}") for i in range(40)]

    alone = only(kernel("a", times=base), kernel("a", times=shifted))
    among = compare(run(kernel("a", times=base), *others), run(kernel("a", times=shifted), *others))[0]

    assert (alone.verdict, among.verdict) == ("slower", "unclear")
    assert among.reason == "chance alone causes such a difference in one of 41 kernels: use more runs"
    assert among.interval == alone.interval
    assert not among.is_regression(0.05)


def test_too_few_runs_for_hundreds_of_kernels_report_the_required_number() -> None:
    few = [kernel(f"k{i}", times=NOISE[:6]) for i in range(300)]

    row = compare(run(*few), run(kernel("k0", 2.0, times=NOISE[:6]), *few[1:]))[0]

    # 300 * 2 / C(16, 8) = 0.047, but 300 * 2 / C(14, 7) = 0.17.
    assert row.verdict == "unclear"
    assert row.reason.endswith("use 8 or more")


def test_a_difference_smaller_than_the_drift_within_a_run_is_unclear() -> None:
    drifting = tuple(1 + 0.01 * i for i in range(12))

    small, large = (
        only(kernel("a", times=drifting), kernel("a", 1.15)),
        only(kernel("a", times=drifting), kernel("a", 1.3)),
    )

    # 11 % of a median of 1.055 from first to last; 1.15 is 9 % above the median, and above every single time.
    assert (small.verdict, large.verdict) == ("unclear", "slower")
    assert small.reason == "the times drift by +10.4% within a run, more than the difference"
    assert "consecutive runs are correlated" in str(large.note)


def test_slow_first_calls_are_warm_up() -> None:
    warm = (5.0, 4.0, *NOISE * 2)

    row = only(kernel("a", times=warm), kernel("a", times=NOISE))

    assert (row.verdict, row.base_runs, row.new_runs) == ("same", 16, 8)


def test_another_template_instance_is_compared_with_a_note() -> None:
    base = kernel("_Z4gemmILi64EEvv", name="void gemm<64>()")

    row = only(base, kernel("_Z4gemmILi128EEvv", 1.2, name="void gemm<128>()"))

    assert (row.verdict, row.match, row.base_name) == ("slower", "template", "void gemm<64>()")
    assert row.note == "was void gemm<64>()"


def test_version_changes_and_identical_runs_are_remarks() -> None:
    old = replace(run(), versions=(("rocprofv3", "1.1.0"),), source="abc")
    young = replace(old, versions=(("rocprofv3", "1.3.0"),))

    assert remarks(old, young) == ("versions differ: rocprofv3 1.1.0, now 1.3.0", "both profiles are of the same run")
    assert remarks(old, replace(old, source="def")) == ()


@pytest.mark.parametrize("name", INDEPENDENT)
def test_equal_runs_differ_in_at_most_5_percent(name: str) -> None:
    different, _ = claims(INDEPENDENT[name], INDEPENDENT[name], 10, 300)

    # Of 300 pairs 15 are expected at 5 %; more than 27 come with a chance of 0.001.
    assert different <= 27 / 300


def test_profiles_of_many_equal_kernels_rarely_fail() -> None:
    assert family_claims(normal(0.03), 10, 4)[1] == 0


def test_ten_runs_show_a_10_percent_loss_at_3_percent_spread() -> None:
    _, regressions = claims(normal(0.03), slowed(normal(0.03), 0.10), 10, 100)

    assert regressions >= 0.98
