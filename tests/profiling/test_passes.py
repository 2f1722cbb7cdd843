"""Passes on a device that writes a database for each run, and fails on request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.protocol import DeviceIdentity, DeviceRun, Launch
from rocm_perf_lab.profiling.passes import run_passes
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.att.writer import write_trace
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.code_object import CodeObject
from tests.builders.att import thread_trace
from tests.builders.rocpd import dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TARGET = load_target("mi300x")
LAUNCH = Launch(CodeObject(b"", "gfx942", "", ()), "k", (4096, 1, 1), (256, 1, 1), 0, ())
SQ = [f"SQ_EVENT_{i}" for i in range(9)]


class RecordingDevice:
    """Every run of it takes one ns longer than the one before; every counter is 1."""

    identity = DeviceIdentity("recording", emulated=True, reason="test")

    def __init__(self, *, deterministic: bool, refused: str = "", att_refused: str = "") -> None:
        self.deterministic = deterministic
        self._att_refused = att_refused
        self.requests: list[tuple[int, tuple[str, ...]]] = []
        self._refused = refused

    def run(self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str], att: Path | None = None) -> DeviceRun:
        self.requests.append((runs, tuple(counters)))
        if self._refused in counters:
            raise LabError("Request exceeds the capabilities of the hardware to collect")
        if att is not None and self._att_refused:
            raise LabError(self._att_refused)
        if att is not None:
            write_trace(thread_trace([("s_endpgm", "a.hip:1")], [(1, 0, 0, 4)]), att)
        length = 100 + len(self.requests)
        done = [dispatch(i * 1000, i * 1000 + length, counters=dict.fromkeys(counters, 1.0)) for i in range(runs)]
        write_database(database, recorded_run(TARGET, done))
        return DeviceRun({"out": np.array([len(self.requests)])}, database)


def test_a_deterministic_device_runs_once_with_all_counters(tmp_path: Path) -> None:
    device = RecordingDevice(deterministic=True)

    results = run_passes(device, LAUNCH, directory=tmp_path, runs=10, counters=SQ)

    assert device.requests == [(1, tuple(SQ))]
    assert set(results.trace.counters) == set(SQ)


@pytest.mark.parametrize(
    ("architecture", "names"),
    [
        ("gfx90a", {"TCC_EA_RDREQ_sum", "TCC_EA_RDREQ_32B_sum"}),
        ("gfx942", {"TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_BUBBLE_sum"}),
        ("gfx950", {"TCC_EA0_RDREQ_128B_sum", "TCC_EA0_RDREQ_64B_sum", "TCC_EA0_RDREQ_32B_sum"}),
    ],
)
def test_a_deterministic_device_is_also_asked_for_the_names_of_the_architecture(
    tmp_path: Path, architecture: str, names: set[str]
) -> None:
    device = RecordingDevice(deterministic=True)
    launch = replace(LAUNCH, code_object=replace(LAUNCH.code_object, architecture=architecture))
    reads_of_gfx942 = ["TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_BUBBLE_sum"]

    results = run_passes(device, launch, directory=tmp_path, runs=1, counters=reads_of_gfx942)

    assert set(results.trace.counters) == names | set(reads_of_gfx942)
    assert results.failures == ()


def test_a_gpu_is_timed_without_counters_and_counted_in_passes_that_fit(tmp_path: Path) -> None:
    device = RecordingDevice(deterministic=False)

    results = run_passes(device, LAUNCH, directory=tmp_path, runs=3, counters=SQ)
    profile = build_profile(results.trace, target=TARGET, counter_traces=results.counter_traces)

    assert device.requests == [(3, ()), (1, tuple(SQ[:8])), (1, (SQ[8],))]
    assert profile.durations_ns == (101, 101, 101)
    assert [set(one) for one in profile.counter_passes] == [set(SQ[:8]), {SQ[8]}]
    assert results.outputs["out"].tolist() == [1]


def test_a_failed_counter_pass_is_noted(tmp_path: Path) -> None:
    device = RecordingDevice(deterministic=False, refused="SQ_EVENT_8")

    results = run_passes(device, LAUNCH, directory=tmp_path, runs=1, counters=SQ)
    profile = build_profile(results.trace, target=TARGET, counter_traces=results.counter_traces, failures=results.failures)

    assert [set(one) for one in profile.counter_passes] == [set(SQ[:8])]
    assert profile.notes[0].startswith("counter pass 2 (SQ_EVENT_8) failed: Request exceeds")


def test_a_failed_timing_pass_is_an_error(tmp_path: Path) -> None:
    device = RecordingDevice(deterministic=True, refused="SQ_EVENT_0")

    with pytest.raises(LabError, match="exceeds"):
        run_passes(device, LAUNCH, directory=tmp_path, runs=1, counters=SQ)


def test_an_older_database_is_never_read(tmp_path: Path) -> None:
    run_passes(RecordingDevice(deterministic=True), LAUNCH, directory=tmp_path, runs=1, counters=["SQ_EVENT_0"])

    class SilentDevice(RecordingDevice):
        def run(
            self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str], att: Path | None = None
        ) -> DeviceRun:
            return DeviceRun({}, database)

    with pytest.raises(LabError, match="cannot open the database"):
        run_passes(SilentDevice(deterministic=True), LAUNCH, directory=tmp_path, runs=1, counters=[])


def test_a_deterministic_device_traces_threads_in_its_only_run(tmp_path: Path) -> None:
    device = RecordingDevice(deterministic=True)

    results = run_passes(device, LAUNCH, directory=tmp_path / "db", runs=1, counters=SQ, att=tmp_path / "att")

    assert len(device.requests) == 1
    assert results.att is not None
    assert (results.att.rows[0].hits, results.att_reason) == (1, None)


def test_a_gpu_traces_threads_in_a_separate_run(tmp_path: Path) -> None:
    device = RecordingDevice(deterministic=False)

    results = run_passes(device, LAUNCH, directory=tmp_path / "db", runs=3, counters=SQ[:1], att=tmp_path / "att")

    assert device.requests == [(3, ()), (1, (SQ[0],)), (1, ())]
    assert results.att is not None


def test_a_failed_thread_trace_is_noted_with_its_reason(tmp_path: Path) -> None:
    device = RecordingDevice(deterministic=False, att_refused="the trace decoder is missing")

    results = run_passes(device, LAUNCH, directory=tmp_path / "db", runs=1, counters=[], att=tmp_path / "att")

    assert (results.att, results.att_reason) == (None, "the trace decoder is missing")
    assert results.failures == ("the thread trace failed: the trace decoder is missing",)


def test_an_older_thread_trace_is_never_read(tmp_path: Path) -> None:
    write_trace(thread_trace([("s_endpgm", "")], [(1, 0, 0, 4)]), tmp_path / "att")
    device = RecordingDevice(deterministic=False, att_refused="no")

    run_passes(device, LAUNCH, directory=tmp_path / "db", runs=1, counters=[], att=tmp_path / "att")

    assert not (tmp_path / "att").exists()
