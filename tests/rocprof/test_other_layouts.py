"""Further layouts of ROCm tools, written after the readers: old workloads, agents of several GPUs, and mixtures."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.loading import load_recording
from rocm_perf_lab.rocprof.recording import ProcessRecord
from rocm_perf_lab.rocprof.schema import make_guid
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocpd import HOST, dispatch, recorded_run
from tests.builders.rocprof_json import process_of, write_json

if TYPE_CHECKING:
    from pathlib import Path

TARGET = load_target("mi300x")
OMNIPERF_1 = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj,"
    "{counters}DispatchNs,BeginNs,EndNs,CompleteNs\n"
)
OLD_SYSINFO = (
    "workload_name,command,host_name,host_cpu,sbios,host_distro,host_kernel,host_rocmver,date,gpu_soc,vbios,numSE,numCU,numSIMD,"
    "waveSize,maxWavesPerCU,maxWorkgroupSize,L1,L2,sclk,mclk,cur_sclk,cur_mclk,L2Banks,LDSBanks,name,numSQC,hbmBW,ip_blocks\n"
    'gemm,"./gemm 1, 2",node,"AMD EPYC",x,Ubuntu,5.15,5.6.0,now,gfx90a,x,8,104,4,64,32,1024,16,8192,1700,1600,1700,1600,32,32,'
    "mi200,56,1638.4,SQ|TCC\n"
)
COUNTED = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name",'
    '"Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name",'
    '"Counter_Value","Start_Timestamp","End_Timestamp"\n'
)
TRACED = (
    '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp",'
    '"Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X",'
    '"Grid_Size_Y","Grid_Size_Z"\n'
)


def omniperf_row(index: int, begin: int, end: int, *counters: int) -> str:
    counted = "".join(f"{value}," for value in counters)
    return (
        f'{index},"gemm(float*) [clone .kd]",0,0,{2 * index},9,9,65536,256,0,0,32,0,48,64,0x0,0x7f,{counted}1,{begin},{end},2\n'
    )


def test_a_workload_of_omniperf_1(tmp_path: Path) -> None:
    """Columns of rocprof v1, times in timestamps.csv only, a level counter per file, sysinfo.csv with other names."""
    (tmp_path / "sysinfo.csv").write_text(OLD_SYSINFO)
    (tmp_path / "timestamps.csv").write_text(
        OMNIPERF_1.format(counters="") + omniperf_row(0, 1000, 1800) + omniperf_row(1, 2000, 2700)
    )
    (tmp_path / "pmc_perf.csv").write_text(
        OMNIPERF_1.format(counters="SQ_WAVES,TCC_HIT[0],TCC_HIT[1],")
        + omniperf_row(0, 1000, 1800, 1024, 5, 6)
        + omniperf_row(1, 2000, 2700, 1024, 7, 8)
    )
    (tmp_path / "SQ_LEVEL_WAVES.csv").write_text(
        OMNIPERF_1.format(counters="SQ_ACCUM_PREV_HIRES,") + omniperf_row(0, 1000, 1800, 77) + omniperf_row(1, 2000, 2700, 78)
    )

    (run,) = load_recording([tmp_path]).runs

    assert run.trace.dispatches.duration_ns.tolist() == [800, 700]
    assert [trace.counters_of(1) for trace in run.counter_passes] == [
        {"SQ_ACCUM_PREV_HIRES": 78.0},
        {"SQ_WAVES": 1024.0, "TCC_HIT": 15.0},
    ]
    (agent,) = run.trace.agents
    assert (agent.name, agent.product_name) == ("gfx90a", "AMD Instinct MI200")
    assert [agent.properties[name] for name in ("cu_count", "num_shader_banks", "max_engine_clk_fcompute")] == [104, 8, 1700]


def test_an_export_of_one_table_of_a_workload(tmp_path: Path) -> None:
    """Somebody sends pmc_perf.csv alone, under another name."""
    text = OMNIPERF_1.format(counters="SQ_WAVES,") + omniperf_row(0, 1000, 1800, 1024)
    (tmp_path / "from_a_colleague.csv").write_text(text)

    (run,) = load_recording([tmp_path / "from_a_colleague.csv"]).runs

    assert (run.trace.counters_of(0), run.trace.dispatches.duration_ns.tolist()) == ({"SQ_WAVES": 1024.0}, [800])


def test_each_gpu_is_named_by_agent_info(tmp_path: Path) -> None:
    """ROCm 6.2: bare node numbers, no dispatch ids; two GPUs of different kinds."""
    rows = "".join(
        f'"KERNEL_DISPATCH",{node},1,3,"f(int)",0,{start},{start + 10},0,0,64,1,1,640,1,1\n'
        for node, start in ((2, 100), (3, 50))
    )
    (tmp_path / "55_kernel_trace.csv").write_text(TRACED + rows)
    (tmp_path / "55_agent_info.csv").write_text(
        '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Num_Xcc","Name","Product_Name"\n'
        '0,0,"CPU",0,0,"AMD EPYC","AMD EPYC"\n2,1,"GPU",304,8,"gfx942","AMD Instinct MI300X"\n'
        '3,2,"GPU",104,1,"gfx90a","AMD Instinct MI210"\n'
    )

    trace = load_recording([tmp_path]).runs[0].trace

    assert [trace.agents[agent].name for agent in trace.dispatches.agent] == ["gfx90a", "gfx942"]
    assert trace.dispatches.start_ns.tolist() == [50, 100]


def test_counters_of_a_pass_directory_without_kernel_trace(tmp_path: Path) -> None:
    """`rocprofv3 -i pmc.txt`: pmc_1/host/pid_counter_collection.csv, one row per dispatch and counter."""
    for number, counter in enumerate(("SQ_WAVES", "SQ_INSTS_VALU", "TCC_MISS_sum"), start=1):
        directory = tmp_path / f"pmc_{number}" / "node"
        directory.mkdir(parents=True)
        start = 10_000 * number
        rows = "".join(
            f'{n},{n},"Agent 1",1,7{number},7,65536,4,"f(int)",256,0,0,8,4,16,"{counter}",{number * n}.000000,'
            f"{start + n},{start + n + 5}\n"
            for n in (1, 2)
        )
        (directory / f"7{number}_counter_collection.csv").write_text(COUNTED + rows)

    (run,) = load_recording([tmp_path]).runs

    assert len(run.trace.dispatches) == 2
    assert [trace.counters_of(1) for trace in run.traces] == [{"SQ_WAVES": 2.0}, {"SQ_INSTS_VALU": 4.0}, {"TCC_MISS_sum": 6.0}]
    assert run.trace.processes[0].pid == 71


def test_a_database_and_json_of_different_runs(tmp_path: Path) -> None:
    run = recorded_run(TARGET, [dispatch(100, 400)], emulated=False)
    (tmp_path / "old").mkdir()
    write_database(tmp_path / "old" / "1_results.db", run)
    later = recorded_run(TARGET, [dispatch(90_000, 90_200), dispatch(91_000, 91_200)], emulated=False)
    document = process_of(later)
    document["metadata"] |= {"pid": 9, "init_time": 89_000, "fini_time": 95_000}
    (tmp_path / "new").mkdir()
    write_json(tmp_path / "new" / "9_results.json", document)

    runs = load_recording([tmp_path / "old", tmp_path / "new"]).runs

    assert [(one.label, len(one.trace.dispatches)) for one in runs] == [("1_results.db", 1), ("9_results.json", 2)]


def test_a_directory_of_everything(tmp_path: Path) -> None:
    """One directory with a database, a workload, a thread trace, PC samples, code, sources and results of other tools."""
    write_database(tmp_path / "1_results.db", recorded_run(TARGET, [dispatch(100, 400)], emulated=False))
    workload = tmp_path / "workloads" / "gemm" / "MI200"
    workload.mkdir(parents=True)
    (workload / "pmc_perf.csv").write_text(OMNIPERF_1.format(counters="SQ_WAVES,") + omniperf_row(0, 5000, 5800, 1024))
    (workload / "roofline.csv").write_text("device,HBMBw\n0,1388.9\n")
    (workload / "pmc_kernel_top.csv").write_text("Kernel_Name,Count,Sum(ns)\ngemm,1,5\n")
    traced = tmp_path / "ui_output_agent_7_dispatch_1"
    traced.mkdir()
    (traced / "code.json").write_text('{"code": [], "version": "3.0.0"}')
    (traced / "filenames.json").write_text('{"wave_filenames": {}}')
    (traced / "se0_sm0_sl0_wv0.json").write_text("{}")
    (tmp_path / "stats_ui_output_agent_7_dispatch_1.csv").write_text(
        "CodeObj,Vaddr,Instruction,Hitcount,Latency,Stall,Idle,Source\n"
    )
    (tmp_path / "1_pc_sampling_host_trap.csv").write_text(
        "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment,Correlation_Id\n"
    )
    (tmp_path / "x.pftrace").write_bytes(b"\x0a\x10")
    (tmp_path / "README.md").write_text("# text\n")

    recording = load_recording([tmp_path])

    assert [(run.label, len(run.trace.dispatches)) for run in recording.runs] == [("1_results.db", 1), ("MI200", 1)]
    assert recording.thread_traces == (traced,)
    assert [path.name for path in recording.pc_samples] == ["1_pc_sampling_host_trap.csv"]
    assert recording.roofline == workload / "roofline.csv"
    assert recording.notes == ()


def test_runs_are_in_the_order_of_the_given_paths(tmp_path: Path) -> None:
    write_database(tmp_path / "1_results.db", recorded_run(TARGET, [dispatch(100, 400)], emulated=False))
    workload = tmp_path / "workload"
    workload.mkdir()
    (workload / "pmc_perf.csv").write_text(OMNIPERF_1.format(counters="SQ_WAVES,") + omniperf_row(0, 5000, 5800, 1024))
    paths = [workload, tmp_path / "1_results.db"]

    assert [run.label for run in load_recording(paths).runs] == ["workload", "1_results.db"]
    assert [run.label for run in load_recording(paths[::-1]).runs] == ["1_results.db", "workload"]


def test_a_copied_run_counts_once(tmp_path: Path) -> None:
    write_database(tmp_path / "1_results.db", recorded_run(TARGET, [dispatch(100, 400)], emulated=False))
    (tmp_path / "backup").mkdir()
    shutil.copy(tmp_path / "1_results.db", tmp_path / "backup" / "1_results.db")

    (run,) = load_recording([tmp_path]).runs

    assert len(run.trace.dispatches) == 1
    assert any("equals" in note for note in run.trace.notes)


def test_equal_notes_of_several_ranks_are_printed_once(tmp_path: Path) -> None:
    for rank in range(3):
        run = recorded_run(TARGET, [dispatch(100, 400), dispatch(0, 0)], emulated=False, guid=make_guid(rank, "rank"))
        process = ProcessRecord("./app", 70 + rank, 5)
        write_database(tmp_path / f"{rank}_results.db", replace(run, process=process, host=HOST))

    (run_of_all,) = load_recording([tmp_path]).runs

    assert [note for note in run_of_all.trace.notes if "no times" in note] == ["1 dispatches have no times and were ignored"]


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("x_results.db", b"", "the database is empty"),
        ("x_results.db", b"SQLite format 3\0" + bytes(200), "damaged"),
        ("x_results.json", b'{"rocprofiler-sdk-tool": [{"metadata": {', "damaged or truncated"),
        ("x_results.json.gz", gzip.compress(b'{"rocprofiler-sdk-tool": []}', mtime=0), "no process"),
        ("1_kernel_trace.csv", b"\xff\xfe\x00", "no column Agent_Id, Kernel_Name"),
        ("1_kernel_trace.csv", TRACED.encode() + b'"KERNEL_DISPATCH",4\n', "row 2 does not have 16 columns"),
        ("picture.png", b"\x89PNG\r\n", "there is no recording that can be analysed"),
    ],
    ids=["empty", "no database", "truncated", "packed", "no text", "short row", "picture"],
)
def test_a_single_bad_file_has_a_message_with_place_and_hint(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(LabError) as caught:
        load_recording([path])

    assert complaint in caught.value.what
    assert caught.value.where and str(path) in caught.value.where
    assert caught.value.hint


def test_json_without_dispatches_does_not_win_over_csv(tmp_path: Path) -> None:
    (tmp_path / "9_results.json").write_text(
        json.dumps({"rocprofiler-sdk-tool": [process_of(recorded_run(TARGET, [], emulated=False))]})
    )
    row = '"KERNEL_DISPATCH",4,1,3,"f(int)",0,100,150,0,0,64,1,1,640,1,1\n'
    (tmp_path / "9_kernel_trace.csv").write_text(TRACED + row)

    runs = load_recording([tmp_path]).runs

    assert [len(run.trace.dispatches) for run in runs] == [1]
    assert runs[0].trace.dispatches.duration_ns.tolist() == [50]
