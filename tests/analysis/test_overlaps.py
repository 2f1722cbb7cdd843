"""Sub-microsecond overlaps of one queue and stream, in small graphs, against brute force, and in a recording of a GPU."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.critical_path import critical_path
from rocm_perf_lab.analysis.dependencies import dependencies
from rocm_perf_lab.analysis.timeline import timeline
from tests.analysis.test_critical_path import Row, dispatches
from tests.builders.recordings import read_run

RECORDING = Path(__file__).parents[1] / "data/recorded/rocprofv3_json/908_results.json.gz"


def test_dispatches_of_one_queue_that_overlap_by_999_ns_have_no_slack() -> None:
    path = critical_path(dispatches([(0, 10_000, 0), (9_001, 15_000, 0), (14_700, 20_000, 0)]))

    assert path.edges == ((0, 1), (1, 2))
    assert path.slack_ns.tolist() == [0, 0, 0]
    # 9,001 + 5,699 + 5,300: no nanosecond counts twice.
    assert (path.length_ns, path.busy_ns, path.wall_ns) == (20_000, 20_000, 20_000)
    assert path.graph.clamped == 2
    assert path.notes == (
        "2 dispatches overlap the next one of the same queue and stream by less than 1 us: the timestamps are inexact, "
        "the dispatches are ordered",
    )


def test_an_overlap_of_a_microsecond_is_concurrent_execution() -> None:
    path = critical_path(dispatches([(0, 10_000, 0), (9_000, 15_000, 0)]))

    assert path.edges == ()
    assert path.slack_ns.tolist() == [0, 4_000]
    assert (path.graph.clamped, path.notes) == (0, ())


@pytest.mark.parametrize("unordered", ["another stream", "another queue", "unknown queue"])
def test_only_one_queue_and_stream_is_in_order(unordered: str) -> None:
    both = dispatches([(0, 10_000, 3), (9_500, 15_000, 3)])
    column = np.array([1, 2]) if unordered != "unknown queue" else np.array([-1, -1])
    both = replace(both, stream=column) if unordered == "another stream" else replace(both, queue=column)

    path = critical_path(both)

    assert path.edges == ()
    assert path.graph.clamped == 0


def test_a_dispatch_is_ordered_behind_a_long_one_that_really_overlaps_a_third() -> None:
    # The second dispatch runs beside the first one; the third starts 400 ns before the first one ends.
    path = critical_path(dispatches([(0, 20_000, 0), (5_000, 6_000, 0), (19_600, 25_000, 0)]))

    assert set(path.edges) == {(0, 2)}
    assert path.length_ns == 25_000
    assert path.slack_ns.tolist() == [0, 24_000, 0]


ROWS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 14), st.integers(0, 2)).map(lambda t: (t[0], t[0] + t[1], t[2])), max_size=9
)


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, limit=st.integers(0, 8))
def test_clamped_graphs_equal_graphs_of_times_clamped_one_by_one(rows: list[Row], limit: int) -> None:
    found = critical_path(dispatches(rows), max_gap_ns=5, max_overlap_ns=limit)

    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][1], i))
    clamped = list(rows)
    for place, one in enumerate(order):
        start, end, queue = rows[one]
        near = [rows[i][0] for i in order[place + 1 :] if rows[i][2] == queue and end - limit < rows[i][0] < end]
        clamped[one] = (start, min([end, *near]), queue)
    wanted = critical_path(dispatches(clamped), max_gap_ns=5, max_overlap_ns=0)
    assert found.graph.clamped == sum(old != new for old, new in zip(rows, clamped, strict=True))
    assert found.edges == wanted.edges
    assert found.slack_ns.tolist() == wanted.slack_ns.tolist()
    assert found.length_ns == wanted.length_ns <= found.busy_ns


def test_a_training_job_has_1275_overlaps_and_its_streams_are_in_order() -> None:
    trace = read_run([RECORDING])
    table = trace.dispatches
    lanes: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for agent, queue, stream, start, end in zip(
        *(column.tolist() for column in (table.agent, table.queue, table.stream, table.start_ns, table.end_ns)), strict=True
    ):
        lanes.setdefault((agent, queue, stream), []).append((start, end))
    overlaps = [one[1] - two[0] for lane in lanes.values() for one, two in pairwise(sorted(lane)) if one[1] > two[0]]

    graph = dependencies(table, trace.memory_copies, trace.regions)

    assert (len(table), len(overlaps), max(overlaps)) == (43_915, 1_275, 568)
    assert graph.clamped == len(overlaps)
    # Each dispatch except the first of its stream waits for the one before it.
    lane_predecessor = graph.predecessors[0]
    assert np.count_nonzero(lane_predecessor != -1) == len(table) - len(lanes)
    assert timeline(graph).most_at_once < timeline(dependencies(table, max_overlap_ns=0)).most_at_once + 1
