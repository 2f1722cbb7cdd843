"""Column names of other releases and tools, and counters spread over several files."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.rocprof import csv_tables
from rocm_perf_lab.rocprof.csv_columns import CsvError
from rocm_perf_lab.rocprof.csv_files import find_csv
from rocm_perf_lab.rocprof.csv_reader import read_csv
from rocm_perf_lab.rocprof.loading import read_counter_passes
from rocm_perf_lab.rocprof.schema import make_guid
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.recordings import read_passes
from tests.builders.rocpd import dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

SIZES = '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"'
WORKLOAD = (
    "GPU_ID,GUID,Correlation_Id,Dispatch_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,"
    "SGPR,Kernel_Name,Start_Timestamp,End_Timestamp,Kernel_ID,Counter_Name,Counter_Value"
)
SYSINFO = """\
workload_name,gpu_model,gpu_arch,cu_per_gpu,simd_per_cu,se_per_gpu,wave_size,max_waves_per_cu,max_sclk,num_xcd
vcopy,MI300X_A1,gfx942,304,4,32,64,32,2100,8
"""


@pytest.fixture(autouse=True, params=[False, True], ids=["python", "arrow"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are read by Arrow: with the same result."""
    monkeypatch.setattr(csv_tables, "_ARROW_PAYS_FROM_BYTES", 0 if request.param else 1 << 60)


def counted(name: str, value: str, start: int) -> str:
    return f'1,0000-a7,1,0,1048576,256,512,16,8,4,32,"copy(double*, int)",{start},{start + 100},0,{name},{value}\n'


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """A workload of rocprof-compute: two passes, their join, and the machine."""
    (tmp_path / "results_pmc_perf_0.csv").write_text(
        f"{WORKLOAD}\n{counted('SQ_WAVES', '16384.0', 1000)}{counted('GRBM_GUI_ACTIVE', '800.0', 1000)}"
    )
    (tmp_path / "results_pmc_perf_1.csv").write_text(f"{WORKLOAD}\n{counted('SQ_INSTS_VALU', '98304.0', 5000)}")
    (tmp_path / "sysinfo.csv").write_text(SYSINFO)
    (tmp_path / "pmc_perf.csv").write_text(
        "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,Wave_Size,"
        "Kernel_Name,Start_Timestamp,End_Timestamp,Marker,SQ_WAVES,TCC_HIT[0],TCC_HIT[1],TCC_MISS_sum\n"
        '0,1,1048576,256,512,0,8,4,32,64,"copy(double*, int) [clone .kd]",1000,1100,warm up,16384.0,5.0,7.0,\n'
    )
    return tmp_path


def test_rocm_6_names_lds_group_segment(tmp_path: Path) -> None:
    (tmp_path / "1_kernel_trace.csv").write_text(
        '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
        f'"End_Timestamp","Private_Segment_Size","Group_Segment_Size",{SIZES}\n'
        '"KERNEL_DISPATCH",4,1,7,2,18,"f(float*)",14,500,900,1024,2048,256,1,1,1048576,1,1\n'
    )

    found = read_csv([tmp_path]).dispatches

    assert (found.lds_bytes.tolist(), found.scratch_bytes.tolist()) == ([2048], [1024])


def test_rocm_6_2_has_no_dispatch_ids(tmp_path: Path) -> None:
    (tmp_path / "1_kernel_trace.csv").write_text(
        f'"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp",{SIZES}\n'
        '"KERNEL_DISPATCH",1,139690710949888,15,"transpose(float*)",0,100,350,4,4,1,1024,1024,1\n'
        '"KERNEL_DISPATCH",1,139690710949888,15,"transpose(float*)",0,400,600,4,4,1,1024,1024,1\n'
    )

    assert read_csv([tmp_path]).dispatches.duration_ns.tolist() == [250, 200]


def test_columns_of_rocpd_convert_differ_in_case(tmp_path: Path) -> None:
    (tmp_path / "out_kernel_trace.csv").write_text(
        '"Guid","Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
        f'"Start_Timestamp","End_Timestamp","Lds_Block_Size","Scratch_Size","Vgpr_Count","Accum_Vgpr_Count","Sgpr_Count",{SIZES}\n'
        '"0000-d1","KERNEL_DISPATCH","Agent 4",1,0,7,1,3,"norm",1,100,350,8456,0,16,4,32,256,1,1,233472,1,1\n'
    )

    trace = read_csv([tmp_path])

    (kernel,) = trace.kernels
    assert (kernel.arch_vgpr_count, kernel.accum_vgpr_count, kernel.sgpr_count) == (16, 4, 32)
    assert trace.dispatches.lds_bytes.tolist() == [8456]


def test_each_table_of_a_workload_is_a_pass(workload: Path) -> None:
    first, others = read_passes([workload])

    assert [dict(trace.counters_of(0)) for trace in (first, *others)] == [
        {"GRBM_GUI_ACTIVE": 800.0, "SQ_WAVES": 16384.0},
        {"SQ_INSTS_VALU": 98304.0},
        {"SQ_WAVES": 16384.0, "TCC_HIT": 12.0},
    ]
    assert len(first.dispatches) == 1
    assert "the tables are of 3 runs of the application: times are those of results_pmc_perf_0.csv" in first.notes


def test_a_joined_table_without_further_counters_is_left_out(workload: Path) -> None:
    joined = workload / "pmc_perf.csv"
    joined.write_text(joined.read_text().replace("TCC_HIT[0],TCC_HIT[1]", "SQ_INSTS_VALU,Kernel_ID_1"))

    _, others = read_passes([workload])

    assert [trace.path.name for trace in others] == ["results_pmc_perf_1.csv"]


def test_the_machine_of_a_workload_is_read_from_sysinfo(workload: Path) -> None:
    (agent,) = read_passes([workload])[0].agents

    assert (agent.name, agent.product_name) == ("gfx942", "AMD Instinct MI300X")
    assert [agent.properties[key] for key in ("cu_count", "num_xcc", "num_shader_banks")] == [304, 8, 32]


@pytest.mark.parametrize("packed", [False, True])
def test_a_joined_table_replaces_missing_passes(workload: Path, packed: bool) -> None:
    for path in workload.glob("results_*.csv"):
        path.unlink()
    if packed:
        joined = workload / "pmc_perf.csv"
        (workload / "pmc_perf.csv.gz").write_bytes(gzip.compress(joined.read_bytes()))
        joined.unlink()

    (trace,) = read_counter_passes(workload)

    assert trace.counters_of(0) == {"SQ_WAVES": 16384.0, "TCC_HIT": 12.0}
    assert (trace.kernels[0].name, trace.kernels[0].arch_vgpr_count) == ("copy(double*, int)", 8)
    assert "joins counters of several runs" in " ".join(trace.notes)


def test_a_table_of_rocprof_is_recognised_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "metrics_copy.csv"
    path.write_text(
        "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj,"
        "SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs\n"
        '0,"copy(float*) [clone .kd]",0,0,0,7,7,65536,256,512,0,20,4,16,64,0x0,0x7f2b,1024.0000000000,1,100,350,400\n'
    )

    trace = read_csv([path])

    assert trace.counters_of(0) == {"SQ_WAVES": 1024.0}
    assert (trace.dispatches.duration_ns.tolist(), trace.dispatches.grid.tolist()) == ([250], [[65536, 1, 1]])


def test_passes_in_csv_are_not_counted_twice(tmp_path: Path) -> None:
    header = WORKLOAD.replace("GPU_ID,GUID", "Agent_Id,Guid").replace("Dispatch_ID", "Dispatch_Id")
    for number, (name, start) in enumerate([("SQ_WAVES", 1000), ("TCC_HIT_sum", 9000)], start=1):
        directory = tmp_path / f"pass_{number}"
        directory.mkdir()
        (directory / f"{number}7_counter_collection.csv").write_text(f"{header}\n{counted(name, '8.000000', start)}")

    first, others = read_passes([tmp_path])

    assert (len(first.dispatches), [sorted(trace.counters) for trace in others]) == (1, [["TCC_HIT_sum"]])


def test_concurrent_processes_are_not_passes(tmp_path: Path) -> None:
    header = WORKLOAD.replace("GPU_ID,GUID", "Agent_Id,Guid").replace("Dispatch_ID", "Dispatch_Id")
    for number, (name, start) in enumerate([("SQ_WAVES", 1000), ("TCC_HIT_sum", 1050)], start=1):
        (tmp_path / f"{number}7_counter_collection.csv").write_text(f"{header}\n{counted(name, '8.000000', start)}")

    merged, others = read_passes([tmp_path])

    assert (len(merged.dispatches), others) == (2, ())


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a,b\n1,2\n", "neither name nor header"),
        (b"\x1f\x8b broken", "cannot be decompressed"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / ("table.csv" if content.startswith(b"a") else "table.csv.gz")
    path.write_bytes(content)

    with pytest.raises(CsvError, match=complaint):
        read_csv([path])


def test_a_missing_table_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CsvError, match="cannot open the file"):
        read_csv([tmp_path / "gone.csv"])


def test_statistics_are_not_traces(tmp_path: Path) -> None:
    (tmp_path / "1_kernel_stats.csv").write_text('"Name","Calls","TotalDurationNs"\n"copy",1,5\n')

    assert find_csv(tmp_path) == ()


def test_native_counters_belong_to_the_dispatches_of_the_database(tmp_path: Path) -> None:
    for number, start in enumerate([100, 9000], start=1):
        directory = tmp_path / "out" / f"pmc_perf_{number}"
        (directory / "77").mkdir(parents=True)
        run = recorded_run(
            load_target("mi300x"), [dispatch(start, start + 50), dispatch(start + 100, start + 130)], emulated=False
        )
        write_database(directory / "77" / "77.db", replace(run, guid=make_guid(number, "pass")))
        rows = f"1,0,1,0,5,C{number},3\n2,0,1,0,5,C{number},8\n1,0,1,0,5,C{number},4\n9,0,1,0,5,C{number},1\n"
        header = "dispatch_id,gpu_id,kernel_id,lds_per_workgroup,counter_id,counter_name,counter_value\n"
        (directory / "77_native_counter_collection.csv.gz").write_bytes(gzip.compress((header + rows).encode()))

    first, others = read_passes([tmp_path])

    assert [[trace.counters_of(position) for position in range(2)] for trace in (first, *others)] == [
        [{"C1": 7.0}, {"C1": 8.0}],
        [{"C2": 7.0}, {"C2": 8.0}],
    ]
    assert first.notes[0] == "counters are those of 77_native_counter_collection.csv.gz"
    assert "1 counter values belong to dispatches missing in the kernel trace" in first.notes[1]


def test_processes_in_one_converted_file_stay_separate(tmp_path: Path) -> None:
    header = f'"Guid","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp",{SIZES}\n'
    rows = ['"a-1","Agent 4",1,1,"copy",100,350,64,1,1,64,1,1', '"b-2","Agent 4",1,1,"sum",200,260,64,1,1,64,1,1']
    (tmp_path / "out_kernel_trace.csv").write_text(header + "\n".join(rows) + "\n")
    agents = [f'"{guid}",4,0,"GPU","gfx942","AMD Instinct MI300X",{units}' for guid, units in (("a-1", 304), ("b-2", 38))]
    (tmp_path / "out_agent_info.csv").write_text(
        '"Guid","Node_Id","Logical_Node_Id","Agent_Type","Name","Product_Name","Cu_Count"\n' + "\n".join(agents) + "\n"
    )
    (tmp_path / "out_counter_collection.csv").write_text(
        '"Guid","Dispatch_Id","Counter_Name","Counter_Value"\n"b-2",1,"SQ_WAVES",5.0\n"a-1",1,"SQ_WAVES",3.0\n'
    )

    trace = read_csv([tmp_path])

    assert [trace.kernels[kernel].name for kernel in trace.dispatches.kernel] == ["copy", "sum"]
    assert [trace.processes[process].guid for process in trace.dispatches.process] == ["a-1", "b-2"]
    assert [trace.counters_of(position) for position in range(2)] == [{"SQ_WAVES": 3.0}, {"SQ_WAVES": 5.0}]
    assert [trace.agents[agent].properties["cu_count"] for agent in trace.dispatches.agent] == [304, 38]
