"""The Perfetto trace, read with Perfetto's own schema: tracks, slices that nest, counters, arrows, wavefronts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as TraceMessage
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from rocm_perf_lab.analysis.critical_path import critical_path
from rocm_perf_lab.report.perfetto import PerfettoError, perfetto_trace, write_perfetto
from rocm_perf_lab.report.perfetto_waves import TITLE
from rocm_perf_lab.rocprof.att.model import Column, State, Wave, WaveKey
from rocm_perf_lab.rocprof.merging import merge
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.schema import make_guid
from rocm_perf_lab.rocprof.trace import MemoryCopies, Regions
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.att import thread_trace
from tests.builders.rocpd import GUID, REDUCE, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import DispatchRecord
    from rocm_perf_lab.rocprof.trace import Trace

TARGET = load_target("mi300x")


class Decoded:
    """Trace read with the classes that Perfetto generates from its schema, and checked; unknown fields are errors."""

    def __init__(self, content: bytes) -> None:
        self.tracks: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.slices: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self.counts: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.annotations: dict[str, list[dict[str, int | str]]] = defaultdict(list)
        self.flows: Counter[int] = Counter()
        self._names: dict[int, str] = {}
        self._stacks: dict[int, list[tuple[int, str]]] = defaultdict(list)
        self._last: dict[int, int] = defaultdict(int)
        messages = TraceMessage()
        messages.ParseFromString(content)
        assert messages.IsInitialized()
        assert len(UnknownFieldSet(messages)) == 0
        for packet in messages.packet:
            assert len(UnknownFieldSet(packet)) == 0
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("track_descriptor"):
                self._described(packet.track_descriptor)
            self._names |= {entry.iid: entry.name for entry in packet.interned_data.event_names}
            if packet.HasField("track_event"):
                self._happened(packet.timestamp, packet.track_event)
        assert not any(self._stacks.values())

    def _described(self, descriptor: Any) -> None:
        assert len(UnknownFieldSet(descriptor)) == 0
        assert descriptor.uuid not in self.tracks
        self.tracks[descriptor.uuid] = descriptor.name or "process"
        if descriptor.HasField("parent_uuid"):
            assert descriptor.parent_uuid in self.tracks
            self.parents[descriptor.uuid] = descriptor.parent_uuid

    def _happened(self, time: int, event: Any) -> None:
        assert len(UnknownFieldSet(event)) == 0
        track, name = event.track_uuid, self.tracks[event.track_uuid]
        assert time >= self._last[track]
        self._last[track] = time
        self.flows.update(event.flow_ids)
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            self._stacks[track].append((time, self._names[event.name_iid]))
            rows = {one.name: one.int_value if one.HasField("int_value") else one.string_value for one in event.debug_annotations}
            self.annotations[name].append(rows)
        elif event.type == TrackEvent.TYPE_SLICE_END:
            start, opened = self._stacks[track].pop()
            self.slices[name].append((start, time, opened))
        else:
            assert event.type == TrackEvent.TYPE_COUNTER
            self.counts[name].append((time, event.double_counter_value))


def traced(directory: Path, run: list[DispatchRecord], *, guid: str = GUID) -> Trace:
    path = directory / f"{guid}.db"
    write_database(path, recorded_run(TARGET, run, guid=guid))
    return read_database(path)


def exported(trace: Trace) -> Decoded:
    path = critical_path(trace.dispatches, trace.memory_copies, trace.regions)
    return Decoded(perfetto_trace(trace, path)[0])


def test_every_queue_is_a_track_and_the_critical_path_is_one(tmp_path: Path) -> None:
    found = exported(traced(tmp_path, [dispatch(1000, 1400), dispatch(1100, 1200, kernel=REDUCE, queue=3), dispatch(1400, 1500)]))

    copy = "vecCopy(double*, double*, double*, int, int)"
    assert found.slices["Queue 0"] == [(0, 400, copy), (400, 500, copy)]
    assert found.slices["Queue 3"] == [(100, 200, "reduce")]
    assert found.slices["Critical path"] == [(0, 400, copy), (400, 500, copy)]
    queue = next(uuid for uuid, name in found.tracks.items() if name == "Queue 3")
    assert found.tracks[found.parents[queue]] == "GPU 1 gfx942"
    assert found.tracks[found.parents[found.parents[queue]]] == "process"
    assert found.flows == {1: 2}


def test_overlapping_kernels_of_one_queue_get_separate_tracks(tmp_path: Path) -> None:
    found = exported(traced(tmp_path, [dispatch(0, 10_000), dispatch(5_000, 15_000), dispatch(12_000, 13_000)]))

    assert [(start, end) for start, end, _ in found.slices["Queue 0"]] == [(0, 10_000), (12_000, 13_000)]
    assert [(start, end) for start, end, _ in found.slices["Queue 0, overlapping 2"]] == [(5_000, 15_000)]


def test_counters_are_tracks_that_fall_to_zero(tmp_path: Path) -> None:
    found = exported(traced(tmp_path, [dispatch(10, 20, counters={"SQ_WAVES": 5.0}), dispatch(40, 50)]))

    assert found.counts == {"SQ_WAVES, agent 1": [(0, 5.0), (10, 0.0)]}


def test_copies_and_launches_are_shown_with_an_arrow_to_the_kernel(tmp_path: Path) -> None:
    one, zero = np.array([1]), np.array([0])
    launched = traced(tmp_path, [dispatch(100, 200)])
    trace = replace(
        launched,
        dispatches=replace(launched.dispatches, correlation=np.array([1])),  # that of hipLaunchKernel
        memory_copies=MemoryCopies(zero, zero, one, one * 40, one * 90, -one, zero, -one, zero, -one, directions=("H2D",)),
        regions=Regions(
            np.array([0, 0, 0]), np.array([7, 7, 7]), np.array([0, 1, 2]), np.array([20, 30, 35]), np.array([60, 50, 70]),
            np.array([9, 1, 5]), names=("roctx", "hipLaunchKernel", "crosses"),
        ),
    )  # fmt: skip

    found = exported(trace)

    assert found.slices["Memory copies, stream 0"] == [(20, 70, "H2D")]
    assert found.slices["Host thread 7"] == [(10, 30, "hipLaunchKernel"), (0, 40, "roctx")]
    assert found.slices["Host thread 7, overlapping 2"] == [(15, 50, "crosses")]
    assert sorted(found.flows.values()) == [2, 2]


def test_processes_with_equal_pids_have_separate_tracks(tmp_path: Path) -> None:
    one = traced(tmp_path, [dispatch(0, 10)])
    two = traced(tmp_path, [dispatch(5, 30)], guid=make_guid(1, "other"))

    found = exported(merge([one, two]))

    assert sum(name == "Queue 0" for name in found.tracks.values()) == 2
    assert sum("(process 4242, " in name for name in found.tracks.values()) == 2


def test_a_large_run_keeps_the_longest_slices(tmp_path: Path) -> None:
    trace = traced(tmp_path, [dispatch(100 * i, 100 * i + i + 1) for i in range(20)])
    path = critical_path(trace.dispatches)

    content, left_out = perfetto_trace(trace, path, max_slices=5)

    assert left_out == 15
    assert [end - start for start, end, _ in Decoded(content).slices["Queue 0"]] == [16, 17, 18, 19, 20]


def test_an_empty_run_is_a_trace_without_slices(tmp_path: Path) -> None:
    assert exported(traced(tmp_path, [])).slices == {}


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    trace = traced(tmp_path, [dispatch(0, 10)])
    (tmp_path / "out").write_text("a file where a directory should be")

    with pytest.raises(PerfettoError, match="cannot write the Perfetto trace"):
        write_perfetto(tmp_path / "out" / "x.perfetto-trace", trace, critical_path(trace.dispatches))


# A dispatch from 0 to 0 has no times, and the reader ignores it.
TIMES = st.lists(st.tuples(st.integers(1, 60), st.integers(-3, 20), st.integers(0, 2)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(rows=TIMES)
def test_slices_nest_and_are_complete(rows: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = traced(tmp_path_factory.mktemp("perfetto"), [dispatch(s, s + d, queue=q) for s, d, q in rows])

    found = exported(trace)

    shown = sum(len(slices) for name, slices in found.slices.items() if name.startswith("Queue"))
    assert shown == len(rows)
    assert all(count == 2 for count in found.flows.values())


def test_wavefronts_are_tracks_of_slots_with_their_states(tmp_path: Path) -> None:
    """Two wavefronts follow each other in slot 0; one is in slot 1 of another SIMD. Times are cycles of the thread trace."""
    run = traced(tmp_path, [dispatch(1000, 1400)])
    waves = (
        traced_wave(WaveKey(0, 0, 0, 0), 100, [(State.EXEC, 10), (State.WAIT, 30), (State.EXEC, 5)]),
        traced_wave(WaveKey(0, 0, 0, 1), 150, [(State.STALL, 4), (State.EMPTY, 6), (State.EXEC, 2)]),
        traced_wave(WaveKey(0, 2, 1, 0), 120, [(State.IDLE, 7)]),
    )
    att = replace(thread_trace([("s_endpgm", "")]), waves=waves)
    content, omitted = perfetto_trace(run, critical_path(run.dispatches), att=att)

    found = Decoded(content)

    assert omitted == 0
    assert found.slices["slot 0"] == [(0, 10, "exec"), (10, 40, "wait"), (40, 45, "exec"), (50, 54, "stall"), (60, 62, "exec")]
    assert found.slices["slot 1"] == [(20, 27, "idle")]
    assert [row["wavefront"] for row in found.annotations["slot 0"]] == [0, 0, 0, 1, 1]
    slot = next(uuid for uuid, name in found.tracks.items() if name == "slot 1")
    assert found.tracks[found.parents[slot]] == "SE0 CU1 SIMD2"
    assert found.tracks[found.parents[found.parents[slot]]] == TITLE


def test_a_large_thread_trace_keeps_the_first_wavefronts(tmp_path: Path) -> None:
    run = traced(tmp_path, [dispatch(0, 10)])
    waves = tuple(traced_wave(WaveKey(0, 0, 0, n), 10 * n, [(State.EXEC, 5), (State.WAIT, 5)]) for n in range(4))
    att = replace(thread_trace([("s_endpgm", "")]), waves=waves)

    content, omitted = perfetto_trace(run, critical_path(run.dispatches), att=att, max_slices=4)

    assert (len(Decoded(content).slices["slot 0"]), omitted) == (4, 4)


def traced_wave(key: WaveKey, begin: int, states: list[tuple[State, int]]) -> Wave:
    end = begin + sum(cycles for _, cycles in states)
    return Wave(key, 1, 0, begin, end, np.empty((0, len(Column)), np.int64), np.array(states, np.int64))
