"""dag.json: copies, gaps, launches, what-if; and a large run, whose lists are bounded while its sums are not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.databases import generate_database
from rocm_perf_lab.analysis.dag import dag_document
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.trace import MemoryCopies, Regions
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import REDUCE, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import DispatchRecord
    from rocm_perf_lab.rocprof.trace import Trace

TARGET = load_target("mi300x")


def traced(directory: Path, run: list[DispatchRecord]) -> Trace:
    write_database(directory / "x.db", recorded_run(TARGET, run))
    return read_database(directory / "x.db")


def document(trace: Trace, **options: int) -> dict[str, Any]:
    profile = build_profile(trace, target=TARGET)
    return dag_document(profile, diagnose(profile, trace, deterministic=True), trace, **options).model_dump(mode="json")


def test_gaps_overlap_and_sums(tmp_path: Path) -> None:
    dag = document(traced(tmp_path, [dispatch(100, 200), dispatch(150, 250, kernel=REDUCE, queue=1), dispatch(300, 340)]))

    assert (dag["wall_ns"], dag["busy_ns"], dag["idle_ns"], dag["work_ns"], dag["overlap_ns"]) == (240, 190, 50, 240, 50)
    assert dag["most_at_once"] == 2
    (gap,) = dag["longest_gaps"]
    assert (gap["start_ns"], gap["duration_ns"], gap["before"], gap["after"][:7]) == (150, 50, "reduce", "vecCopy")
    assert dag["launches"] is None
    assert "without API calls" in dag["launches_reason"]
    assert "rocprofv3" not in dag["launches_reason"]


def test_each_kernel_has_its_calls_its_share_and_its_slack(tmp_path: Path) -> None:
    dag = document(traced(tmp_path, [dispatch(0, 100), dispatch(0, 60, kernel=REDUCE, queue=1), dispatch(100, 150)]))

    copy, reduce = dag["kernels"]
    assert (copy["calls"], copy["total_ns"], copy["critical_calls"], copy["least_slack_ns"], copy["share"]) == (2, 150, 2, 0, 1.0)
    assert (reduce["calls"], reduce["critical_calls"], reduce["least_slack_ns"], reduce["share"]) == (1, 0, 90, 0.0)


def test_the_largest_kernels_are_tried_twice_as_fast(tmp_path: Path) -> None:
    (found,) = document(traced(tmp_path, [dispatch(0, 100), dispatch(150, 250)]))["what_if"]

    assert (found["times_faster"], found["wall_ns"]) == (2.0, 150.0)
    assert found["wall_speedup"] == pytest.approx(250 / 150)


def test_copies_and_launches_are_included(tmp_path: Path) -> None:
    one, zero = np.array([1]), np.array([0])
    run = traced(tmp_path, [dispatch(100, 200)])
    trace = replace(
        run,
        # Correlation ids are read if there are API calls.
        dispatches=replace(run.dispatches, correlation=one),
        memory_copies=MemoryCopies(zero, zero, one, one * 40, one * 90, -one, zero, -one, zero, -one, directions=("H2D",)),
        regions=Regions(zero, one, zero, one * 20, one * 30, one, names=("hipLaunchKernel",)),
    )

    dag = document(trace)

    assert [(node["kind"], node["kernel"][:3], node["queue"]) for node in dag["nodes"]] == [
        ("dispatch", "vec", 0),
        ("copy", "H2D", -1),
    ]
    assert (dag["edges"], dag["critical_path"], dag["copies_on_critical_path_ns"]) == ([[1, 0]], [1, 0], 50)
    assert (dag["launches"]["count"], dag["launches"]["overhead_ns"], dag["launches_reason"]) == (1, 10, None)


def test_a_large_run_lists_the_longest_nodes_of_the_path(tmp_path: Path) -> None:
    trace = traced(tmp_path, [dispatch(100 * i, 100 * i + i + 1) for i in range(20)])

    dag = document(trace, max_nodes=3)

    assert [node["id"] for node in dag["nodes"]] == dag["critical_path"] == [17, 18, 19]
    assert dag["edges"] == [[17, 18], [18, 19]]
    assert (dag["nodes_total"], dag["nodes_left_out"], dag["critical_path_nodes"]) == (20, 17, 20)
    assert (dag["kernels"][0]["calls"], dag["critical_path_ns"]) == (20, 210)


def test_a_large_generated_run_matches_its_views(tmp_path: Path) -> None:
    generate_database(tmp_path / "x.db", dispatches=20_000, queues=8)
    trace = read_database(tmp_path / "x.db")
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        shown = connection.execute("SELECT start, end, queue_id, name FROM kernels ORDER BY start, end, id").fetchall()

    found = trace.dispatches
    names = [trace.kernels[kernel].name for kernel in found.kernel]
    columns = (found.start_ns, found.end_ns, found.queue)
    assert list(zip(*(column.tolist() for column in columns), names, strict=True)) == shown
    dag = document(trace)
    assert (dag["nodes_total"], len(trace.memory_copies)) == (20_200, 200)
    assert len(dag["nodes"]) <= 5000
    assert sum(kernel["calls"] for kernel in dag["kernels"]) == 20_000
