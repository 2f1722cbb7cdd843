"""Copies, API calls, what-if and the time line, against graphs whose answer is known and against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.critical_path import copies_on_path_ns, critical_path, length_if, what_if
from rocm_perf_lab.analysis.dependencies import Graph, dependencies
from rocm_perf_lab.analysis.timeline import timeline
from rocm_perf_lab.rocprof.trace import MemoryCopies, Regions
from tests.analysis.test_critical_path import dispatches

Interval = tuple[int, int, int]
"""Start, end, queue or stream."""


def copies(rows: list[Interval]) -> MemoryCopies:
    start, end, stream = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    zeros, unknown = np.zeros(len(rows), np.int64), np.full(len(rows), -1)
    return MemoryCopies(zeros, zeros, zeros, start, end, unknown, zeros, unknown, stream, unknown, directions=("H2D",))


def calls(rows: list[tuple[int, int, str, int]], *, thread: int = 1) -> Regions:
    """Start, end, name, correlation."""
    names = tuple(dict.fromkeys(row[2] for row in rows))
    start, end, correlation = (np.array([row[i] for row in rows], np.int64) for i in (0, 1, 3))
    name = np.array([names.index(row[2]) for row in rows], np.int64)
    return Regions(np.zeros(len(rows), np.int64), np.full(len(rows), thread), name, start, end, correlation, names=names)


def edges(graph: Graph) -> list[list[int]]:
    return graph.edges().tolist()  # type: ignore[no-any-return]


def test_a_kernel_waits_for_the_last_copy_of_its_stream() -> None:
    path = critical_path(dispatches([(50_000, 50_010, 0)]), copies([(0, 100, 0)]))

    assert path.edges == ((1, 0),)
    assert (path.length_ns, copies_on_path_ns(path), path.dispatches) == (110, 100, (0,))


def test_a_copy_waits_for_the_kernel_of_its_stream() -> None:
    assert critical_path(dispatches([(0, 10, 0)]), copies([(90_000, 90_005, 0)])).edges == ((0, 1),)


def test_copies_of_other_streams_depend_by_time_only() -> None:
    kernel = dispatches([(50_000, 50_010, 0)])

    assert critical_path(kernel, copies([(0, 100, 1)])).edges == ()
    assert critical_path(kernel, copies([(0, 100, -1)])).edges == ()
    assert critical_path(kernel, copies([(0, 49_000, 1)])).edges == ((1, 0),)


def test_a_copy_that_the_lane_already_waited_for_is_omitted() -> None:
    path = critical_path(dispatches([(200, 300, 0), (400, 500, 0)]), copies([(0, 100, 0)]))

    assert path.edges == ((2, 0), (0, 1))
    assert path.slack_ns.tolist() == [0, 0]


def test_a_copy_of_no_duration_at_the_time_of_the_lane_predecessor_is_waited_for() -> None:
    # The copy of 1 ns joins the copy at 2, for which the second kernel waits: the first one started before it.
    path = critical_path(dispatches([(2, 2, 0), (3, 3, 0)]), copies([(0, 0, 0), (0, 1, 1), (2, 2, 0)]), max_gap_ns=0)

    assert {(0, 1), (0, 4), (3, 4), (4, 1)} <= set(path.edges)
    assert path.slack_ns.tolist() == [1, 0]


def test_three_predecessors_are_all_followed() -> None:
    # The kernel of queue 0 waits for its lane, for its stream's copy and for the kernel of queue 1, the longest.
    path = critical_path(
        dispatches([(0, 10, 0), (0, 950, 1), (1000, 1005, 0)]),
        replace(copies([(20, 60, 0)])),
    )

    assert set(path.edges) == {(0, 3), (0, 2), (3, 2), (1, 2)}
    assert (path.length_ns, path.dispatches) == (955, (1, 2))
    assert path.slack_ns.tolist() == [900, 0, 0]


def test_a_synchronisation_on_the_host_orders_queues_that_are_far_apart() -> None:
    first, second = (0, 100, 0), (900_000, 900_050, 1)
    launched = [
        (0, 5, "hipLaunchKernel", 1),
        (6, 120, "hipDeviceSynchronize", 2),
        (800_000, 800_004, "hipLaunchKernel", 3),
    ]
    kernels = replace(dispatches([first, second]), correlation=np.array([1, 3]))

    assert critical_path(kernels).edges == ()
    path = critical_path(kernels, None, calls(launched))
    assert path.edges == ((0, 1),)
    assert path.length_ns == 150


def test_a_synchronisation_waits_for_every_queue() -> None:
    kernels = dispatches([(10, 60, 0), (10, 110, 1), (900_000, 900_050, 2)])
    kernels = replace(kernels, correlation=np.array([1, 2, 4]))
    made = [
        (0, 2, "hipLaunchKernel", 1),
        (2, 4, "hipLaunchKernel", 2),
        (6, 120, "hipDeviceSynchronize", 3),
        (899_990, 899_994, "hipLaunchKernel", 4),
    ]

    path = critical_path(kernels, None, calls(made))

    assert path.edges == ((0, 2), (1, 2))
    assert path.slack_ns.tolist() == [50, 0, 0]
    # Queue 1 ten times as fast (10 ns): the host then waits for queue 0, until 60.
    assert what_if(path, np.array([False, True, False]), 10).wall_ns == 60 - 10 + (900_000 - 110) + 50


@pytest.mark.parametrize(
    ("blocking", "thread_of_launch"),
    [((6, 90, "hipDeviceSynchronize", 2), 1), ((6, 120, "hipMemcpyAsync", 2), 1), ((6, 120, "hipDeviceSynchronize", 2), 9)],
    ids=["nothing ended in it", "does not block", "another thread"],
)
def test_nonblocking_calls_create_no_dependence(blocking: tuple[int, int, str, int], thread_of_launch: int) -> None:
    kernels = replace(dispatches([(0, 100, 0), (900_000, 900_050, 1)]), correlation=np.array([1, 3]))
    found = calls([(0, 5, "hipLaunchKernel", 1), blocking, (800_000, 800_004, "hipLaunchKernel", 3)])
    thread = found.thread.copy()
    thread[2] = thread_of_launch

    assert critical_path(kernels, None, replace(found, thread=thread)).edges == ()


def test_launch_overhead_and_latency() -> None:
    kernels = replace(dispatches([(100, 200, 0), (230, 300, 0)]), correlation=np.array([1, 2]))
    regions = calls([(40, 60, "hipLaunchKernel", 1), (210, 214, "hipLaunchKernel", 2)])

    found = timeline(dependencies(kernels, None, regions), regions).launches

    assert found is not None
    assert (found.count, found.overhead_ns, found.median_overhead_ns, found.median_latency_ns) == (2, 24, 12.0, 40.0)
    assert found.late == 1
    assert timeline(dependencies(kernels)).launches is None


def test_a_graph_launch_counts_once_however_many_kernels_it_has() -> None:
    kernels = replace(dispatches([(100, 110, 0), (110, 120, 0), (120, 130, 0)]), correlation=np.array([7, 7, 7]))
    regions = calls([(40, 90, "hipGraphLaunch", 7)])

    found = timeline(dependencies(kernels, None, regions), regions).launches

    assert found is not None
    assert (found.count, found.overhead_ns, found.median_latency_ns, found.late) == (1, 50, 60.0, 0)


def test_the_wait_of_a_synchronous_copy_is_not_launch_overhead() -> None:
    kernels = replace(dispatches([(100, 110, 0)]), correlation=np.array([2]))
    moved = replace(copies([(20, 60, 0)]), correlation=np.array([1]))
    regions = calls([(0, 70, "hipMemcpy", 1), (80, 85, "hipLaunchKernel", 2)])

    found = timeline(dependencies(kernels, moved, regions), regions).launches

    assert found is not None
    assert (found.count, found.overhead_ns) == (1, 5)


def test_the_time_line_of_two_queues() -> None:
    found = timeline(dependencies(dispatches([(0, 10, 0), (5, 20, 1), (30, 40, 0), (47, 50, 1)])))

    assert (found.wall_ns, found.busy_ns, found.idle_ns, found.work_ns) == (50, 33, 17, 38)
    assert (found.overlap_ns, found.most_at_once, found.gap_count) == (5, 2, 2)
    assert [(gap.start_ns, gap.duration_ns, gap.before, gap.after) for gap in found.gaps] == [(20, 10, 1, 2), (40, 7, 2, 3)]


def test_a_faster_kernel_gains_until_another_chain_is_longer() -> None:
    path = critical_path(dispatches([(0, 100, 0), (0, 60, 1)]))

    found = what_if(path, np.array([True, False]), 10.0)

    assert (length_if(path, np.array([True, False]), 10.0), found.wall_ns) == (60.0, 60.0)
    assert found.wall_speedup == pytest.approx(100 / 60)


def test_waiting_stays_as_it_was_when_a_kernel_is_faster() -> None:
    path = critical_path(dispatches([(0, 100, 0), (150, 250, 0)]))

    assert what_if(path, np.array([True, True]), 2.0).wall_ns == 150.0


def test_equal_ids_of_different_processes_are_different_lanes() -> None:
    rows = dispatches([(0, 10, 0), (20, 30, 0), (40, 50, 0)], process=[0, 1, 0])

    assert critical_path(rows).edges == ((0, 2),)


def test_ids_may_be_large_handles() -> None:
    rows = [(0, 10, 2**62), (20, 30, -(2**40)), (40, 50, 2**62)]

    assert set(critical_path(dispatches(rows), max_gap_ns=0).edges) == {(0, 2)}


INTERVALS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 2)).map(lambda t: (t[0], t[0] + t[1], t[2])), max_size=7
)


@settings(max_examples=100, deadline=None)
@given(
    kernels=INTERVALS,
    moved=INTERVALS,
    max_gap_ns=st.integers(0, 10),
    faster=st.integers(0, 127),
    times=st.sampled_from([1, 2, 4]),
)
def test_random_graphs_with_copies_equal_the_reference(
    kernels: list[Interval], moved: list[Interval], max_gap_ns: int, faster: int, times: int
) -> None:
    path = critical_path(dispatches(kernels), copies(moved), max_gap_ns=max_gap_ns, max_overlap_ns=0)
    rows = [(*row, "kernel") for row in kernels] + [(*row, "copy") for row in moved]

    # Left out edges are implied by others: chains, slack and what-if must be those of the full rule.
    full = reference_edges(rows, max_gap_ns)
    assert set(path.edges) <= full
    chosen = np.array([bool(faster >> i & 1) for i in range(len(kernels))], bool)
    found = what_if(path, chosen, times)
    spent = [float(end - start) for start, end, _, _ in rows]
    scaled = [time / times if i < len(kernels) and chosen[i] else time for i, time in enumerate(spent)]
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][1], i))
    assert path.length_ns == max(longest_to(order, spent, full), default=0)
    assert length_if(path, chosen, times) == max(longest_to(order, scaled, full), default=0)
    assert found.wall_ns == replayed(order, rows, scaled, full)
    through = [a + b - c for a, b, c in zip(longest_to(order, spent, full), longest_from(order, spent, full), spent, strict=True)]
    assert path.slack_ns.tolist() == [path.length_ns - time for time in through[: len(kernels)]]
    if times == 1:
        assert found.wall_ns == path.wall_ns
    assert sum(spent[i] for i in path.graph.identity[path.nodes]) == path.length_ns


@settings(deadline=None)
@given(rows=INTERVALS)
def test_the_time_line_equals_counting_every_nanosecond(rows: list[Interval]) -> None:
    found = timeline(dependencies(dispatches(rows), max_overlap_ns=0))

    running = [sum(start <= t < end for start, end, _ in rows) for t in range(60)]
    first = min((start for start, _, _ in rows), default=0)
    last = max((end for _, end, _ in rows), default=0)
    assert found.busy_ns == sum(count >= 1 for count in running)
    assert found.overlap_ns == sum(count >= 2 for count in running)
    assert found.most_at_once == max(running)
    assert found.work_ns == sum(running)
    assert found.idle_ns == sum(count == 0 for count in running[first:last])
    assert found.idle_ns == 0 or sum(gap.duration_ns for gap in found.gaps) == found.idle_ns


@settings(max_examples=100, deadline=None)
@given(
    kernels=INTERVALS,
    made=st.lists(
        st.tuples(
            st.integers(0, 40),
            st.integers(0, 15),
            st.sampled_from(["hipLaunchKernel", "hipDeviceSynchronize"]),
            st.integers(0, 1),
        ),
        max_size=10,
    ),
)
def test_waits_on_the_host_equal_the_rule_written_down(kernels: list[Interval], made: list[tuple[int, int, str, int]]) -> None:
    made = sorted(made)
    rows = dispatches(kernels)
    rows = replace(rows, correlation=np.arange(len(kernels)))
    found = calls([(start, start + length, name, row) for row, (start, length, name, _) in enumerate(made)])
    graph = dependencies(
        rows, None, replace(found, thread=np.array([call[3] for call in made], np.int64)), max_gap_ns=-1, max_overlap_ns=0
    )

    wanted = reference_edges([(*row, "kernel") for row in kernels], -1)
    order = sorted(range(len(kernels)), key=lambda one: (kernels[one][0], kernels[one][1], one))
    for later in range(min(len(kernels), len(made))):
        launch, _, _, thread = made[later]
        blocking = [
            (s + d, row) for row, (s, d, name, t) in enumerate(made) if "Sync" in name and t == thread and s + d <= launch
        ]
        if not blocking:
            continue
        block_end, row = max(blocking)
        ended = [before for before in order[: order.index(later)] if kernels[before][1] <= min(block_end, kernels[later][0])]
        own = {before for before, after in wanted if after == later}
        last = max(ended, key=lambda one: (kernels[one][1], order.index(one)), default=None)
        wanted |= {(last, later)} if last is not None and kernels[last][1] >= made[row][0] else set()
        for queue in {kernel[2] for kernel in kernels} - {kernels[later][2]}:
            of_queue = [one for one in ended if kernels[one][2] == queue and kernels[one][1] >= made[row][0]]
            joined = max(of_queue, key=lambda one: (kernels[one][1], order.index(one)), default=None)
            wanted |= {(joined, later)} - own if joined is not None else set()
    assert {(before, after) for before, after in edges(graph)} == wanted


def reference_edges(rows: list[tuple[int, int, int, str]], max_gap_ns: int) -> set[tuple[int, int]]:
    """Rules 1 to 3, written down row by row."""
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][1], i))
    found = set()
    for place, later in enumerate(order):
        start, _, lane, kind = rows[later]
        ended = [i for i in order[:place] if rows[i][1] <= start]

        def last(candidates: list[int]) -> int | None:
            return max(candidates, key=lambda one: (rows[one][1], order.index(one)), default=None)

        own = last([i for i in ended if rows[i][2:] == (lane, kind)])
        stream = last(
            [i for i in ended if rows[i][3] != kind and (0 if rows[i][3] == "kernel" else rows[i][2]) == stream_of(rows[later])]
        )
        near = last([i for i in ended if rows[i][2:] != (lane, kind)])
        found |= {(i, later) for i in (own, stream) if i is not None}
        if near is not None and start - rows[near][1] <= max_gap_ns and (own is None or rows[near][1] > rows[own][1]):
            since = start - max_gap_ns if own is None else rows[own][1] + 1
            found.add((near, later))
            idle = own is None or start - rows[own][1] > max_gap_ns or rows[near][0] >= rows[own][1]
            for other in {row[2:] for row in rows} - {(lane, kind)} if idle else ():
                joined = last([i for i in ended if rows[i][2:] == other and rows[i][1] >= since])
                found |= {(joined, later)} if joined is not None else set()
    return found


def stream_of(row: tuple[int, int, int, str]) -> int:
    """Kernels of these tests use stream 0 on every queue; a copy names its stream."""
    return 0 if row[3] == "kernel" else row[2]


def longest_to(order: list[int], spent: list[float], found: set[tuple[int, int]]) -> list[float]:
    longest = [0.0] * len(order)
    for later in order:
        longest[later] = spent[later] + max((longest[before] for before, after in found if after == later), default=0)
    return longest


def longest_from(order: list[int], spent: list[float], found: set[tuple[int, int]]) -> list[float]:
    return longest_to(order[::-1], spent, {(after, before) for before, after in found})


def replayed(order: list[int], rows: list[tuple[int, int, int, str]], spent: list[float], found: set[tuple[int, int]]) -> float:
    """The wall time if everything starts as long after its last predecessor as it did."""
    first = min((row[0] for row in rows), default=0)
    ended: dict[int, float] = {}
    for later in order:
        before = [b for b, after in found if after == later]
        delay = rows[later][0] - max((rows[b][1] for b in before), default=first)
        ended[later] = max((ended[b] for b in before), default=0) + delay + spent[later]
    return max(ended.values(), default=0)
