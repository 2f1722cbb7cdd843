"""Output of a profile about unreliable times and implausible rates."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.console import Console

from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.jobs.profile.workbench import ProfiledKernel
from rocm_perf_lab.jobs.show import show_profile
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
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
