"""JSON of rocprofv3: it contains the same as the database of the same run."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof import json_stream
from rocm_perf_lab.rocprof.dialects import DatabaseError
from rocm_perf_lab.rocprof.discovery import discover
from rocm_perf_lab.rocprof.json_reader import read_results
from rocm_perf_lab.rocprof.loading import load_recording, read_counter_passes
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.trace import NO_TIMES, MemoryCopy
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.recordings import read_passes, read_run
from tests.builders.rocpd import REDUCE, dispatch, recorded_run
from tests.builders.rocprof_json import COUNTERS, GPU, call, copy, process_of, write_json

if TYPE_CHECKING:
    from pathlib import Path

TARGET = load_target("mi300x")
RUN = recorded_run(
    TARGET,
    [
        dispatch(500, 900, kernel=REDUCE, queue=3),
        dispatch(100, 350, counters={"SQ_WAVES": 4.0, "TCC_HIT_max": 9.0}),
        dispatch(1000, 1400, counters={"SQ_WAVES": 8.0}),
    ],
    emulated=False,
)


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    return process_of(RUN)


def changed(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "changed.json"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("characters_at_once", [1, 7, 1 << 20])
def test_json_and_database_of_one_run_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, characters_at_once: int, indent: int | None
) -> None:
    monkeypatch.setattr(json_stream, "_CHARACTERS_AT_ONCE", characters_at_once)
    write_database(tmp_path / "1.db", RUN)
    database = read_database(tmp_path / "1.db")

    (trace,) = read_results(write_json(tmp_path / "1_results.json", process_of(RUN), indent=indent))

    for name, column in database.dispatches.columns().items():
        # Without API calls the correlation ids of a database are not read.
        assert name == "correlation" or getattr(trace.dispatches, name).tolist() == column.tolist(), name
    assert trace.kernels == database.kernels
    assert [trace.counters_of(i) for i in range(3)] == [{"SQ_WAVES": 4.0, "TCC_HIT_max": 9.0}, {}, {"SQ_WAVES": 8.0}]
    assert [trace.counters_of(i) for i in range(3)] == [database.counters_of(i) for i in range(3)]
    assert [(a.id, a.kind, a.name, a.product_name) for a in trace.agents] == [
        (a.id, a.kind, a.name, a.product_name) for a in database.agents
    ]
    assert trace.agents[1].properties["num_xcc"] == database.agents[1].properties["num_xcc"] == 8
    assert (trace.processes[0].pid, trace.processes[0].command) == (4242, "./app --n 4096")
    assert (trace.queues, trace.streams) == (database.queues, database.streams)
    assert trace.provenance == database.provenance
    assert (trace.schema_version, trace.notes) == ("json", ())


def test_profiles_of_both_are_equal(tmp_path: Path) -> None:
    write_database(tmp_path / "1.db", RUN)
    traces = [read_database(tmp_path / "1.db"), read_run([write_json(tmp_path / "1_results.json", process_of(RUN))])]

    database, found = (build_profile(trace, target=TARGET) for trace in traces)

    assert found.durations_ns == database.durations_ns == (250, 400)
    assert found.counter_passes == database.counter_passes
    assert (found.occupancy, found.resources, found.grid) == (database.occupancy, database.resources, database.grid)


def test_an_emulated_run_stays_emulated(tmp_path: Path) -> None:
    emulated = process_of(recorded_run(TARGET, [dispatch(0, 5)], emulated=True))

    assert read_run([write_json(tmp_path / "x.json", emulated)]).provenance.time_kind == "emulated"


def test_calls_copies_and_marks(tmp_path: Path, document: dict[str, Any]) -> None:
    records = document["buffer_records"]
    records["hip_api"] = [call(1, 1, 40, 60, correlation=2, thread=11), call(1, 2, 70, 70, correlation=9, thread=11)]
    records["marker_api"] = [call(2, 1, 10, 2000, correlation=1, thread=11)]
    records["memory_copy"] = [copy(10, 90, 4096, correlation=33, stream=5)]
    document["strings"]["marker_api"] = [{"key": 1, "value": "forward"}]

    trace = read_run([write_json(tmp_path / "x.json", document)])

    regions = trace.regions
    assert [regions.names[int(name)] for name in regions.name] == ["roctx: forward", "hipLaunchKernel"]
    assert (regions.thread.tolist(), regions.correlation.tolist()) == ([11, 11], [1, 2])
    assert list(trace.memory_copies) == [MemoryCopy(0, "MEMORY_COPY_HOST_TO_DEVICE", 4096, 10, 90, None, 5)]
    copies = trace.memory_copies
    assert [trace.agents[int(agent[0])].kind for agent in (copies.source, copies.destination)] == ["CPU", "GPU"]
    assert copies.correlation.tolist() == [33]


def test_rocm_6_has_no_streams_and_other_names_for_lists(tmp_path: Path) -> None:
    document = process_of(RUN, streams=False)
    document["buffer_records"]["kernel_dispatches"] = document["buffer_records"].pop("kernel_dispatch")

    trace = read_run([write_json(tmp_path / "x.json", document)])

    assert trace.dispatches.duration_ns.tolist() == [250, 400, 400]
    assert trace.dispatches.stream.tolist() == [0, 0, 0]


def test_without_a_kernel_trace_dispatches_are_those_of_the_counters(tmp_path: Path) -> None:
    trace = read_run([write_json(tmp_path / "x.json", process_of(RUN, kernel_trace=False))])

    assert trace.dispatches.duration_ns.tolist() == [250, 400]
    assert [trace.counters_of(i)["SQ_WAVES"] for i in range(2)] == [4.0, 8.0]
    assert trace.notes == ()


def test_counters_of_rocm_6_2_have_no_times(tmp_path: Path) -> None:
    document = process_of(RUN, kernel_trace=False, times=False)
    for record in document["callback_records"]["counter_collection"]:
        del record["dispatch_data"]["start_timestamp"], record["dispatch_data"]["end_timestamp"]

    trace = read_run([write_json(tmp_path / "x.json", document)])

    assert [trace.counters_of(i)["SQ_WAVES"] for i in range(2)] == [4.0, 8.0]
    assert trace.notes == (NO_TIMES,)


def test_passes_of_kernel_replay_stay_separate(tmp_path: Path) -> None:
    """All passes of a dispatch have one id; a counter that each of them collects is not counted twice."""
    counters = {"SQ_WAVES": 4.0, "GRBM_GUI_ACTIVE": 800.0, "TCC_HIT_sum": 3.0}
    run = recorded_run(TARGET, [dispatch(100, 350, counters=counters)], emulated=False)
    groups = [["SQ_WAVES", "GRBM_GUI_ACTIVE"], ["GRBM_GUI_ACTIVE", "TCC_HIT_sum"]]
    replayed = process_of(run, kernel_trace=False, groups=groups)
    replayed["callback_records"]["counter_collection"][1]["records"][0]["value"] = 900.0

    trace = read_run([write_json(tmp_path / "x.json", replayed)])

    assert trace.dispatches.duration_ns.tolist() == [250]
    assert trace.counters_of(0) == counters
    assert build_profile(trace, target=TARGET).counter_passes == (
        {"SQ_WAVES": 4.0, "GRBM_GUI_ACTIVE": 800.0},
        {"GRBM_GUI_ACTIVE": 900.0, "TCC_HIT_sum": 3.0},
    )


def test_replayed_dispatches_of_several_processes_are_merged_by_pass(tmp_path: Path) -> None:
    groups = [["SQ_WAVES"], ["SQ_WAVES", "TCC_HIT_sum"]]
    for pid, count in ((1, 4.0), (2, 5.0)):
        run = recorded_run(
            TARGET, [dispatch(100 * pid, 150 * pid, counters={"SQ_WAVES": count, "TCC_HIT_sum": 1.0})], emulated=False
        )
        process = process_of(run, groups=groups if pid == 2 else ())
        process["metadata"] |= {"pid": pid}
        write_json(tmp_path / f"{pid}_results.json", process)

    trace = read_run([tmp_path])

    assert trace.counters["SQ_WAVES"].value.tolist() == [4.0, 5.0]
    assert [{name: c.dispatch.tolist() for name, c in counters.items()} for counters in trace.replays] == [
        {"SQ_WAVES": [1], "TCC_HIT_sum": [1]}
    ]


def test_instances_are_combined(tmp_path: Path, document: dict[str, Any]) -> None:
    records = document["callback_records"]["counter_collection"][0]["records"]
    records += [{"counter_id": {"handle": COUNTERS}, "value": 6}, {"counter_id": {"handle": COUNTERS + 1}, "value": 3}]

    assert read_run([write_json(tmp_path / "x.json", document)]).counters_of(0) == {"SQ_WAVES": 10.0, "TCC_HIT_max": 9.0}


def test_values_without_owner_are_ignored_with_a_note(tmp_path: Path, document: dict[str, Any]) -> None:
    records = document["callback_records"]["counter_collection"]
    records[0]["records"].append({"counter_id": {"handle": 1}, "value": 1.0})
    records[1]["dispatch_data"]["dispatch_info"]["dispatch_id"] = 99

    trace = read_run([write_json(tmp_path / "x.json", document)])

    assert trace.notes == (
        "1 counter values belong to counters that the document does not describe; ignored",
        "1 counter values belong to dispatches missing in the kernel trace; ignored",
    )
    assert trace.counters["SQ_WAVES"].value.tolist() == [4.0]


def test_nonstandard_json_of_rapidjson_is_read(tmp_path: Path, document: dict[str, Any]) -> None:
    text = json.dumps({"rocprofiler-sdk-tool": [document]}).replace('"value": 8.0', '"value": NaN')
    raw = text.encode().replace(b"vecCopy(double*", b"vec\x8dCopy\x01(double*")
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + raw)

    trace = read_run([path])

    assert trace.kernels[0].name.startswith("vec\ufffdCopy\x01(")
    assert trace.counters["SQ_WAVES"].value.tolist() == [4.0]
    assert trace.notes == ("SQ_WAVES: 1 dispatches have a value that is not a number; ignored",)


def test_handles_may_be_larger_than_signed_numbers(tmp_path: Path, document: dict[str, Any]) -> None:
    for record in document["buffer_records"]["kernel_dispatch"]:
        record["dispatch_info"]["queue_id"] = {"handle": 2**64 - 16}
        record["dispatch_info"]["agent_id"] = {"handle": 2**63 + 5}
    document["agents"][1]["id"] = {"handle": 2**63 + 5}

    trace = read_run([write_json(tmp_path / "x.json", document)])

    assert set(trace.dispatches.queue.tolist()) == {-16}
    assert set(trace.dispatches.agent.tolist()) == {1}


def test_an_undescribed_kernel_is_named_by_number(tmp_path: Path, document: dict[str, Any]) -> None:
    document["buffer_records"]["kernel_dispatch"][0]["dispatch_info"]["kernel_id"] = 0

    trace = read_run([write_json(tmp_path / "x.json", document)])

    assert [trace.kernels[int(kernel)].name.partition("(")[0] for kernel in trace.dispatches.kernel] == [
        "vecCopy", "unknown_kernel_0", "vecCopy",
    ]  # fmt: skip


def test_a_process_each_in_one_document_or_in_several(tmp_path: Path) -> None:
    other = process_of(recorded_run(TARGET, [dispatch(2000, 2100)], emulated=False))
    other["metadata"] |= {"pid": 4243, "init_time": 7}
    first = process_of(RUN)
    together = read_run([write_json(tmp_path / "one" / "both.json", first, other)])
    write_json(tmp_path / "two" / "1_results.json", first)
    write_json(tmp_path / "two" / "2_results.json", other)

    apart = read_run([tmp_path / "two"])

    for trace in (together, apart):
        assert [process.pid for process in trace.processes] == [4242, 4243]
        assert trace.dispatches.process.tolist() == [0, 0, 0, 1]
        assert trace.dispatches.duration_ns.tolist() == [250, 400, 400, 100]


def test_passes_of_one_directory_are_separated(tmp_path: Path) -> None:
    write_json(tmp_path / "pass_1" / "1_results.json", process_of(RUN))
    later = recorded_run(TARGET, [dispatch(5000, 5100, counters={"TCC_HIT_sum": 3.0})], emulated=False)
    second = process_of(later, kernel_trace=False)
    second["metadata"] |= {"pid": 4243, "init_time": 4000}
    write_json(tmp_path / "pass_2" / "2_results.json", second)

    times, (counted,) = read_passes([tmp_path])

    assert len(times.dispatches) == 3
    assert counted.counters_of(0) == {"TCC_HIT_sum": 3.0}
    assert [set(found.counters) for found in read_counter_passes(tmp_path)] == [{"SQ_WAVES", "TCC_HIT_max"}, {"TCC_HIT_sum"}]


def test_files_are_found_by_content_compressed_or_not(tmp_path: Path, document: dict[str, Any]) -> None:
    write_json(tmp_path / "whatever", document)
    (tmp_path / "x.json").write_text('{"traceEvents": []}')
    (tmp_path / "y.json.gz").write_bytes(gzip.compress((tmp_path / "whatever").read_bytes()))

    assert [path.name for path in discover([tmp_path]).json_results] == ["whatever", "y.json.gz"]
    assert len(read_run([tmp_path / "y.json.gz"]).dispatches) == 3
    # Equal content counts once, packed or not.
    recording = load_recording([tmp_path])
    assert [len(run.trace.dispatches) for run in recording.runs] == [3]
    assert recording.notes == (
        "y.json.gz has the same dispatches as whatever and is not used",
        "x.json is not used: this is a trace in Chrome's format (written by rocprof, PyTorch and Perfetto tools)",
    )


def test_json_says_more_than_csv_and_less_than_a_database(tmp_path: Path, document: dict[str, Any]) -> None:
    write_json(tmp_path / "1_results.json", document)
    (tmp_path / "1_kernel_trace.csv").write_text("Kind\n")
    assert read_run([tmp_path]).schema_version == "json"

    write_database(tmp_path / "1_results.db", RUN)
    assert read_run([tmp_path]).schema_version == "3"
    assert read_run([tmp_path / "1_results.db", tmp_path / "1_results.json"]).schema_version == "3"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"traceEvents": [{"ph": "X"}]}', "a trace in Chrome's format"),
        ('{"rocprofiler-sdk-json-tool": {}}', "the test tool of rocprofiler-sdk"),
        ('{"schema_version": "1.0", "kernel": {}}', "a document of rocm-perf-lab"),
        ('{"jobs": [], "x": 1}', "not of rocprofv3; its keys: jobs, x"),
        ('{"rocprofiler-sdk-tool": []}', "contains no process"),
        ('{"rocprofiler-sdk-tool": [{"agents": 3}]}', r"3 instead of \["),
        ('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}', "damaged or truncated: the end instead of"),
        ('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1', "damaged or truncated"),
        ('{"rocprofiler-sdk-tool": [{"metadata": tru', "damaged or truncated"),
        ('{"rocprofiler-sdk-tool": [{"metadata": "abc', "damaged or truncated: Unterminated string"),
        ('{"rocprofiler-sdk-tool": [{"metadata": nothing}]}' + " " * 4096, "Expecting value, at character 39"),
        ('{"rocprofiler-sdk-tool": [] "x": 1}', r'" instead of , or }'),
        ('{"rocprofiler-sdk-tool": [{}]} {}', "unexpected content after the end"),
        ("{3: 4}", "a key is not text"),
        ('{"rocprofiler-sdk-tool": ' + "[" * 100_000, "damaged or truncated"),
        (
            '{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [{"size": 1}]}}]}',
            "kernel_dispatch.*no dispatch_info",
        ),
        ('{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [7]}}]}', "kernel_dispatch differs from rocprofv3"),
        ('{"rocprofiler-sdk-tool": [{"counters": [{"id": "x", "name": "y"}]}]}', "a record of counters differs from"),
        ('{"x": ' + "9" * 5000 + "}", "damaged or truncated"),
    ],
)
def test_unreadable_documents_are_refused_with_a_description(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(DatabaseError, match=what):
        read_run([changed(tmp_path, text)])


def test_every_prefix_of_a_document_is_refused_as_truncated(tmp_path: Path) -> None:
    text = json.dumps({"rocprofiler-sdk-tool": [process_of(recorded_run(TARGET, [dispatch(0, 5)]))]})
    for length in range(30, len(text), 97):
        with pytest.raises(DatabaseError, match="damaged or truncated"):
            read_run([changed(tmp_path, text[:length])])


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_are_a_clear_error_or_do_not_matter(tmp_path: Path, seed: int) -> None:
    document = process_of(RUN, groups=[["SQ_WAVES"], ["SQ_WAVES", "TCC_HIT_max"]])
    document["buffer_records"]["memory_copy"] = [copy(10, 90, 4096, correlation=33, stream=5)]
    document["buffer_records"]["marker_api"] = [call(2, 1, 40, 69, correlation=3, thread=11)]
    whole = write_json(tmp_path / "x.json", document).read_bytes()
    random = Random(seed)
    for _ in range(40):
        flipped = bytearray(whole)
        flipped[random.randrange(len(flipped))] = random.randrange(256)
        (tmp_path / "x.json").write_bytes(flipped)
        with suppress(LabError):
            build_profile(read_run([tmp_path / "x.json"]), target=TARGET)


@pytest.mark.parametrize("odd", ["x", [1], {"handle": None}, math.nan, math.inf], ids=str)
@pytest.mark.parametrize(
    ("place", "key"),
    [
        (("kernel_symbols", 1), "kernel_id"),
        (("kernel_symbols", 2), "sgpr_count"),
        (("agents", 1), "node_id"),
        (("agents", 1), "id"),
        (("metadata",), "pid"),
        (("counters", 0), "id"),
        (("callback_records", "counter_collection", 0), "replay_pass"),
        (("callback_records", "counter_collection", 0, "records", 0), "value"),
        (("buffer_records", "kernel_dispatch", 0, "dispatch_info"), "kernel_id"),
        (("buffer_records", "kernel_dispatch", 0), "correlation_id"),
    ],
)
def test_values_of_another_kind_are_a_clear_error_or_do_not_matter(
    tmp_path: Path, document: dict[str, Any], place: tuple[str | int, ...], key: str, odd: object
) -> None:
    target: Any = document
    for step in place:
        target = target[step]
    target[key] = odd

    with suppress(LabError):
        build_profile(read_run([write_json(tmp_path / "x.json", document)]), target=TARGET)


@pytest.mark.parametrize("name", ["agent", "time"])
def test_records_that_contradict_the_rest_are_refused(tmp_path: Path, document: dict[str, Any], name: str) -> None:
    record = document["buffer_records"]["kernel_dispatch"][0]
    if name == "agent":
        record["dispatch_info"]["agent_id"] = {"handle": GPU + 1}
    else:
        record["start_timestamp"] = "soon"

    with pytest.raises(DatabaseError, match=f"agent {GPU + 1}" if name == "agent" else "kernel_dispatch differs from rocprofv3"):
        read_run([write_json(tmp_path / "x.json", document)])


def test_a_truncated_compressed_file_is_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    whole = gzip.compress(write_json(tmp_path / "x", document).read_bytes())
    (tmp_path / "x.json.gz").write_bytes(whole[:-200])

    with pytest.raises(DatabaseError, match="cannot be decompressed"):
        read_results(tmp_path / "x.json.gz")


def test_a_missing_json_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no such file or directory"):
        read_run([tmp_path / "gone_results.json"])


def test_a_run_without_dispatches_is_read(tmp_path: Path) -> None:
    trace = read_run([write_json(tmp_path / "x.json", process_of(recorded_run(TARGET, [])))])

    assert (len(trace.dispatches), len(trace.memory_copies), trace.counters) == (0, 0, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(
    value=st.dictionaries(st.text(max_size=5), JSON, max_size=4), at_once=st.integers(1, 40), indent=st.sampled_from([None, 2])
)
def test_streaming_matches_parsing_the_whole_document(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any], at_once: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    whole, kept = json_stream._CHARACTERS_AT_ONCE, {}
    json_stream._CHARACTERS_AT_ONCE = at_once
    try:
        with path.open("rb") as source:
            stream = json_stream.JsonStream(source, path)
            for index, key in enumerate(stream.members()):
                if index % 2:
                    stream.skip()
                elif stream.peek() == "[":
                    kept[key] = list(stream.values())
                else:
                    kept[key] = stream.value()
            assert stream.peek() == ""
    finally:
        json_stream._CHARACTERS_AT_ONCE = whole
        shutil.rmtree(path.parent)

    assert kept == {key: inner for index, (key, inner) in enumerate(value.items()) if index % 2 == 0}


def test_memory_use_is_that_of_the_columns(tmp_path: Path, document: dict[str, Any]) -> None:
    import tracemalloc

    (one, *_) = document["buffer_records"]["kernel_dispatch"]
    document["buffer_records"]["kernel_dispatch"] = []
    begin, end = json.dumps({"rocprofiler-sdk-tool": [document]}).split('"kernel_dispatch": []')
    count = 40_000
    records = (json.dumps(one, indent=1).replace('"dispatch_id": 1', f'"dispatch_id": {n}') for n in range(1, count + 1))
    path = changed(tmp_path, f'{begin}"kernel_dispatch": [{",".join(records)}]{end}')
    tracemalloc.start()
    try:
        (trace,) = read_results(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(trace.dispatches) == count
    assert peak < (4 << 20) + 400 * count < path.stat().st_size
    assert np.all(trace.dispatches.end_ns - trace.dispatches.start_ns == 400)
