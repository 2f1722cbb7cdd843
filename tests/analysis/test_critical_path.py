"""Graphs whose longest chain is known, and random ones against a brute-force reference."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.critical_path import contribution_ns, critical_path, what_if
from rocm_perf_lab.rocprof.trace import Dispatches

Row = tuple[int, int, int]
"""Start, end, queue."""


def dispatches(rows: list[Row], *, process: list[int] | None = None, kernel: list[int] | None = None) -> Dispatches:
    count = len(rows)
    start, end, queue = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    zeros = np.zeros(count, np.int64)
    return Dispatches(
        process=np.array(process if process is not None else zeros, np.int64),
        agent=zeros,
        kernel=np.array(kernel if kernel is not None else zeros, np.int64),
        queue=queue,
        stream=zeros,
        start_ns=start,
        end_ns=end,
        lds_bytes=zeros,
        scratch_bytes=zeros,
        workgroup=np.ones((count, 3), np.int64),
        grid=np.ones((count, 3), np.int64),
    )


def test_one_queue_is_one_chain() -> None:
    path = critical_path(dispatches([(0, 10, 0), (12, 20, 0), (50, 55, 0)]))

    assert path.dispatches == (0, 1, 2)
    assert (path.length_ns, path.busy_ns, path.wall_ns) == (23, 23, 55)
    assert path.slack_ns.tolist() == [0, 0, 0]


def test_two_independent_queues_leave_slack_on_the_shorter() -> None:
    path = critical_path(dispatches([(0, 100, 0), (0, 40, 1)]))

    assert (path.length_ns, path.dispatches) == (100, (0,))
    assert path.slack_ns.tolist() == [0, 60]


def test_work_that_starts_when_another_queue_ends_depends_on_it() -> None:
    # A (queue 0) -> B (queue 1) starts as A ends; C (queue 0) starts as B ends.
    path = critical_path(dispatches([(0, 10, 0), (10, 30, 1), (30, 35, 0)]))

    assert path.edges == ((0, 1), (0, 2), (1, 2))
    assert (path.length_ns, path.dispatches) == (35, (0, 1, 2))


FORK_AND_JOIN: list[Row] = [(0, 10_000, 0), (11_000, 61_000, 1), (11_000, 111_000, 2), (112_000, 122_000, 0)]
"""A (10 us) on queue 0, then B (50 us) and C (100 us) on separate queues, then D (10 us) on queue 0, 1 us in between."""


def test_a_join_waits_for_every_branch() -> None:
    path = critical_path(dispatches(FORK_AND_JOIN))

    # By hand: A -> B -> D lasts 70 us, A -> C -> D 120 us, so B has 50 us of slack and the others none.
    assert set(path.edges) == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)}
    assert (path.length_ns, path.dispatches) == (120_000, (0, 2, 3))
    assert path.slack_ns.tolist() == [0, 50_000, 0, 0]


def test_the_gain_of_a_faster_branch_is_limited_by_the_other() -> None:
    path = critical_path(dispatches(FORK_AND_JOIN))
    only_c = np.array([False, False, True, False])

    # C in 10 us: D waits for B, which ends at 61 us, then 1 us as before, then 10 us.
    assert what_if(path, only_c, 10).wall_ns == 72_000
    assert what_if(path, only_c, 2).wall_ns == 72_000
    assert what_if(path, only_c, 1).wall_ns == path.wall_ns == 122_000


def test_a_join_covers_work_since_the_lane_predecessor() -> None:
    # Queue 1 ended before queue 0 worked last: what waits now has waited for that already.
    path = critical_path(dispatches([(0, 100, 1), (200, 300, 0), (310, 400, 2), (405, 500, 0)]), max_gap_ns=150)

    assert set(path.edges) == {(0, 1), (1, 2), (1, 3), (2, 3)}


def test_a_long_gap_is_not_a_dependence_across_queues() -> None:
    rows = [(0, 10, 0), (20_011, 20_020, 1)]

    assert critical_path(dispatches(rows)).edges == ()
    assert critical_path(dispatches(rows), max_gap_ns=20_001).edges == ((0, 1),)


def test_overlapping_work_of_one_queue_is_independent() -> None:
    path = critical_path(dispatches([(0, 10_000, 0), (5_000, 30_000, 0)]))

    assert path.edges == ()
    assert path.length_ns == 25_000


def test_processes_never_depend_on_each_other() -> None:
    assert critical_path(dispatches([(0, 10, 0), (10, 20, 0)], process=[0, 1])).edges == ()


def test_simultaneous_dispatches_of_zero_duration_form_no_cycle() -> None:
    path = critical_path(dispatches([(5, 5, 0), (5, 5, 0), (5, 9, 0)]))

    assert path.edges == ((0, 1), (1, 2))
    assert path.length_ns == 4


def test_a_dispatch_that_ends_before_it_starts_counts_as_zero() -> None:
    assert critical_path(dispatches([(10, 5, 0), (20, 24, 0)])).length_ns == 4


def test_an_empty_run_has_an_empty_path() -> None:
    path = critical_path(dispatches([]))

    assert (path.length_ns, path.dispatches, path.wall_ns) == (0, (), 0)


def test_kernels_share_the_critical_path_by_their_time_on_it() -> None:
    found = dispatches([(0, 100, 0), (0, 40, 1), (100, 130, 0)], kernel=[7, 8, 9])

    assert contribution_ns(critical_path(found), found) == {7: 100, 9: 30}


ROWS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)).map(lambda t: (t[0], t[0] + t[1], t[2])),
    max_size=9,
)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, max_gap_ns=st.integers(0, 15))
def test_random_graphs_equal_the_reference(rows: list[Row], max_gap_ns: int) -> None:
    found = critical_path(dispatches(rows), max_gap_ns=max_gap_ns, max_overlap_ns=0)

    edges = reference_edges(rows, max_gap_ns)
    assert set(found.edges) == edges
    chains = all_chains(len(rows), edges)
    spent = [sum(rows[d][1] - rows[d][0] for d in chain) for chain in chains]
    assert found.length_ns == max(spent, default=0)
    assert sum(rows[d][1] - rows[d][0] for d in found.dispatches) == found.length_ns
    for dispatch in range(len(rows)):
        longest = max(time for chain, time in zip(chains, spent, strict=True) if dispatch in chain)
        assert found.slack_ns[dispatch] == found.length_ns - longest


@given(rows=ROWS)
def test_the_path_is_no_longer_than_the_busy_time(rows: list[Row]) -> None:
    found = critical_path(dispatches(rows))

    assert found.length_ns <= found.busy_ns <= found.wall_ns


def reference_edges(rows: list[Row], max_gap_ns: int) -> set[tuple[int, int]]:
    """The rule, written down dispatch by dispatch."""
    order = sorted(range(len(rows)), key=lambda d: (rows[d][0], rows[d][1], d))
    start, end, queue = ([row[column] for row in rows] for column in range(3))

    def last_ended(candidates: list[int]) -> int | None:
        return max(candidates, key=lambda candidate: (end[candidate], order.index(candidate)), default=None)

    edges = set()
    for place, later in enumerate(order):
        ended = [d for d in order[:place] if end[d] <= start[later]]
        own = last_ended([d for d in ended if queue[d] == queue[later]])
        other = last_ended([d for d in ended if queue[d] != queue[later]])
        if own is not None:
            edges.add((own, later))
        near = other is not None and start[later] - end[other] <= max_gap_ns
        if other is not None and near and (own is None or end[other] > end[own]):
            since = start[later] - max_gap_ns if own is None else end[own] + 1
            edges.add((other, later))
            idle = own is None or start[later] - end[own] > max_gap_ns or start[other] >= end[own]
            for lane in set(queue) - {queue[later]} if idle else ():
                joined = last_ended([d for d in ended if queue[d] == lane and end[d] >= since])
                edges |= {(joined, later)} if joined is not None else set()
    return edges


def all_chains(count: int, edges: set[tuple[int, int]]) -> list[list[int]]:
    """Every chain of dependent dispatches."""
    chains: list[list[int]] = []

    def extend(chain: list[int]) -> None:
        chains.append(chain)
        for before, after in edges:
            if before == chain[-1]:
                extend([*chain, after])

    for dispatch in range(count):
        extend([dispatch])
    return chains
