"""Interleaved comparison of two code objects, with measured times."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from rocm_perf_lab.replay.comparison import CodeComparisonRequest, compare_code_objects
from rocm_perf_lab.replay.messages import ReplayOutcome
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.target.timing_errors import UNVALIDATED
from tests.builders.captures import scale_capture

if TYPE_CHECKING:
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import CacheState, ReplayRequest
    from rocm_perf_lab.replay.session import ReplaySession


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return open_capture(scale_capture(tmp_path_factory.mktemp("comparison") / "scale", n=64))


@dataclass
class MeasuringSession:
    """Session on a GPU whose clock drops by a hundredth with every request; times in microseconds by code object."""

    times: dict[str | None, float]
    requests: list[ReplayRequest] = field(default_factory=list)

    def run(self, job: ReplayRequest) -> ReplayOutcome:
        self.requests.append(job)
        slower = 1.01 ** len(self.requests)
        samples = (self.times[Path(job.hsaco).name if job.hsaco else None] * slower,) * (job.iterations or 1)
        clocks = {"shader": 2000 / slower}
        return ReplayOutcome(
            samples_us=samples, wall_ms=1, dispatch_ms=1, restored_bytes=0, gpu_agent="gpu", rocm_version="6.4", emulated=False,
            pid=1, kernel="scale", clocks=clocks,
        )  # fmt: skip


def test_a_code_object_of_half_the_time_is_faster_although_the_clock_drifts(capture: Capture) -> None:
    session = MeasuringSession({None: 20.0, "new.hsaco": 10.0})
    request = CodeComparisonRequest(Path("new.hsaco"), pairs=20, batch=5)

    found = compare_code_objects(capture, cast("ReplaySession", session), request, UNVALIDATED)

    assert found.time_kind == "measured"
    assert (found.pairs, len(found.baseline.batches_us), len(found.candidate.batches_us)) == (20, 20, 20)
    assert found.speedup.estimate == pytest.approx(2, rel=0.02)
    assert found.speedup.low is not None and found.speedup.low > 1.9
    assert found.speedup.verdict == "faster"
    assert found.clocks_mhz["shader"].low < found.clocks_mhz["shader"].high < 2000
    timed = session.requests[1:]
    assert {job.iterations for job in timed} == {5}
    assert [job.hsaco is None for job in timed[::2]] != [job.hsaco is None for job in timed[1::2]]
    assert {job.hsaco is None for job in timed[::2]} == {True, False}  # either of a pair runs first


def test_equal_code_objects_are_indistinguishable(capture: Capture) -> None:
    session = MeasuringSession({None: 20.0, "new.hsaco": 20.0})

    found = compare_code_objects(
        capture, cast("ReplaySession", session), CodeComparisonRequest(Path("new.hsaco"), pairs=20), UNVALIDATED
    )

    assert found.speedup.verdict == "indistinguishable"


@pytest.mark.parametrize(("caches", "recopies"), [("warm", False), ("restored", True), ("cold", True)])
def test_memory_is_restored_before_each_dispatch_unless_caches_are_warm(
    capture: Capture, caches: CacheState, recopies: bool
) -> None:
    session = MeasuringSession({None: 20.0, "new.hsaco": 10.0})
    request = CodeComparisonRequest(Path("new.hsaco"), caches=caches, pairs=1)

    compare_code_objects(capture, cast("ReplaySession", session), request, UNVALIDATED)

    assert [(job.caches, job.recopy) for job in session.requests[1:]] == [(caches, recopies)] * 2
