"""Overview of a run: idle time per GPU, exposed communication and copies, with values by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.application import application_overview
from rocm_perf_lab.analysis.critical_path import critical_path
from rocm_perf_lab.analysis.timeline import timeline
from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.rocprof.loading import load_recording
from tests.builders.rocpd_by_hand import Database

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.analysis.application import ApplicationOverview

GUID = "00000000-0000-4000-8000-000000000001"
GEMM, NCCL, SOFTMAX = 1, 2, 3


def overview(
    directory: Path, *dispatches: tuple[int, int, int, int], copies: tuple[tuple[int, int, int], ...] = ()
) -> ApplicationOverview:
    """Return the overview of dispatches (kernel, start, end, agent) and copies to an agent (start, end, agent)."""
    with Database(directory / "x.db") as database:
        database.process(GUID, 100)
        database.agent(0, "CPU", {"name": "EPYC"})
        for agent in (4, 5):
            database.agent(agent)
        for kernel, name in ((GEMM, "gemm"), (NCCL, "ncclDevKernel_AllReduce_Sum"), (SOFTMAX, "softmax")):
            database.kernel(kernel, name)
        database.text(1, "MEMORY_COPY_HOST_TO_DEVICE")
        for number, (kernel, start, end, agent) in enumerate(dispatches, start=1):
            database.dispatch(number, kernel, start, end, agent=agent, queue=None, stream=None)
        for start, end, agent in copies:
            database.copy(start, end, 1000, name=1, source=0, destination=agent, stream=None)
    trace = load_recording([directory / "x.db"]).runs[0].trace
    path = critical_path(trace.dispatches, trace.memory_copies, trace.regions)
    return application_overview(trace, rank_kernels(trace), path, timeline(path.graph, trace.regions), {})


def test_two_gpus_with_communication_behind_work(tmp_path: Path) -> None:
    found = overview(
        tmp_path,
        (GEMM, 0, 10_000, 4), (NCCL, 5_000, 20_000, 4),  # 5 us of the communication are hidden
        (GEMM, 0, 20_000, 5),
        copies=((30_000, 40_000, 4), (15_000, 25_000, 4)),
    )  # fmt: skip

    assert found.wall_ns == 40_000
    assert [(gpu.dispatches, gpu.busy_ns) for gpu in found.gpus] == [(2, 35_000), (1, 20_000)]
    assert found.idle_share == pytest.approx((5_000 / 40_000 + 20_000 / 40_000) / 2)
    by_name = {kernel.name: kernel for kernel in found.kernels}
    gemm, nccl = by_name["gemm"], by_name["ncclDevKernel_AllReduce_Sum"]
    assert (gemm.calls, gemm.total_ns, gemm.active_ns, gemm.exposed_ns) == (2, 30_000, 30_000, 25_000)
    assert (nccl.total_ns, nccl.exposed_ns, nccl.kind) == (15_000, 10_000, "communication")
    assert found.communication is not None
    assert (found.communication.count, found.communication.active_ns, found.communication.exposed_ns) == (1, 15_000, 10_000)
    assert found.copies is not None
    assert (found.copies.count, found.copies.size_bytes) == (2, 2000)
    assert (found.copies.active_ns, found.copies.exposed_ns) == (20_000, 15_000)


def test_a_run_without_communication_and_copies(tmp_path: Path) -> None:
    found = overview(tmp_path, (GEMM, 0, 10_000, 4))

    assert (found.communication, found.copies, found.idle_share, found.longest_gap_ns) == (None, None, 0.0, None)
