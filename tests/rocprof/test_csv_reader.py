"""The CSV files of rocprofv3, with the columns that its releases write."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof import csv_tables
from rocm_perf_lab.rocprof.csv_columns import CsvError
from rocm_perf_lab.rocprof.csv_reader import read_csv
from rocm_perf_lab.rocprof.discovery import DiscoveryError
from rocm_perf_lab.rocprof.loading import load_recording
from rocm_perf_lab.rocprof.trace import NO_TIMES
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.recordings import read_run
from tests.builders.rocpd import dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KERNEL = """
    Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name Correlation_Id Start_Timestamp End_Timestamp
    LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Workgroup_Size_X Workgroup_Size_Y Workgroup_Size_Z
    Grid_Size_X Grid_Size_Y Grid_Size_Z
""".split()  # noqa: SIM905
COUNTER = """
    Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id Kernel_Name Workgroup_Size
    LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count Counter_Name Counter_Value Start_Timestamp End_Timestamp
""".split()  # noqa: SIM905
COPY = """
    Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id Correlation_Id Start_Timestamp End_Timestamp
""".split()  # noqa: SIM905
API = ["Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp"]
AGENT = ["Node_Id", "Logical_Node_Id", "Agent_Type", "Cu_Count", "Num_Xcc", "Name", "Product_Name"]
ROW = {
    "Kind": "KERNEL_DISPATCH", "Agent_Id": "Agent 1", "Queue_Id": 1, "Stream_Id": 2, "Thread_Id": 99, "Kernel_Id": 7,
    "Kernel_Name": "vecCopy(double*, int)", "LDS_Block_Size": 512, "Scratch_Size": 0, "VGPR_Count": 8, "Accum_VGPR_Count": 4,
    "SGPR_Count": 16, "Workgroup_Size_X": 256, "Workgroup_Size_Y": 1, "Workgroup_Size_Z": 1, "Grid_Size_X": 1024,
    "Grid_Size_Y": 2, "Grid_Size_Z": 1, "Grid_Size": 2048, "Workgroup_Size": 256, "Process_Id": 7,
}  # fmt: skip


@pytest.fixture(autouse=True, params=[False, True], ids=["python", "arrow"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are read by Arrow: with the same result."""
    monkeypatch.setattr(csv_tables, "_ARROW_PAYS_FROM_BYTES", 0 if request.param else 1 << 60)


def write(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", newline="") as target:
        writer = csv.writer(target, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(columns)
        writer.writerows([[row[column] for column in columns] for row in rows])
    return path


def kernel(dispatch_id: int, start: int, end: int, **changed: object) -> dict[str, object]:
    times = {"Dispatch_Id": dispatch_id, "Correlation_Id": dispatch_id + 10, "Start_Timestamp": start, "End_Timestamp": end}
    return {**ROW, **times, **changed}


def counter(dispatch_id: int, name: str, value: object) -> dict[str, object]:
    return {**kernel(dispatch_id, 1000, 2000), "Counter_Name": name, "Counter_Value": value}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(tmp_path / "42_kernel_trace.csv", KERNEL, [kernel(2, 500, 900), kernel(1, 100, 350, Kernel_Name="reduce.kd")])
    return tmp_path


def test_a_kernel_trace_is_read(directory: Path) -> None:
    trace = read_csv([directory])

    found = trace.dispatches
    assert [trace.kernels[k].name for k in found.kernel] == ["reduce", "vecCopy(double*, int)"]
    assert (found.start_ns.tolist(), found.duration_ns.tolist()) == ([100, 500], [250, 400])
    assert (found.queue.tolist(), found.stream.tolist(), found.correlation.tolist()) == ([1, 1], [2, 2], [11, 12])
    assert (found.workgroup.tolist()[0], found.grid.tolist()[0]) == ([256, 1, 1], [1024, 2, 1])
    assert trace.kernels[0].arch_vgpr_count == 8
    assert (trace.processes[0].pid, trace.schema_version) == (42, "csv")
    assert trace.provenance.time_kind == "measured"


def test_agents_are_described_by_agent_info(directory: Path) -> None:
    rows = [
        {
            "Node_Id": 0, "Logical_Node_Id": 0, "Agent_Type": "CPU", "Cu_Count": 0, "Num_Xcc": 0, "Name": "EPYC",
            "Product_Name": "EPYC",
        },
        {
            "Node_Id": 4, "Logical_Node_Id": 1, "Agent_Type": "GPU", "Cu_Count": 304, "Num_Xcc": 8, "Name": "gfx942",
            "Product_Name": "AMD Instinct MI300X",
        },
    ]  # fmt: skip
    write(directory / "42_agent_info.csv", AGENT, rows)

    (agent,) = read_csv([directory]).agents

    assert (agent.id, agent.kind, agent.name, agent.properties["cu_count"]) == (4, "GPU", "gfx942", 304)


@pytest.mark.parametrize("label", ["GPU 0", "4"])
def test_agents_are_found_in_any_numbering(tmp_path: Path, label: str) -> None:
    write(tmp_path / "agent_info.csv", ["Node_Id", "Agent_Type", "Name"], [{"Node_Id": 4, "Agent_Type": "GPU", "Name": "gfx942"}])
    write(tmp_path / "kernel_trace.csv", KERNEL, [kernel(1, 0, 1, Agent_Id=label)])

    assert read_csv([tmp_path]).agents[0].name == "gfx942"


def test_counters_are_joined_by_dispatch(directory: Path) -> None:
    rows = [counter(1, "SQ_WAVES", "16.000000"), counter(2, "SQ_WAVES", "nan"), counter(9, "SQ_WAVES", "1.000000")]
    write(directory / "42_counter_collection.csv", COUNTER, rows)

    trace = read_csv([directory])

    assert [trace.counters_of(i) for i in range(2)] == [{"SQ_WAVES": 16.0}, {}]
    assert trace.notes == (
        "1 counter values belong to dispatches missing in the kernel trace; ignored",
        "SQ_WAVES: 1 dispatches have a value that is not a number; ignored",
    )


def test_dispatches_are_read_from_counters_alone(tmp_path: Path) -> None:
    write(tmp_path / "x_counter_collection.csv", COUNTER, [counter(1, "SQ_WAVES", "8.0"), counter(1, "GRBM_COUNT", "5.0")])

    trace = read_csv([tmp_path / "x_counter_collection.csv"])

    assert trace.dispatches.duration_ns.tolist() == [1000]
    assert trace.dispatches.grid.tolist() == [[2048, 1, 1]]
    assert trace.counters_of(0) == {"GRBM_COUNT": 5.0, "SQ_WAVES": 8.0}
    assert trace.notes[0].startswith("there is no kernel trace")


def test_copies_and_api_calls_are_read(directory: Path) -> None:
    copied = {"Kind": "MEMORY_COPY", "Direction": "MEMORY_COPY_HOST_TO_DEVICE", "Stream_Id": 2, "Source_Agent_Id": "Agent 0"}
    copied |= {"Destination_Agent_Id": "Agent 1", "Correlation_Id": 5, "Start_Timestamp": 10, "End_Timestamp": 90}
    call = {"Domain": "HIP_RUNTIME_API", "Function": "hipLaunchKernel", "Process_Id": 42, "Thread_Id": 42, "Correlation_Id": 11}
    write(directory / "42_memory_copy_trace.csv", COPY, [copied])
    write(directory / "42_hip_api_trace.csv", API, [{**call, "Start_Timestamp": 90, "End_Timestamp": 95}])

    trace = read_csv([directory])

    assert [(copy.direction, copy.stream) for copy in trace.memory_copies] == [("MEMORY_COPY_HOST_TO_DEVICE", 2)]
    assert trace.memory_copies.destination.tolist() == trace.dispatches.agent.tolist()[:1]
    assert (trace.regions.names, trace.regions.correlation.tolist()) == (("hipLaunchKernel",), [11])


def test_older_releases_lack_columns(tmp_path: Path) -> None:
    older = [column for column in KERNEL if column not in {"Stream_Id", "Accum_VGPR_Count", "Correlation_Id"}]
    write(tmp_path / "kernel_trace.csv", older, [kernel(1, 0, 5)])

    trace = read_csv([tmp_path])

    assert (trace.dispatches.stream.tolist(), trace.dispatches.correlation.tolist()) == ([0], [-1])
    assert trace.kernels[0].accum_vgpr_count == 0


def test_names_with_commas_quotes_and_newlines(tmp_path: Path) -> None:
    name = 'void f<int, "a",\n std::pair<float, 2>>(int*, char const*)'
    write(tmp_path / "kernel_trace.csv", KERNEL, [kernel(1, 0, 5, Kernel_Name=name), kernel(2, 6, 9)])

    trace = read_csv([tmp_path])

    assert [trace.kernels[k].name for k in trace.dispatches.kernel] == [name, "vecCopy(double*, int)"]


def test_instances_in_separate_rows_are_summed(tmp_path: Path) -> None:
    dimensions = [*COUNTER, "DIMENSION_XCC"]
    rows = [{**counter(1, "SQ_WAVES", f"{value}.000000"), "DIMENSION_XCC": xcc} for xcc, value in enumerate((3, 4))]
    rows += [{**counter(1, "TCC_HIT_max", f"{value}.000000"), "DIMENSION_XCC": xcc} for xcc, value in enumerate((3, 4))]
    write(tmp_path / "counter_collection.csv", dimensions, rows)

    assert read_csv([tmp_path]).counters_of(0) == {"SQ_WAVES": 7.0, "TCC_HIT_max": 4.0}


def test_columns_in_any_order_with_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "kernel_trace.csv", [*reversed(KERNEL), "Extra"], [{**kernel(1, 5, 9), "Extra": "?"}])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    trace = read_csv([tmp_path])

    assert (trace.dispatches.grid.tolist(), trace.dispatches.duration_ns.tolist()) == ([[1024, 2, 1]], [4])


def test_an_agent_without_numeric_node_is_agent_0(tmp_path: Path) -> None:
    write(
        tmp_path / "agent_info.csv", ["Node_Id", "Agent_Type", "Name"], [{"Node_Id": "?", "Agent_Type": "GPU", "Name": "gfx942"}]
    )
    write(tmp_path / "kernel_trace.csv", KERNEL, [kernel(1, 0, 1, Agent_Id="GPU 0")])

    assert [(agent.id, agent.name) for agent in read_csv([tmp_path]).agents] == [(0, "gfx942")]


def test_processes_in_one_table_of_counters_are_read_separately(tmp_path: Path) -> None:
    rows = [{**counter(1, "SQ_WAVES", str(pid)), "Process_Id": pid} for pid in (7, 8)]
    write(tmp_path / "counter_collection.csv", COUNTER, rows)

    trace = read_csv([tmp_path])

    assert [process.pid for process in trace.processes] == [7, 8]
    assert [trace.counters_of(position) for position in range(2)] == [{"SQ_WAVES": 7.0}, {"SQ_WAVES": 8.0}]


def test_processes_that_a_kernel_trace_does_not_separate_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "kernel_trace.csv", KERNEL, [kernel(1, 200, 300)])
    write(tmp_path / "counter_collection.csv", COUNTER, [{**counter(1, "C", "1"), "Process_Id": pid} for pid in (7, 8)])

    assert "several processes" in failing(tmp_path)


def test_processes_with_equal_ids_stay_separate(directory: Path) -> None:
    write(directory / "43_kernel_trace.csv", KERNEL, [kernel(1, 200, 300)])

    trace = read_csv([directory])

    assert [process.pid for process in trace.processes] == [42, 43]
    assert trace.dispatches.process.tolist() == [0, 1, 0]


def test_a_profile_is_built_without_agents(directory: Path) -> None:
    assert build_profile(read_csv([directory]), target=load_target("mi300x")).kernel.longest_ns == 400


def test_a_run_is_read_by_the_content_of_its_directory(directory: Path) -> None:
    assert read_run([directory]).schema_version == "csv"
    assert read_run([directory / "42_kernel_trace.csv"]).schema_version == "csv"

    write_database(directory / "a.db", recorded_run(load_target("mi300x"), [dispatch(0, 1)]))

    # Runs are in the order of their files.
    assert [run.trace.schema_version for run in load_recording([directory]).runs] == ["csv", "3"]
    (directory / "empty").mkdir()
    with pytest.raises(DiscoveryError, match="there is no recording that can be analysed; found: no files"):
        read_run([directory / "empty"])


def failing(path: Path) -> str:
    with pytest.raises(CsvError) as caught:
        read_csv([path])
    return caught.value.what


def test_bad_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "kernel_trace.csv"

    assert "cannot open" in failing(file)
    file.write_text("")
    assert "starts with: nothing" in failing(file)
    write(file, [column for column in KERNEL if column != "Kernel_Name"], [kernel(1, 0, 1)])
    assert "no column Kernel_Name" in failing(file)
    write(file, KERNEL, [kernel(1, 0, 1, End_Timestamp="soon")])
    assert "End_Timestamp contains 'soon', which is not a time" in failing(file)
    file.write_text(write(file, KERNEL, [kernel(1, 0, 1), kernel(2, 3, 4)]).read_text()[:-30])
    assert "row 3 does not have 22 columns" in failing(file)
    assert "neither a kernel trace nor counters" in failing(write(tmp_path / "agent_info.csv", AGENT, []))
    assert "neither name nor header is that of a table" in failing(write(tmp_path / "songs.csv", ["a"], []))


def test_a_kernel_name_of_64_kb_is_read_whole(tmp_path: Path) -> None:
    write(tmp_path / "kernel_trace.csv", KERNEL, [kernel(1, 0, 1, Kernel_Name="k" * 65536)])

    assert len(read_csv([tmp_path]).kernels[0].name) == 65536


def test_a_marked_range_is_not_the_api_call_that_it_is_named_after(directory: Path) -> None:
    row = {"Process_Id": 42, "Thread_Id": 42, "Correlation_Id": 5, "Start_Timestamp": 1, "End_Timestamp": 2}
    write(directory / "42_marker_api_trace.csv", API, [{**row, "Domain": "MARKER_CORE_RANGE_API", "Function": "hipMemcpy"}])
    write(directory / "42_hip_api_trace.csv", API, [{**row, "Domain": "HIP_RUNTIME_API", "Function": "hipMemcpy"}])

    assert sorted(read_csv([directory]).regions.names) == ["hipMemcpy", "roctx: hipMemcpy"]


def test_counters_of_rocm_6_2_have_no_times(tmp_path: Path) -> None:
    columns = [name for name in COUNTER if name not in ("Kernel_Id", "Accum_VGPR_Count", "Start_Timestamp", "End_Timestamp")]
    rows = [
        {**ROW, "Correlation_Id": number, "Dispatch_Id": number, "Counter_Name": name, "Counter_Value": value}
        for number, name, value in ((1, "SQ_WAVES", 16.0), (1, "TCC_HIT_sum", 3.0), (2, "SQ_WAVES", 32.0))
    ]
    write(tmp_path / "7_counter_collection.csv", columns, rows)

    trace = read_run([tmp_path])

    assert [trace.counters_of(i) for i in range(2)] == [{"SQ_WAVES": 16.0, "TCC_HIT_sum": 3.0}, {"SQ_WAVES": 32.0}]
    assert trace.dispatches.duration_ns.tolist() == [0, 0]
    assert trace.notes == (f"there is no kernel trace: {NO_TIMES}, sizes are products",)
    profile = build_profile(trace, target=load_target("mi300x"))
    assert profile.counter_passes == ({"SQ_WAVES": 24.0, "TCC_HIT_sum": 3.0},)
    assert not any("have a duration of 0" in note for note in profile.notes)


def test_counters_without_times_use_the_kernel_trace(tmp_path: Path) -> None:
    write(tmp_path / "7_kernel_trace.csv", KERNEL, [kernel(1, 100, 350), kernel(2, 400, 900)])
    columns = [name for name in COUNTER if not name.endswith("_Timestamp")]
    row = {**ROW, "Correlation_Id": 2, "Dispatch_Id": 2, "Counter_Name": "SQ_WAVES", "Counter_Value": 16.0}
    write(tmp_path / "7_counter_collection.csv", columns, [row])

    trace = read_run([tmp_path])

    assert (trace.dispatches.duration_ns.tolist(), trace.counters_of(1)) == ([250, 500], {"SQ_WAVES": 16.0})
    assert trace.notes == ()


def test_a_dispatch_that_was_never_timed_does_not_stretch_the_run(tmp_path: Path) -> None:
    write(tmp_path / "7_kernel_trace.csv", KERNEL, [kernel(1, 10**15, 10**15 + 5), kernel(2, 0, 0)])

    trace = read_run([tmp_path])

    assert trace.dispatches.duration_ns.tolist() == [5]
    assert trace.notes == ("1 dispatches have no times and were ignored",)


def test_rows_of_one_dispatch_with_another_start_are_passes_of_kernel_replay(tmp_path: Path) -> None:
    """ROCm 10 leaves them under one dispatch id: a counter that several passes collect is not their sum."""
    rows = [
        {**ROW, "Correlation_Id": 1, "Dispatch_Id": 1, "Counter_Name": name, "Counter_Value": value,
         "Start_Timestamp": start, "End_Timestamp": start + 50}
        for start, name, value in (
            (100, "GRBM_GUI_ACTIVE", 800.0), (100, "SQ_WAVES", 16.0), (300, "GRBM_GUI_ACTIVE", 900.0), (300, "TCC_HIT_sum", 3.0),
        )
    ]  # fmt: skip
    write(tmp_path / "7_counter_collection.csv", COUNTER, rows)

    trace = read_run([tmp_path])

    assert trace.dispatches.start_ns.tolist() == [100]
    assert build_profile(trace, target=load_target("mi300x")).counter_passes == (
        {"GRBM_GUI_ACTIVE": 800.0, "SQ_WAVES": 16.0},
        {"GRBM_GUI_ACTIVE": 900.0, "TCC_HIT_sum": 3.0},
    )
