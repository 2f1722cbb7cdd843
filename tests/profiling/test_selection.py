"""Selection of the kernel to analyse: its time counts only while no other kernel runs on the same GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.profiling.selection import exposed_times, other_choice, rank_kernels, select_kernel
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import DispatchRecord
    from rocm_perf_lab.rocprof.trace import Trace

TARGET = load_target("mi300x")


def trace_of(directory: Path, dispatches: list[DispatchRecord]) -> Trace:
    write_database(directory / "x.db", recorded_run(TARGET, dispatches, kernels=(VEC_COPY, REDUCE)))
    return read_database(directory / "x.db")


def test_hidden_time_does_not_count(tmp_path: Path) -> None:
    """`reduce` runs 300 ns, of which 250 ns next to copies: 50 ns are exposed, and 100 + 50 ns of the copies."""
    run = [
        dispatch(0, 100),
        dispatch(100, 400, kernel=REDUCE, queue=1),
        dispatch(150, 300),
        dispatch(300, 450),
    ]
    trace = trace_of(tmp_path, run)

    ranked = rank_kernels(trace)

    assert {kernel.mangled_name: (kernel.total_ns, kernel.exposed_ns) for kernel in ranked} == {
        "_Z7vecCopyPdS_S_ii": (400, 150),
        "reduce": (300, 50),
    }


def test_the_message_names_a_kernel_with_nearly_the_same_time(tmp_path: Path) -> None:
    """Copies run 100 ns alone; `reduce` runs 600 ns, of which 510 ns next to copies."""
    run = [dispatch(0, 100), dispatch(1000, 1600, kernel=REDUCE, queue=1), dispatch(1090, 1500), dispatch(1500, 1600)]
    trace = trace_of(tmp_path, run)
    ranked = rank_kernels(trace)

    chosen = select_kernel(trace, ranked)

    assert (chosen.mangled_name, chosen.exposed_ns) == ("_Z7vecCopyPdS_S_ii", 100)
    assert [kernel.exposed_ns for kernel in ranked if kernel is not chosen] == [90]
    assert "reduce takes 90% of the time of vecCopy" in (other_choice(ranked, chosen) or "")


def test_a_seldom_meant_kernel_is_chosen_with_a_note(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [dispatch(0, 1000, kernel=REDUCE), dispatch(2000, 2010)])
    ranked = rank_kernels(trace)
    chosen = select_kernel(trace, ranked)

    note = other_choice(ranked, chosen, lambda name: name == "reduce")

    assert chosen.mangled_name == "reduce"
    assert note == "vecCopy has the largest exposed time of the other kernels: select it with --kernel"
    assert other_choice(ranked, chosen) is None


@pytest.mark.parametrize("seed", range(5))
def test_exposed_times_agree_with_a_count_per_nanosecond(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    starts = np.sort(random.integers(0, 300, 40))
    lengths = random.integers(0, 30, 40)
    kernels = random.integers(0, 2, 40)
    run = [
        dispatch(int(start), int(start + length), kernel=(VEC_COPY, REDUCE)[kernel], queue=index)
        for index, (start, length, kernel) in enumerate(zip(starts, lengths, kernels, strict=True))
    ]
    trace = trace_of(tmp_path, run)
    found = trace.dispatches
    rows = [np.flatnonzero(np.array([trace.kernels[k].name == name for k in found.kernel])) for name in ("reduce", "vecCopy")]
    rows[1] = np.setdiff1d(np.arange(len(found)), rows[0])
    running = np.zeros((2, 400), int)
    for group, of_group in enumerate(rows):
        for row in of_group:
            running[group, found.start_ns[row] : found.end_ns[row]] += 1

    expected = [int(np.count_nonzero((running[one] > 0) & (running[1 - one] == 0))) for one in range(2)]

    assert exposed_times(trace, rows) == expected
