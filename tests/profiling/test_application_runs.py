"""Counter passes are read beside the runs, and come out as if they had been read one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.device.rocprofv3 import ProfiledRun, ProfilerError, Rocprofv3
from rocm_perf_lab.profiling.application import ApplicationRuns
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COUNTERS = tuple(f"SQ_EVENT_{number}" for number in range(24))
PASSES = (COUNTERS[:8], COUNTERS[8:16], COUNTERS[16:])


class Scripted(Rocprofv3):
    """Leaves a database with the counters that it was asked for, but fails with SQ_EVENT_8 and never finds SQ_EVENT_16."""

    def run(
        self,
        options: Sequence[str],
        command: Sequence[str],
        directory: Path,
        *,
        timeout_s: float,
        log: Path | None = None,
        formats: Sequence[str] = ("rocpd",),
    ) -> ProfiledRun:
        if "SQ_EVENT_8" in options:
            raise ProfilerError("the hardware cannot collect these counters")
        found = {name: float(name.rpartition("_")[2]) for name in options if name in COUNTERS and name != "SQ_EVENT_16"}
        path = directory / "run_results.db"
        path.parent.mkdir(parents=True)
        write_database(path, recorded_run(load_target("mi300x"), [dispatch(1000, 5000, counters=found)]))
        return ProfiledRun((path,), ("data lost",) if "SQ_EVENT_0" in options else (), 0.1)


def test_a_failed_pass_loses_only_its_own_counters(tmp_path: Path) -> None:
    told: list[str] = []
    runs = ApplicationRuns(Scripted("rocprofv3", "1.1.0"), ("./app",), tmp_path, 1.0, told.append)

    traces, problems = runs.counters("gfx942", COUNTERS, VEC_COPY.mangled_name)

    assert told == [f"counter pass {number} of 3" for number in (1, 2, 3)]
    assert [set(trace.counters) for trace in traces] == [set(PASSES[0]), set(PASSES[2]) - {"SQ_EVENT_16"}]
    assert traces[1].counters["SQ_EVENT_23"].value.tolist() == [23.0]
    assert problems == (
        "data lost",
        f"counter pass 2 ({', '.join(PASSES[1])}) failed: the hardware cannot collect these counters",
        "rocprofv3 did not collect SQ_EVENT_16",
    )


class Countless(Scripted):
    """Leaves a database without any counter."""

    def run(self, options: Sequence[str], command: Sequence[str], directory: Path, **others: Any) -> ProfiledRun:
        return super().run(tuple(word for word in options if word not in COUNTERS), command, directory, **others)


def test_a_profiler_without_counters_is_reported_once(tmp_path: Path) -> None:
    runs = ApplicationRuns(Countless("rocprofv3", "1.1.0"), ("./app",), tmp_path, 1.0, lambda _: None)

    _, problems = runs.counters("gfx942", COUNTERS, VEC_COPY.mangled_name)

    assert problems == ("rocprofv3 collected none of the 24 requested counters",)
