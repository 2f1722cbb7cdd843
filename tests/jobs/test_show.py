"""Output of a profile about unreliable times and implausible rates."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.jobs.profile.workbench import ProfiledKernel
from rocm_perf_lab.jobs.records import profile_metrics
from rocm_perf_lab.jobs.show import runtime_text, show_profile, show_rank, time_text
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.timing_errors import UNVALIDATED, TimingErrors
from tests.builders.profiles import vec_copy_counters
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TARGET = load_target("mi300x")


def printed(directory: Path, times: Sequence[int], extra: Mapping[str, float] | None = None) -> str:
    counters = {**vec_copy_counters(), **(extra or {})}
    rows = [dispatch(10**6 * i, 10**6 * i + time, counters=counters) for i, time in enumerate(times)]
    write_database(directory / "x.db", recorded_run(TARGET, rows, emulated=False, kernels=(VEC_COPY,)))
    trace = read_database(directory / "x.db")
    profile = build_profile(trace, target=TARGET)
    compiled: Any = None
    turn = ProfiledKernel(compiled, profile, diagnose(profile, trace, deterministic=False), None, (), ())
    console = Console(file=io.StringIO(), width=80, no_color=True, highlight=False)
    show_profile(console, turn, "measured", "profile")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_steady_times_are_shown_without_a_warning(tmp_path: Path) -> None:
    text = printed(tmp_path, [10_000, 10_100, 9_900] * 4)

    assert "warning" not in text
    assert "10.00 us measured" in text
    assert "(theoretical peaks)" in " ".join(text.replace("│", " ").split())


def test_unstable_drifting_and_warming_up_are_warned_of(tmp_path: Path) -> None:
    text = " ".join(printed(tmp_path, [40_000, 10_000, *(10_000 + 1_000 * i for i in range(14))]).replace("│", " ").split())

    assert "unstable: the times vary by" in text
    assert "drifting:" in text


def test_a_warm_up_is_said_and_not_in_the_time(tmp_path: Path) -> None:
    text = printed(tmp_path, [20_000, *[10_000] * 9])

    assert "warming up" in text
    assert "10.00 us measured" in text


def test_a_rate_above_its_roof_is_never_printed_as_a_fact(tmp_path: Path) -> None:
    text = printed(tmp_path, [10_000] * 6, {"TCC_EA0_WRREQ_64B_sum": 1e6, "TCC_EA0_WRREQ_sum": 1e6})

    assert "implausible" in text
    assert "7,240" not in text


ERRORS = TimingErrors(
    status="estimated",
    source="50 cases",
    time=(TimeBand(coverage=0.8, low=0.75, high=1.5), TimeBand(coverage=0.95, low=0.5, high=2.0)),
    ratio=(RatioBand(coverage=0.8, factor=1.1), RatioBand(coverage=0.95, factor=1.25)),
)


@pytest.mark.parametrize(
    ("runtime_ns", "text"),
    [
        (12_000, "12.00 us emulated, 9 to 18 us expected"),
        (4.0, "4 ns emulated, 3 to 6 ns expected"),
        (2_000_000, "2.000 ms emulated, 1.5 to 3 ms expected"),
        (400_000, "400.00 us emulated, 300 to 600 us expected"),
        (30_000_000_000, "30000.000 ms emulated, 22500 to 45000 ms expected"),
    ],
)
def test_an_emulated_time_is_shown_with_its_error_band(runtime_ns: float, text: str) -> None:
    assert time_text(runtime_ns, "emulated", ERRORS) == text


def test_a_long_list_of_counters_is_counted_after_its_first_names(tmp_path: Path) -> None:
    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(0, 10_000)], emulated=False, kernels=(VEC_COPY,)))
    trace = read_database(tmp_path / "x.db")
    notes = ("emulator has no counter named A, B, C, D, E_1, F, G_sum", "few: A, B, C, D, E, F", "words, more words, and so on")
    profile = replace(build_profile(trace, target=TARGET), notes=notes)
    diagnosis = diagnose(profile, trace, deterministic=True)
    compiled: Any = None
    turn = ProfiledKernel(compiled, profile, diagnosis, None, (), ())
    console = Console(file=io.StringIO(), width=120, no_color=True, highlight=False)

    show_profile(console, turn, "measured", "profile")

    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "emulator has no counter named A, B, C, D and 3 more (see profile.json)" in text
    assert "few: A, B, C, D, E, F " in text
    assert "words, more words, and so on" in text
    document = describe(profile, diagnosis, trace)["profile.json"].model_dump(mode="json")
    assert document["notes"] == list(notes)


def test_a_share_of_the_time_is_printed_only_if_there_is_a_time() -> None:
    console = Console(file=io.StringIO(), width=80, no_color=True, highlight=False)

    show_rank(console, "scan", 0.25, 12_000.0)
    show_rank(console, "count", 1.0, 0.0)

    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "rank    scan: 25% of the total time can be saved\n"


def test_bounds_that_no_measurement_supports_are_called_assumed() -> None:
    assert time_text(12_000, "emulated", UNVALIDATED) == "12.00 us emulated, 3 to 48 us assumed, not validated"
    estimated = load_target("mi300x").timing_errors
    assert UNVALIDATED.expected.low < estimated.expected.low
    assert UNVALIDATED.expected.high > estimated.expected.high


def test_programs_read_one_time_with_its_kind() -> None:
    assert runtime_text(20_000, "emulated") == "0.020000 ms emulated"
    assert runtime_text(20_000, "measured") == "0.020000 ms measured"
    assert runtime_text(0, "emulated") == "no emulated time for this architecture"
    assert runtime_text(0, "measured") == "unknown"


def test_an_emulated_profile_has_error_bands_in_documents_metrics_and_tables(tmp_path: Path) -> None:
    rows = [dispatch(0, 10_000, counters=vec_copy_counters())]
    write_database(tmp_path / "x.db", recorded_run(TARGET, rows, emulated=True, kernels=(VEC_COPY,)))
    trace = read_database(tmp_path / "x.db")
    timing = TARGET.timing
    assert timing is not None
    target = TARGET.model_copy(update={"timing": timing.model_copy(update={"error": ERRORS})})
    profile = build_profile(trace, target=target)
    diagnosis = diagnose(profile, trace, deterministic=True)
    compiled: Any = None
    console = Console(file=io.StringIO(), width=100, no_color=True, highlight=False)

    document = describe(profile, diagnosis, trace)["profile.json"].model_dump(mode="json")
    metrics = profile_metrics(ProfiledKernel(compiled, profile, diagnosis, None, (), ()))
    show_profile(console, ProfiledKernel(compiled, profile, diagnosis, None, (), ()), "emulated", "profile")

    assert document["error_bands"] == {
        "status": "estimated",
        "source": "50 cases",
        "time": [
            {"coverage": 0.8, "low_ms": pytest.approx(0.0075), "high_ms": pytest.approx(0.015)},
            {"coverage": 0.95, "low_ms": 0.005, "high_ms": 0.02},
        ],
        "ratio": [{"coverage": 0.8, "factor": 1.1}, {"coverage": 0.95, "factor": 1.25}],
    }
    assert (metrics["runtime_low_us"], metrics["runtime_high_us"]) == (7.5, 15.0)
    assert metrics["ratio_band"] == 1.25
    assert isinstance(console.file, io.StringIO)
    assert "10.00 us emulated, 7.5 to 15 us expected" in console.file.getvalue()


def test_a_measured_profile_has_no_error_bands(tmp_path: Path) -> None:
    rows = [dispatch(0, 10_000, counters=vec_copy_counters())]
    write_database(tmp_path / "x.db", recorded_run(TARGET, rows, emulated=False, kernels=(VEC_COPY,)))
    trace = read_database(tmp_path / "x.db")
    profile = build_profile(trace, target=TARGET)

    assert profile.timing_errors is None
    document = describe(profile, diagnose(profile, trace, deterministic=False), trace)["profile.json"]
    assert document.model_dump(mode="json")["error_bands"] is None
