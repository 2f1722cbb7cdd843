"""The Perfetto trace, decoded by the rules of its format: tracks, slices that nest, counters, arrows."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.critical_path import critical_path
from rocm_perf_lab.report.perfetto import PerfettoError, perfetto_trace, write_perfetto
from rocm_perf_lab.rocprof.merging import merge
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.schema import make_guid
from rocm_perf_lab.rocprof.trace import MemoryCopies, Regions
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import GUID, REDUCE, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.recording import DispatchRecord
    from rocm_perf_lab.rocprof.trace import Trace

    Fields = dict[int, list[Any]]

TARGET = load_target("mi300x")
BEGIN, END, COUNTER = 1, 2, 4


def decode(content: bytes) -> Fields:
    """Fields of a protocol buffer message; nested messages stay bytes."""
    fields: Fields = defaultdict(list)
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(content):
        key = varint()
        if key & 7 == 0:
            fields[key >> 3].append(varint())
        elif key & 7 == 1:
            fields[key >> 3].append(content[at : at + 8])
            at += 8
        else:
            assert key & 7 == 2
            size = varint()
            assert at + size <= len(content)
            fields[key >> 3].append(content[at : at + size])
            at += size
    return fields


class Decoded:
    """A trace, checked while it is decoded."""

    def __init__(self, content: bytes) -> None:
        self.tracks: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.slices: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self.counts: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.flows: Counter[int] = Counter()
        names: dict[int, str] = {}
        stacks: dict[int, list[tuple[int, str]]] = defaultdict(list)
        last: dict[int, int] = defaultdict(int)
        for packet in map(decode, decode(content)[1]):
            assert packet[10] == [1]
            for descriptor in map(decode, packet[60]):
                (uuid,) = descriptor[1]
                assert uuid not in self.tracks
                self.tracks[uuid] = descriptor[2][0].decode() if descriptor[2] else "process"
                if descriptor[5]:
                    assert descriptor[5][0] in self.tracks
                    self.parents[uuid] = descriptor[5][0]
            for entry in (decode(name) for interned in packet[12] for name in decode(interned)[2]):
                names[entry[1][0]] = entry[2][0].decode()
            for event in map(decode, packet[11]):
                ((kind,), (track,), (time,)) = event[9], event[11], packet[8]
                assert time >= last[track]
                last[track] = time
                self.flows.update(struct.unpack("<Q", flow)[0] for flow in event[47])
                if kind == BEGIN:
                    stacks[track].append((time, names[event[10][0]]))
                elif kind == END:
                    start, name = stacks[track].pop()
                    self.slices[self.tracks[track]].append((start, time, name))
                else:
                    assert kind == COUNTER
                    self.counts[self.tracks[track]].append((time, struct.unpack("<d", event[44][0])[0]))
        assert not any(stacks.values())


def traced(directory: Path, run: list[DispatchRecord], *, guid: str = GUID) -> Trace:
    path = directory / f"{guid}.db"
    write_database(path, recorded_run(TARGET, run, guid=guid))
    return read_database(path)


def exported(trace: Trace, **options: int) -> Decoded:
    path = critical_path(trace.dispatches, trace.memory_copies, trace.regions)
    return Decoded(perfetto_trace(trace, path, **options)[0])


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


def test_perfettos_classes_read_the_same_trace(tmp_path: Path) -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = traced(tmp_path, [dispatch(10, 20, counters={"SQ_WAVES": 5.0}), dispatch(20, 50, queue=1)])

    read = messages.Trace()
    read.ParseFromString(perfetto_trace(trace, critical_path(trace.dispatches))[0])

    kinds = Counter(packet.track_event.type for packet in read.packet if packet.HasField("track_event"))
    assert kinds == {BEGIN: 4, END: 4, COUNTER: 2}
