"""Intact inputs of the fuzzing benchmark: small recordings in every format that the package reads."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import att_directory
from benchmarks.fuzz_mutations import mutate_bytes, mutate_database, mutate_text
from rocm_perf_lab.rocprof.pc_samples import Pipe
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.kernels import build_hip
from tests.builders.rocpd import dispatch, recorded_run
from tests.builders.rocprof_json import call, copy, process_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

RECORDED = Path(__file__).parent.parent / "tests" / "data" / "recorded"
_COUNTERS = {"SQ_WAVES": 16384.0, "SQ_INSTS_VALU": 98304.0, "SQ_BUSY_CYCLES": 80000.0, "GRBM_GUI_ACTIVE": 21000.0}
_REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
_SOURCE = 'extern "C" __attribute__((global)) void add(float* x, int n) { for (int i = 0; i < n; i++) x[i] += 1; }\n'
_RECORDED_ROWS = 80


@dataclass(frozen=True)
class Format:
    """One format: the files of an intact input, those that are damaged, and how.

    `damage` returns the new content of a file; `change` damages a file in place instead.
    """

    name: str
    files: Mapping[str, bytes]
    damaged: tuple[str, ...]
    damage: Callable[[bytes, random.Random], bytes] = mutate_text
    change: Callable[[Path, random.Random], None] | None = None
    is_code: bool = False
    """Read as code objects instead of as a recording."""

    def write(self, directory: Path, chance: random.Random | None) -> str:
        """Write the input, damaged if `chance` is set, and return the name of the damaged file."""
        directory.mkdir(parents=True)
        name = chance.choice(self.damaged) if chance is not None else ""
        for file, content in self.files.items():
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.damage(content, chance) if file == name and chance and self.change is None else content)
        if chance is not None and self.change is not None:
            self.change(directory / name, chance)
        return name


def formats(scratch: Path) -> tuple[Format, ...]:
    """Return all formats; `scratch` is an empty directory for their construction."""
    run = recorded_run(
        load_target("mi300x"), [dispatch(1000 + 5000 * n, 4000, counters=_COUNTERS) for n in range(4)], emulated=False
    )
    write_database(scratch / "run.db", run)
    database = (scratch / "run.db").read_bytes()
    document = process_of(run)
    document["buffer_records"]["hip_api"] = [call(1, 1, 500, 900, correlation=1, thread=7)]
    document["buffer_records"]["memory_copy"] = [copy(30_000, 31_000, 4096, correlation=2, stream=0)]
    traced = _traced(scratch)
    tables = _tables()
    return (
        Format("rocpd database, bytes", {"run_results.db": database}, ("run_results.db",), mutate_bytes),
        Format("rocpd database, cells", {"run_results.db": database}, ("run_results.db",), change=mutate_database),
        _json("rocprofv3 JSON", document),
        *(Format(f"rocprofv3 {name}", tables, (name,)) for name in tables),
        Format("rocprof v1 CSV", {"results.csv": _version1()}, ("results.csv",)),
        *_workload("MI300X_A1"),
        *_workload("MI200", only="roofline.csv"),
        *_workload("MI350", only="pmc_perf_1.csv"),
        *(Format(f"thread trace {kind}", traced, files) for kind, files in _by_kind(traced).items()),
        _viewer(),
        _json("PC samples JSON", document | _samples_document()),
        Format("PC samples CSV", _samples_csv(), ("7_pc_sampling_stochastic.csv",)),
        Format("PC samples rocpd", {"run_results.db": _samples_database(scratch)}, ("run_results.db",), change=mutate_database),
        _code_object(scratch),
    )


def _json(name: str, document: Mapping[str, Any]) -> Format:
    content = json.dumps({"rocprofiler-sdk-tool": [document]}).encode()
    return Format(name, {"out_results.json": content}, ("out_results.json",))


def _table(rows: list[dict[str, Any]]) -> bytes:
    target = io.StringIO(newline="")
    writer = csv.DictWriter(target, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return target.getvalue().encode()


def _tables() -> dict[str, bytes]:
    launch = {"Agent_Id": "Agent 1", "Queue_Id": 1, "Thread_Id": 99, "Dispatch_Id": 1, "Kernel_Id": 7, "Kernel_Name": "add.kd",
              "Correlation_Id": 1, "LDS_Block_Size": 0, "Scratch_Size": 0, "VGPR_Count": 16, "Accum_VGPR_Count": 4,
              "SGPR_Count": 32, "Start_Timestamp": 1000, "End_Timestamp": 5000}  # fmt: skip
    sizes = {f"{what}_Size_{axis}": size for what, size in (("Workgroup", 64), ("Grid", 4096)) for axis in "XYZ"}
    dispatches = [
        {"Kind": "KERNEL_DISPATCH", "Stream_Id": 1, **launch, **sizes, "Dispatch_Id": n, "Start_Timestamp": 9000 * n,
         "End_Timestamp": 9000 * n + 4000}
        for n in range(1, 4)
    ]  # fmt: skip
    counters = [
        {**launch, "Process_Id": 5, "Grid_Size": 4096, "Workgroup_Size": 64, "Dispatch_Id": n, "Counter_Name": name,
         "Counter_Value": value}
        for n in range(1, 3)
        for name, value in _COUNTERS.items()
    ]  # fmt: skip
    copies = [{"Kind": "MEMORY_COPY", "Direction": "MEMORY_COPY_HOST_TO_DEVICE", "Stream_Id": 1, "Source_Agent_Id": "Agent 0",
               "Destination_Agent_Id": "Agent 1", "Correlation_Id": 9, "Start_Timestamp": 100, "End_Timestamp": 900}]  # fmt: skip
    calls = [{"Domain": "HIP_RUNTIME_API", "Function": "hipLaunchKernel", "Process_Id": 5, "Thread_Id": 99, "Correlation_Id": 1,
              "Start_Timestamp": 500, "End_Timestamp": 800}]  # fmt: skip
    agents = [
        {"Node_Id": n, "Logical_Node_Id": n, "Agent_Type": kind, "Name": name, "Product_Name": name, "Cu_Count": units,
         "Wave_Front_Size": 64, "Simd_Count": 4 * units, "Num_Xcc": 8, "Max_Engine_Clk_Fcompute": 2100,
         "Gfx_Target_Version": 90402}
        for n, (kind, name, units) in enumerate((("CPU", "EPYC", 0), ("GPU", "gfx942", 304)))
    ]  # fmt: skip
    return {
        "5_kernel_trace.csv": _table(dispatches),
        "5_counter_collection.csv": _table(counters),
        "5_memory_copy_trace.csv": _table(copies),
        "5_hip_api_trace.csv": _table(calls),
        "5_agent_info.csv": _table(agents),
    }


def _version1() -> bytes:
    row = {"Index": 0, "KernelName": "add(float*)", "gpu-id": 4, "queue-id": 0, "queue-index": 0, "pid": 5, "tid": 5, "grd": 4096,
           "wgr": 64, "lds": 0, "scr": 0, "vgpr": 16, "sgpr": 32, "fbar": 0, "sig": "0x0", "obj": "0x7f00", "DispatchNs": 100,
           "BeginNs": 1000, "EndNs": 5000, "CompleteNs": 6000, "DurationNs": 4000, "SQ_WAVES": 64}  # fmt: skip
    return _table([row, {**row, "Index": 1, "BeginNs": 7000, "EndNs": 9000}])


def _workload(name: str, only: str | None = None) -> list[Format]:
    files = {path.name: path.read_bytes() for path in sorted((RECORDED / "workloads_vcopy" / name).iterdir())}
    groups = (only,) if only else ("pmc_perf.csv", "sysinfo.csv", "timestamps.csv", "SQ_INST_LEVEL_VMEM.csv")
    beside = files | {"pmc_perf.csv": _two_instances(files["pmc_perf.csv"])}
    return [Format(f"rocprof-compute {file}", files if file == "pmc_perf.csv" else beside, (file,)) for file in groups]


def _two_instances(table: bytes) -> bytes:
    """Leave out counters of all but two instances of a block, which are nine tenths of a table that is read for each input."""
    header, *rows = csv.reader(io.StringIO(table.decode()))
    kept = [place for place, name in enumerate(header) if not re.search(r"\[([2-9]|\d\d+)\]", name)]
    text = io.StringIO()
    csv.writer(text).writerows([row[place] for place in kept] for row in (header, *rows))
    return text.getvalue().encode()


def _traced(scratch: Path) -> dict[str, bytes]:
    directory = att_directory.generate(scratch / "att", waves=3, instructions=150)
    found = {f"{directory.name}/{path.name}": path.read_bytes() for path in sorted(directory.iterdir())}
    more = {
        "realtime.json": {"SE0": [[0, 0], [21000, 1000]], "metadata": {"frequency": 100_000_000}},
        "snapshots.json": {"/": {"work": {"gemm.hip": "source_0_gemm.hip"}}},
        "wstates2.json": {"name": "EXEC", "time": [0, 100, 200], "state": [1, 3, 0]},
        "se0_perfcounter.json": {"data": [[0, 1, 2, 3, 4, 0, 0], [64, 1, 2, 3, 4, 0, 0]]},
        "occupancy.json": {
            "0": [[0, 1, 0, 0, 1, 1], [400, 1, 0, 0, 0, 1]],
            "dispatches": {"1": att_directory.SYMBOL},
            "version": "3.0.0",
        },
    }
    return found | {f"{directory.name}/{name}": json.dumps(content).encode() for name, content in more.items()}


def _by_kind(files: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Return the files of a thread trace by kind."""
    kinds: dict[str, tuple[str, ...]] = {}
    for name in files:
        base = name.rpartition("/")[2]
        kind = "wave files" if "_wv" in base else base if base in ("code.json", "filenames.json", "occupancy.json") else "others"
        kinds[kind] = (*kinds.get(kind, ()), name)
    return kinds


def _viewer() -> Format:
    document = json.loads((RECORDED / "pc_sampling" / "code.json").read_text())
    document["code"] = [document["code"][0], *document["code"][99 : 99 + _RECORDED_ROWS]]
    names = (RECORDED / "pc_sampling" / "filenames.json").read_bytes()
    files = {"view/code.json": json.dumps(document).encode(), "view/filenames.json": names}
    return Format("PC samples of the viewer", files, ("view/code.json", "view/code.json", "view/filenames.json"))


def _samples_document() -> dict[str, Any]:
    records = []
    for n in range(12):
        state = {f"arb_state_{what}_{pipe}": int(n % 3 == 0) for what in ("issue", "stall") for pipe in Pipe}
        record = {
            "pc": {"code_object_id": 1, "code_object_offset": 64 + 8 * (n % 3)}, "exec_mask": 2**64 - 1, "timestamp": 1000 + n,
            "dispatch_id": 1, "corr_id": {"internal": 1, "external": 0}, "wave_in_grp": 0, "wave_issued": n % 2, "wave_cnt": 8,
            "inst_type": "ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_VALU",
            "snapshot": {"stall_reason": f"{_REASON}WAITCNT", "dual_issue_valu": 0, **state},
        }  # fmt: skip
        records.append({"record": record, "inst_index": n % 3})
    return {
        "buffer_records": {
            "kernel_dispatch": [],
            "pc_sample_stochastic": records,
        },
        "strings": {
            "buffer_records": [],
            "pc_sample_instructions": ["global_load_dword v0, v[1:2], off", "s_waitcnt vmcnt(0)", "v_add_f32_e32 v0, v0, v0"],
            "pc_sample_comments": ["add.hip:1", "add.hip:1", "add.hip:2"],
        },
    }


def _samples_csv() -> dict[str, bytes]:
    rows = [
        {"Sample_Timestamp": n, "Exec_Mask": 2**64 - 1, "Dispatch_Id": 1, "Instruction": text, "Instruction_Comment": "add.hip:1",
         "Correlation_Id": 1, "Wave_Issued_Instruction": n % 2, "Instruction_Type": "", "Stall_Reason": f"{_REASON}WAITCNT",
         "Wave_Count": 8}
        for n, text in enumerate(("global_load_dword v0, v[1:2], off", "s_waitcnt vmcnt(0)") * 4)
    ]  # fmt: skip
    return {"7_pc_sampling_stochastic.csv": _table(rows), "7_kernel_trace.csv": _tables()["5_kernel_trace.csv"]}


def _samples_database(scratch: Path) -> bytes:
    path = scratch / "samples.db"
    write_database(path, recorded_run(load_target("mi300x"), [dispatch(1000, 4000)], emulated=False))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE rocpd_gpu_pc_sample_x (id INTEGER, event_id INTEGER, timestamp INTEGER, dispatch_id INTEGER,
                exec_mask TEXT, code_object_id INTEGER, code_object_offset INTEGER, wave_issued INTEGER, inst_type INTEGER,
                stall_reason INTEGER, wave_count INTEGER);
            CREATE TABLE rocpd_info_blob_schema_x (id INTEGER, name TEXT, byte_order TEXT);
            CREATE TABLE rocpd_info_blob_field_x (schema_id INTEGER, name TEXT, offset INTEGER, size INTEGER, is_signed INTEGER);
            CREATE TABLE rocpd_blob_event_x (event_id INTEGER, schema_id INTEGER, blob BLOB);
            CREATE TABLE rocpd_disassembly_data_x (code_object_id INTEGER, code_object_offset INTEGER, instruction TEXT,
                comment TEXT);
            INSERT INTO rocpd_info_blob_schema_x VALUES (1, 'stochastic', 'little');
            INSERT INTO rocpd_info_blob_field_x VALUES (1, 'arb_state_issue_valu', 0, 1, 0), (1, 'arb_state_stall_valu', 1, 1, 0);
            INSERT INTO rocpd_disassembly_data_x VALUES (1, 64, 's_waitcnt vmcnt(0)', 'add.hip:1'),
                (1, 72, 'v_add_f32 v0, v0, v0', '');
        """)
        for n in range(8):
            row = (n, n, n, 1, "0x00000000ffffffff", 1, 64 + 8 * (n % 2), n % 2, 1, 3, 8)
            connection.execute(f"INSERT INTO rocpd_gpu_pc_sample_x VALUES ({', '.join('?' * len(row))})", row)
            connection.execute("INSERT INTO rocpd_blob_event_x VALUES (?, 1, ?)", (n, bytes((n % 2, 0))))
        connection.commit()
    return path.read_bytes()


def _code_object(scratch: Path) -> Format:
    directory = scratch / "code"
    directory.mkdir()
    content = build_hip(_SOURCE, directory).code_object.data
    name = "out_gfx942_code_object_id_1.out"
    return Format("code object", {name: content}, (name,), mutate_bytes, is_code=True)
