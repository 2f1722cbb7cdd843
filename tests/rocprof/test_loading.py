"""Directories as ROCm tools leave them: processes, passes, repetitions, several forms of one run, and files of no use."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.discovery import FileKind, discover
from rocm_perf_lab.rocprof.loading import load_recording, read_counter_passes
from rocm_perf_lab.rocprof.recording import ProcessRecord
from rocm_perf_lab.rocprof.schema import make_guid
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import HOST, REDUCE, VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.rocprof.loading import LoadedRun
    from rocm_perf_lab.rocprof.recording import KernelSymbolRecord

TARGET = load_target("mi300x")
V1 = (
    '"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr","arch_vgpr","accum_vgpr","sgpr",'
    '"wave_size","sig","obj","DispatchNs","BeginNs","EndNs","CompleteNs","DurationNs"\n'
)
V2 = (
    "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,"
    "Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID{}\n\n"
)
KERNEL_TRACE = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)


def database(
    path: Path,
    *times: tuple[int, int],
    name: str,
    command: str = "./app",
    pid: int = 7,
    parent: int = 1,
    host: str = "lab",
    counters: Mapping[str, float] | None = None,
    kernel: KernelSymbolRecord = VEC_COPY,
) -> None:
    """Write the database of one process; its lifetime is that of its dispatches."""
    run = recorded_run(
        TARGET,
        [dispatch(start, end, kernel=kernel, counters=counters) for start, end in times],
        emulated=False,
        guid=make_guid(1, name),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_database(path, replace(run, process=ProcessRecord(command, pid, parent), host=replace(HOST, hostname=host)))


def shape(runs: Sequence[LoadedRun]) -> list[tuple[int, int, int]]:
    """Return processes, dispatches and counter passes of each run."""
    return [(len(run.trace.processes), len(run.trace.dispatches), len(run.counter_passes)) for run in runs]


def kernel_trace(*rows: str) -> str:
    return KERNEL_TRACE + "".join(f"{row}\n" for row in rows)


def traced(dispatch_id: int, start: int, end: int, name: str = "copy(float*)") -> str:
    return (
        f'"KERNEL_DISPATCH","Agent 4",1,0,7,{dispatch_id},3,"{name}",{dispatch_id},{start},{end},512,0,8,4,16,256,1,1,65536,1,1'
    )


def test_ranks_of_one_launch_are_one_run(tmp_path: Path) -> None:
    """`mpirun -n 3 rocprofv3 --kernel-trace -- ./app`: the processes overlap in time."""
    for rank in range(3):
        database(tmp_path / "lab" / f"{100 + rank}_results.db", (1000 + rank, 1900), (2000, 2500), name=str(rank), pid=100 + rank)

    (run,) = load_recording([tmp_path]).runs

    assert shape([run]) == [(3, 6, 0)]
    assert run.trace.dispatches.start_ns.tolist() == [1000, 1001, 1002, 2000, 2000, 2000]


def test_ranks_on_several_machines_are_one_run(tmp_path: Path) -> None:
    database(tmp_path / "node1" / "11_results.db", (1000, 2000), name="a", host="node1")
    database(tmp_path / "node2" / "12_results.db", (9_000_000, 9_001_000), name="b", host="node2")

    runs = load_recording([tmp_path]).runs

    assert shape(runs) == [(2, 2, 0)]
    assert any("2 machines, whose clocks differ" in note for note in runs[0].trace.notes)


def test_repetitions_are_a_series(tmp_path: Path) -> None:
    """`for i in 1 2 3; do rocprofv3 --kernel-trace -- ./app; done` in one directory."""
    for number, start in enumerate((9000, 1000, 5000)):
        database(tmp_path / "lab" / f"{number}_results.db", (start, start + 100 + number), name=str(number), pid=50 + number)

    runs = load_recording([tmp_path]).runs

    assert shape(runs) == [(1, 1, 0)] * 3
    assert sorted(run.label for run in runs) == ["0_results.db", "1_results.db", "2_results.db"]


def test_the_steps_of_a_script_are_one_run(tmp_path: Path) -> None:
    """`rocprofv3 -- ./job.sh`: two programs after each other have the same parent."""
    database(tmp_path / "lab" / "21_results.db", (1000, 2000), name="a", command="./prepare", pid=21, parent=20)
    database(tmp_path / "lab" / "22_results.db", (3000, 4000), name="b", command="./solve", pid=22, parent=20, kernel=REDUCE)

    assert shape(load_recording([tmp_path]).runs) == [(2, 2, 0)]


def test_different_programs_are_different_runs(tmp_path: Path) -> None:
    database(tmp_path / "one.db", (1000, 2000), name="a", command="./one")
    database(tmp_path / "two.db", (3000, 4000), name="b", command="./two", kernel=REDUCE)

    assert shape(load_recording([tmp_path / "one.db", tmp_path / "two.db"]).runs) == [(1, 1, 0), (1, 1, 0)]


def test_passes_with_other_counters_belong_to_their_session(tmp_path: Path) -> None:
    """`rocprofv3 --pmc A --pmc B` twice, each after a timed run."""
    for session, start in ((1, 1000), (2, 100_000)):
        place = tmp_path / f"session_{session}"
        database(place / "lab" / "1_results.db", (start, start + 50), name=f"t{session}")
        for number, counter in enumerate(("SQ_WAVES", "TCC_HIT_sum"), start=1):
            at = start + 1000 * number
            path = place / f"pass_{number}" / "lab" / "2_results.db"
            database(path, (at, at + 70), name=f"{session}{number}", counters={counter: float(10 * session + number)})

    runs = load_recording([tmp_path]).runs

    assert shape(runs) == [(1, 1, 2), (1, 1, 2)]
    assert [trace.counters_of(0) for trace in runs[1].counter_passes] == [{"SQ_WAVES": 21.0}, {"TCC_HIT_sum": 22.0}]
    assert [run.trace.dispatches.duration_ns.tolist() for run in runs] == [[50], [50]]


def test_a_file_without_dispatches_does_not_win(tmp_path: Path) -> None:
    database(tmp_path / "lab" / "7_results.db", name="idle")
    (tmp_path / "lab" / "7_kernel_trace.csv").write_text(kernel_trace(traced(1, 100, 350)))

    runs = load_recording([tmp_path]).runs

    assert [len(run.trace.dispatches) for run in runs if len(run.trace.dispatches)] == [1]
    assert max(runs, key=lambda run: len(run.trace.dispatches)).trace.dispatches.duration_ns.tolist() == [250]


def test_several_forms_of_one_run_count_once(tmp_path: Path) -> None:
    """`rocprofv3 -f rocpd csv`, and the database converted to CSV in another directory."""
    database(tmp_path / "lab" / "7_results.db", (100, 350), (400, 700), name="a")
    name = "vecCopy(double*, double*, double*, int, int)"
    table = kernel_trace(traced(1, 100, 350, name), traced(2, 400, 700, name))
    (tmp_path / "lab" / "7_kernel_trace.csv").write_text(table)
    converted = tmp_path / "rocpd-output-data"
    converted.mkdir()
    (converted / "out_kernel_trace.csv").write_text(table)

    recording = load_recording([tmp_path])

    assert shape(recording.runs) == [(1, 2, 0)]
    assert recording.notes == ("out_kernel_trace.csv has the same dispatches as 7_results.db and is not used",)


def test_files_of_rocprof_v1(tmp_path: Path) -> None:
    """`rocprof --stats --hip-trace ./app`: the database is of another tool, the CSV files beside it are read."""
    (tmp_path / "results.csv").write_text(
        V1
        + '0,"bodyForce(Body*) [clone .kd]",0,0,0,77,77,65536,256,0,0,20,4,16,64,"0x0","0x7f","100","200","700","720",500\n'
        + '1,"bodyForce(Body*) [clone .kd]",0,0,2,77,77,65536,256,0,0,20,4,16,64,"0x0","0x7f","800","900","1300","1320",400\n'
    )
    sums = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"bodyForce(Body*) [clone .kd]",2,900,450,100.0\n'
    for name in ("results.stats.csv", "results.hip_stats.csv", "results.copy_stats.csv"):
        (tmp_path / name).write_text(sums)
    (tmp_path / "results.json").write_text('{ "traceEvents":[{}\n]}')
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection, connection:
        for table in ("A", "HIP", "OPS", "HSA"):
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")

    recording = load_recording([tmp_path])

    (run,) = recording.runs
    assert run.trace.dispatches.duration_ns.tolist() == [500, 400]
    assert [(kernel.name, kernel.arch_vgpr_count, kernel.sgpr_count) for kernel in run.trace.kernels] == [
        ("bodyForce(Body*)", 20, 16)
    ]
    assert run.trace.counters == {}
    assert recording.notes == (
        "results.db is not used: this is a rocprof v1 results database, not a rocpd database",
        "results.json is not used: this is a trace in Chrome's format (written by rocprof, PyTorch and Perfetto tools)",
    )


def test_processes_in_one_table_of_rocprof_v1(tmp_path: Path) -> None:
    rows = [f'{i},"k",{i},0,0,{70 + i},1,64,64,0,0,4,0,16,64,"0","0","1","{100 + i}","{200 + i}","1",100\n' for i in range(2)]
    (tmp_path / "rank.csv").write_text(V1 + "".join(rows))

    (run,) = load_recording([tmp_path / "rank.csv"]).runs

    assert [process.pid for process in run.trace.processes] == [70, 71]
    assert run.trace.dispatches.start_ns.tolist() == [100, 101]


def test_sums_alone_are_no_recording(tmp_path: Path) -> None:
    (tmp_path / "results.stats.csv").write_text('"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"k",1,5,5,100.0\n')

    with pytest.raises(LabError) as caught:
        load_recording([tmp_path])

    assert "results.stats.csv: sums over dispatches or instructions" in caught.value.what
    assert caught.value.where == str(tmp_path) and "rocprofv3" in (caught.value.hint or "")


def test_passes_of_rocprof_v2(tmp_path: Path) -> None:
    """`rocprofv2 -i input.txt -d out --plugin file`: a directory per pass, a blank line after the header."""
    for number, counter in enumerate(("SQ_WAVES", "GRBM_COUNT"), start=1):
        directory = tmp_path / "out" / f"pmc_{number}"
        directory.mkdir(parents=True)
        start = 1000 * number
        (directory / f"results_{500 + number}.csv").write_text(
            V2.format(f",{counter}")
            + f'1,2,1,{500 + number},9,1024,64,512,0,8,0,16,64,"axpy(float*) (.kd)",{start},{start + 90},0,{number}6.000000\n'
        )

    (run,) = load_recording([tmp_path]).runs

    assert [trace.counters_of(0) for trace in run.traces] == [{"SQ_WAVES": 16.0}, {"GRBM_COUNT": 26.0}]
    assert run.trace.kernels[0].name == "axpy(float*)"
    assert run.trace.dispatches.workgroup.tolist() == [[64, 1, 1]]


def test_api_calls_and_copies_of_rocprof_v2(tmp_path: Path) -> None:
    (tmp_path / "results_33.csv").write_text(V2.format("") + '1,2,1,33,9,1024,64,0,0,8,0,16,64,"axpy",1000,1090,4\n')
    (tmp_path / "hip_api_trace_33.csv").write_text(
        'Domain,Function,Start_Timestamp,End_Timestamp,Correlation_ID\n\nHIP_API_DOMAIN,"hipLaunchKernel",900,950,4\n'
    )
    (tmp_path / "async_copy_trace_33.csv").write_text(
        'Domain,Operation,Start_Timestamp,Stop_Timestamp,Correlation_ID\n\nHSA_OPS_DOMAIN,"CopyHostToDevice",700,800,2\n'
    )
    (tmp_path / "hcc_ops_trace_33.csv").write_text(
        'Domain,Operation,Kernel_Name,Start_Timestamp,Stop_Timestamp,Correlation_ID\n\nHIP_OPS_DOMAIN,"KernelExecution","axpy",1000,1090,4\n'
    )

    recording = load_recording([tmp_path])

    (run,) = recording.runs
    assert len(run.trace.dispatches) == 1
    assert [run.trace.regions.names[name] for name in run.trace.regions.name] == ["hipLaunchKernel"]
    assert [(copy.direction, copy.end_ns - copy.start_ns) for copy in run.trace.memory_copies] == [("CopyHostToDevice", 100)]
    assert recording.notes == (
        "hcc_ops_trace_33.csv is not used: times of kernels without launch sizes: pass results_*.csv of the same run",
    )


LONG = (
    "GPU_ID,GUID,Correlation_Id,Dispatch_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,"
    "SGPR,Kernel_Name,Start_Timestamp,End_Timestamp,Kernel_ID,Counter_Name,Counter_Value\n"
)
SYSINFO = (
    "workload_name,gpu_model,gpu_arch,cu_per_gpu,simd_per_cu,se_per_gpu,wave_size,max_waves_per_cu,max_sclk,num_xcd\n"
    "vcopy,{model},gfx942,304,4,32,64,32,2100,8\n"
)


def long_row(dispatch_id: int, start: int, counter: str, value: float, kernel: str = "copy", guid: str = "a") -> str:
    return f"2,{guid},1,{dispatch_id},256,64,0,0,8,4,16,{kernel},{start},{start + 40},0,{counter},{value}\n"


def test_a_long_table_whose_passes_number_dispatches_anew(tmp_path: Path) -> None:
    """rocprof-compute 3.3 and later: two dispatches in two passes have the ids 0 to 3."""
    rows = [long_row(n, 100 + 50 * n, "SQ_WAVES", 4.0) for n in (0, 1)] + [
        long_row(n, 900 + 50 * n, "SQ_INSTS", 7.0) for n in (2, 3)
    ]
    (tmp_path / "results_pmc_perf.csv.gz").write_bytes(gzip.compress((LONG + "".join(rows)).encode()))
    (tmp_path / "sysinfo.csv").write_text(SYSINFO.format(model="MI300X_A1"))

    (run,) = load_recording([tmp_path]).runs

    assert shape([run]) == [(1, 2, 1)]
    assert [[trace.counters_of(n) for n in range(2)] for trace in run.traces] == [
        [{"SQ_WAVES": 4.0}] * 2,
        [{"SQ_INSTS": 7.0}] * 2,
    ]


def test_other_kernels_with_other_counters_are_no_pass(tmp_path: Path) -> None:
    """Counter groups that change during one run: the dispatches are different ones."""
    rows = [long_row(0, 100, "SQ_WAVES", 4.0, "copy"), long_row(1, 900, "SQ_INSTS", 7.0, "scale")]
    (tmp_path / "pmc_perf.csv").write_text(LONG + "".join(rows))

    assert shape(load_recording([tmp_path]).runs) == [(1, 2, 0)]


@pytest.mark.parametrize("names", [("0", "1"), ("rank_0", "rank_1"), ("rank0/MI300X_A1", "rank1/MI300X_A1")])
def test_ranks_of_a_workload_are_one_run(tmp_path: Path, names: tuple[str, str]) -> None:
    for rank, name in enumerate(names):
        place = tmp_path / "workloads" / "job" / name
        place.mkdir(parents=True)
        (place / "sysinfo.csv").write_text(SYSINFO.format(model="MI300X_A1"))
        for number, counter in enumerate(("SQ_WAVES", "SQ_INSTS")):
            row = long_row(0, 1000 * number + rank, counter, 2.0 + rank, guid=f"{rank}{number}")
            (place / f"results_pmc_perf_{number}.csv").write_text(LONG + row)

    runs = load_recording([tmp_path]).runs

    assert shape(runs) == [(2, 2, 1)]
    assert [runs[0].trace.counters_of(n) for n in range(2)] == [{"SQ_WAVES": 2.0}, {"SQ_WAVES": 3.0}]


def test_a_damaged_table_of_a_workload_loses_only_its_pass(tmp_path: Path) -> None:
    (tmp_path / "pmc_perf_0.csv").write_text(LONG + long_row(0, 1, "SQ_WAVES", 1.0))
    (tmp_path / "pmc_perf_1.csv").write_text(LONG + long_row(0, 900, "SQ_INSTS", 1.0)[:-20])

    (run,) = load_recording([tmp_path]).runs

    assert [trace.counters_of(0) for trace in run.traces] == [{"SQ_WAVES": 1.0}]
    assert any(note.startswith("pmc_perf_1.csv was ignored: row 2 does not have 17 columns") for note in run.trace.notes)


def test_a_workload_with_a_damaged_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pmc_perf_0.csv").write_text(LONG + long_row(0, 1, "SQ_WAVES", 1.0)[:-20])

    with pytest.raises(LabError, match="row 2 does not have 17 columns"):
        load_recording([tmp_path])


@pytest.mark.parametrize(
    ("start", "end", "duration"),
    [
        ("1248227792617386.5", "1248227792639148.5", 21762),
        ("1.248227792617386E+15", "1.248227792639148E+15", 21762),
        ("1.2482277926e+15", "1.24822779263914e+15", 39140),
        ("1248227792617386", "1248227792639148", 21762),
        ("8.1097E+14", "8.1097E+14", 0),
        ("8.10970000001E+14", "8.10970000002E+14", 0),
    ],
)
def test_decimals_and_exponents_are_times_if_their_digits_suffice(tmp_path: Path, start: str, end: str, duration: int) -> None:
    (tmp_path / "pmc_perf.csv").write_text(LONG + f"2,a,1,0,256,64,0,0,8,4,16,copy,{start},{end},0,SQ_WAVES,4.0\n")

    (run,) = load_recording([tmp_path]).runs

    assert run.trace.dispatches.duration_ns.tolist() == [duration]
    assert run.trace.counters_of(0) == {"SQ_WAVES": 4.0}
    assert any("precision" in note for note in run.trace.notes) == (duration == 0)


def test_kinds_of_files_are_found_by_content(tmp_path: Path) -> None:
    database(tmp_path / "whatever", (1, 2), name="a")
    (tmp_path / "roof.csv").write_text("device,HBMBw,L2Bw\n0,1388.9,5018.3\n")
    (tmp_path / "x_agent_info.csv").write_text('"Node_Id","Logical_Node_Id","Agent_Type"\n4,0,"GPU"\n')
    (tmp_path / "kernel.hip").write_text("__global__ void f() {}\n")
    (tmp_path / "notes.txt").write_text("nothing\n")
    machine = (224).to_bytes(2, "little")
    (tmp_path / "a_gfx942_code_object_id_2.out").write_bytes(
        b"\x7fELF\x02\x01\x01\x40" + bytes(8) + b"\x03\x00" + machine + bytes(40)
    )
    (tmp_path / "a.out").write_bytes(b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x03\x00\x3e\x00" + bytes(40))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.db").write_bytes(b"SQLite format 3\0")

    found = discover([tmp_path])

    assert {path.name: kind for kind, path in found.found} == {
        "whatever": FileKind.DATABASE,
        "roof.csv": FileKind.ROOFLINE,
        "x_agent_info.csv": FileKind.SYSTEM,
        "kernel.hip": FileKind.SOURCE,
        "a_gfx942_code_object_id_2.out": FileKind.CODE_OBJECT,
    }
    assert (found.unused, found.other_files) == ((), 2)


def test_a_path_given_twice_counts_once(tmp_path: Path) -> None:
    database(tmp_path / "x.db", (1, 2), name="a")

    assert shape(load_recording([tmp_path, tmp_path / "x.db"]).runs) == [(1, 1, 0)]


def test_raw_thread_traces_have_a_hint(tmp_path: Path) -> None:
    (tmp_path / "1_2_shader_engine_0_1.att").write_bytes(b"\1\2\3")

    with pytest.raises(LabError) as caught:
        load_recording([tmp_path])

    assert "1_2_shader_engine_0_1.att: raw thread trace, not decoded" in caught.value.what
    assert "rocprof-trace-decoder" in (caught.value.hint or "")


def test_raw_thread_traces_beside_a_recording_are_noted(tmp_path: Path) -> None:
    database(tmp_path / "x.db", (1, 2), name="a")
    (tmp_path / "1_2_shader_engine_0_1.att").write_bytes(b"\1\2\3")

    assert load_recording([tmp_path]).notes == ("1_2_shader_engine_0_1.att is not used: raw thread trace, not decoded",)


def test_counter_passes_of_a_path_are_separate_traces(tmp_path: Path) -> None:
    for number, counter in enumerate(("A", "B", "A")):
        start = 1000 * number
        database(tmp_path / f"{number}.db", (start, start + 50), name=str(number), counters={counter: float(number)})

    passes = read_counter_passes(tmp_path)

    assert [sorted(trace.counters) for trace in passes] == [["A"], ["B"]]
    assert [len(trace.dispatches) for trace in passes] == [2, 1]
