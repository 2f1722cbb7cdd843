"""The process that the others wait for in collectives, in runs made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocm_perf_lab.analysis.peer_waits import peer_waits
from rocm_perf_lab.rocprof.trace import Trace, TracedProcess
from tests.analysis.test_application import COMMUNICATION, Row, traced

CALL = 100_000


def run(enters: list[tuple[int, int]], *, machines: tuple[str, str] = ("a", "a")) -> Trace:
    """Return two processes whose n-th collective begins after these times in ns, and ends for both 50,000 ns after the call."""
    rows: list[Row] = [
        (n * CALL + entry, 50_000 - entry, peer, COMMUNICATION)
        for n, call in enumerate(enters)
        for peer, entry in enumerate(call)
    ]
    trace = traced(rows, [])
    agents = tuple(replace(agent, process=number, id=4) for number, agent in enumerate(trace.agents))
    processes = tuple(TracedProcess(str(number), 70 + number, "./train", machine) for number, machine in enumerate(machines))
    return replace(
        trace, agents=agents, processes=processes, dispatches=replace(trace.dispatches, process=trace.dispatches.agent)
    )


@pytest.mark.parametrize("machines", [("a", "a"), ("a", "b")])
def test_the_process_that_enters_last_is_named(machines: tuple[str, str]) -> None:
    found = peer_waits(run([(0, 20_000)] * 18 + [(20_000, 0)] * 2, machines=machines))

    assert found is not None
    assert (found.peers, found.calls, found.waited_ns) == (2, 20, 20_000)
    assert (found.late, found.late_calls, found.late_share) == ("process 71", 0.9, 0.9)


def test_processes_that_are_late_in_turn_are_not_named() -> None:
    found = peer_waits(run([(0, 20_000), (20_000, 0)] * 10))

    assert found is not None
    assert found.late is None
    assert found.waited_ns == 20_000


def test_few_calls_do_not_name_a_process() -> None:
    found = peer_waits(run([(0, 20_000)] * 3))

    assert found is not None
    assert found.late is None


def test_calls_that_do_not_belong_together_are_not_compared() -> None:
    apart = run([(0, 60_000)] * 20)  # the second process begins after the first has ended
    unequal = run([(0, 20_000)] * 20)
    one_less = replace(
        unequal, dispatches=replace(unequal.dispatches, **{k: v[:-1] for k, v in unequal.dispatches.columns().items() if len(v)})
    )

    assert peer_waits(replace(apart, dispatches=replace(apart.dispatches, end_ns=apart.dispatches.start_ns + 10_000))) is None
    assert peer_waits(one_less) is None


def test_one_process_has_no_peers() -> None:
    assert peer_waits(traced([(0, 10, 0, COMMUNICATION)], [])) is None
    assert peer_waits(traced([(0, 10, 0, 0), (0, 10, 1, 0)], [])) is None


def test_gpus_of_one_process_are_told_apart() -> None:
    trace = run([(0, 20_000)] * 20)
    agents = tuple(replace(agent, process=0, id=4 + number) for number, agent in enumerate(trace.agents))

    found = peer_waits(replace(trace, agents=agents))

    assert found is not None
    assert found.late == "process 70 on agent 5"
