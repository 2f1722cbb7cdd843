"""PC samples of every format of rocprofv3, and of the trace viewer."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.pc_samples import Pipe, SamplingMethod, StallReason
from rocm_perf_lab.rocprof.pc_samples_reader import find_pc_samples, has_pc_samples, read_pc_samples

RECORDED = Path(__file__).parent.parent / "data" / "recorded" / "pc_sampling"
FULL = (1 << 64) - 1
REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"
TYPE = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_"
STOCHASTIC_HEADER = (
    "Sample_Timestamp", "Exec_Mask", "Dispatch_Id", "Instruction", "Instruction_Comment", "Correlation_Id",
    "Wave_Issued_Instruction", "Instruction_Type", "Stall_Reason", "Wave_Count",
)  # fmt: skip


def _record(index: int, offset: int, *, issued: int, reason: str = "NONE", **more: Any) -> dict[str, Any]:
    snapshot = {"stall_reason": REASON + reason, "dual_issue_valu": 0}
    snapshot |= {f"arb_state_{what}_{pipe}": 0 for what in ("issue", "stall") for pipe in Pipe}
    snapshot |= {f"arb_state_{name}": 1 for name in more.pop("arbiter", ())}
    record = {
        "flags": {"has_mem_cnt": 0},
        "hw_id": {"chiplet": 4, "simd_id": 2, "cu_or_wgp_id": 1},
        "pc": {"code_object_id": 2, "code_object_offset": offset},
        "exec_mask": FULL,
        "timestamp": 390705261924637,
        "dispatch_id": 29,
        "corr_id": {"internal": 29, "external": 0},
        "wave_issued": issued,
        "inst_type": f"{TYPE}VALU",
        "wave_cnt": 6,
        "snapshot": snapshot,
    }
    return {"record": record | more, "inst_index": index}


def _document(records: list[dict[str, Any]], method: str = "stochastic") -> dict[str, Any]:
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 1},
                "buffer_records": {
                    "kernel_dispatch": [{"dispatch_info": {"dispatch_id": 29, "kernel_id": 3}}],
                    f"pc_sample_{method}": records,
                },
                "strings": {
                    "pc_sample_instructions": ["v_add_f32_e32 v0, v1, v2", "s_waitcnt vmcnt(0)"],
                    "pc_sample_comments": ["a.hip:7", "a.hip:8 -> a.hip:20"],
                },
                "kernel_symbols": [{}, {}, {}, {"kernel_id": 3, "kernel_name": "_Z4copyPf.kd"}],
            }
        ]
    }


def test_viewer_directory_has_the_sums_of_its_raw_json() -> None:
    rows = json.loads((RECORDED / "code.json").read_text())["code"]
    code = [row for row in rows if not row[0].startswith(";")]

    (sampling,) = read_pc_samples(RECORDED)

    (kernel,) = sampling.kernels
    assert sampling.method is SamplingMethod.STOCHASTIC  # filenames.json says false
    assert kernel.name == "_Z14reference_gemmILi4EEvPKhS1_P14__hip_bfloat16PKfS5_iii"
    assert [one.address for one in kernel.instructions] == [row[5] for row in code]
    assert [one.issued for one in kernel.instructions] == [row[10] for row in code]
    assert [one.stalled for one in kernel.instructions] == [row[11] for row in code]
    for reason in StallReason:
        assert [one.reasons.get(reason, 0) for one in kernel.instructions] == [row[12][reason] for row in code]
    assert kernel.samples == 1306 + 3384


def test_json_of_stochastic_sampling(tmp_path: Path) -> None:
    path = tmp_path / "out_results.json"
    records = [
        _record(0, 64, issued=1, arbiter=("issue_valu",)),
        _record(1, 72, issued=0, reason="WAITCNT"),  # no pipe accepted anything: exposed
        _record(1, 72, issued=0, reason="WAITCNT", arbiter=("issue_scalar",), exec_mask=0xFFFF, wave_cnt=8),
        _record(0, 64, issued=0, reason="ARBITER_WIN_EX_STALL", arbiter=("issue_valu", "stall_valu")),
        _record(-1, 0x7F00, issued=1, pc={"code_object_id": 0, "code_object_offset": 0x7F00}),
    ]
    path.write_text(json.dumps(_document(records)))

    (sampling,) = read_pc_samples(path)

    (kernel,) = sampling.kernels
    add, wait = kernel.instructions
    assert (kernel.name, kernel.dispatches, sampling.undecoded) == ("_Z4copyPf", 1, 1)
    assert (add.text, add.source, add.code_object, add.address) == ("v_add_f32_e32 v0, v1, v2", "a.hip:7", 2, 64)
    assert (add.samples, add.issued, add.reasons) == (2, 1, {StallReason.ARBITER_WIN_EX_STALL: 1})
    assert (wait.samples, wait.issued, wait.reasons) == (2, 0, {StallReason.WAITCNT: 2})
    assert wait.exposed == {StallReason.WAITCNT: 1}
    assert wait.active_lanes == (64 + 16) / 2
    assert kernel.wave_counts == {6: 3, 8: 1}
    assert kernel.arbiter is not None
    assert (kernel.arbiter.samples, kernel.arbiter.progressed, kernel.arbiter.overhead) == (4, 2, 1)
    assert kernel.arbiter.issued == {Pipe.VALU: 1, Pipe.SCALAR: 1}
    assert kernel.arbiter.refused == {Pipe.VALU: 1}


def test_json_of_host_trap_sampling_has_no_reasons(tmp_path: Path) -> None:
    path = tmp_path / "out_results.json"
    record = _record(1, 72, issued=0)
    for key in ("wave_issued", "inst_type", "wave_cnt", "snapshot", "flags"):
        del record["record"][key]
    path.write_text(json.dumps(_document([record, record], "host_trap")))

    (sampling,) = read_pc_samples(path)

    (one,) = sampling.kernels[0].instructions
    assert sampling.method is SamplingMethod.HOST_TRAP
    assert (one.samples, one.issued, one.reasons, one.exposed) == (2, 0, {}, None)
    assert one.active_lanes == 64


def _csv(path: Path, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with path.open("w", newline="") as target:
        writer = csv.writer(target, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(header)
        writer.writerows(rows)


def test_csv_of_stochastic_sampling_takes_names_from_the_kernel_trace(tmp_path: Path) -> None:
    path = tmp_path / "7_pc_sampling_stochastic.csv"
    wait = ("s_waitcnt lgkmcnt(0)", "a.hip:9")
    _csv(
        path,
        STOCHASTIC_HEADER,
        [
            (1, FULL, 1, *wait, 1, 0, f"{TYPE}NO_INST", f"{REASON}WAITCNT", 12),
            (2, FULL, 1, *wait, 1, 0, f"{TYPE}NO_INST", f"{REASON}WAITCNT", 16),
            (3, 1, 2, "v_mov_b32 v0, 0", "", 2, 1, f"{TYPE}VALU", f"{REASON}OTHER_WAIT", 4),
            (4, 1, 2, "", "Unrecognized code object id, physical virtual address of PC:4096", 2, 1, f"{TYPE}VALU", "", 4),
        ],
    )
    _csv(tmp_path / "7_kernel_trace.csv", ("Kind", "Dispatch_Id", "Kernel_Name"), [("KERNEL_DISPATCH", 1, "reduce(float*)")])

    (sampling,) = read_pc_samples(path)

    named, unnamed = sampling.kernels
    assert (named.name, unnamed.name, sampling.undecoded) == ("reduce(float*)", "", 1)
    assert named.instructions[0].reasons == {StallReason.WAITCNT: 2}
    assert named.instructions[0].exposed is None
    assert named.wave_counts == {12: 1, 16: 1}
    assert (unnamed.instructions[0].issued, unnamed.instructions[0].reasons) == (1, {})  # the reason of an issue is irrelevant
    assert unnamed.instructions[0].active_lanes == 1


def test_csv_of_host_trap_sampling_compressed(tmp_path: Path) -> None:
    plain = tmp_path / "7_pc_sampling_host_trap.csv"
    _csv(plain, STOCHASTIC_HEADER[:6], [(1, 65535, 1, "s_endpgm", "a.hip:45", 1)] * 3)
    packed = tmp_path / "8_pc_sampling_host_trap.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    (sampling,) = read_pc_samples(packed)

    assert sampling.method is SamplingMethod.HOST_TRAP
    assert (sampling.samples, sampling.kernels[0].instructions[0].active_lanes) == (3, 16)


def _database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE rocpd_metadata_u (id INTEGER, tag TEXT, value TEXT);
            CREATE TABLE rocpd_gpu_pc_sample_u (id INTEGER, guid TEXT, event_id INTEGER, timestamp INTEGER, dispatch_id INTEGER,
                exec_mask TEXT, code_object_id INTEGER, code_object_offset INTEGER, wave_issued INTEGER, inst_type INTEGER,
                stall_reason INTEGER, wave_count INTEGER);
            CREATE VIEW rocpd_gpu_pc_sample AS SELECT * FROM rocpd_gpu_pc_sample_u;
            CREATE TABLE rocpd_kernel_dispatch_u (id INTEGER, dispatch_id INTEGER, kernel_id INTEGER);
            CREATE TABLE rocpd_info_kernel_symbol_u (id INTEGER, kernel_name TEXT);
            CREATE TABLE rocpd_info_blob_schema_u (id INTEGER, name TEXT, source_table TEXT, byte_order TEXT);
            CREATE TABLE rocpd_info_blob_field_u (id INTEGER, schema_id INTEGER, name TEXT, offset INTEGER, size INTEGER,
                data_type TEXT, is_signed INTEGER);
            CREATE TABLE rocpd_blob_event_u (id INTEGER, event_id INTEGER, schema_id INTEGER, blob BLOB);
            CREATE TABLE rocpd_disassembly_data_u (guid TEXT, code_object_id INTEGER, code_object_offset INTEGER,
                instruction TEXT, comment TEXT);
            INSERT INTO rocpd_kernel_dispatch_u VALUES (1, 5, 2);
            INSERT INTO rocpd_info_kernel_symbol_u VALUES (2, '_Z4copyPf.kd');
            INSERT INTO rocpd_info_blob_schema_u VALUES (1, 'pc_sample_extdata_stochastic', 'rocpd_gpu_pc_sample', 'little');
            INSERT INTO rocpd_info_blob_field_u VALUES (1, 1, 'hw_id_chiplet', 0, 4, 'uint32_t', 0),
                (2, 1, 'arb_state_issue_valu', 4, 1, 'uint8_t', 0), (3, 1, 'arb_state_stall_valu', 5, 1, 'uint8_t', 0);
            INSERT INTO rocpd_disassembly_data_u VALUES ('u', 1, 64, 's_waitcnt vmcnt(0)', 'a.hip:3');
        """)
        for number, accepted in enumerate((0, 1, 0)):
            values = (number, "u", 10 + number, 0, 5, "0x00000000000000ff", 1, 64, 0, 15, 3, 8)
            connection.execute(f"INSERT INTO rocpd_gpu_pc_sample_u VALUES ({', '.join('?' * 12)})", values)
            blob = struct.pack("<IBB", 3, accepted, 0)
            connection.execute("INSERT INTO rocpd_blob_event_u VALUES (?, ?, 1, ?)", (number, 10 + number, blob))
        connection.commit()


def test_rocpd_database_with_packed_arbiter_state(tmp_path: Path) -> None:
    path = tmp_path / "out_results.db"
    _database(path)

    (sampling,) = read_pc_samples(path)

    (kernel,) = sampling.kernels
    (one,) = kernel.instructions
    assert (sampling.method, kernel.name, kernel.samples) == (SamplingMethod.STOCHASTIC, "_Z4copyPf", 3)
    assert (one.text, one.source, one.address) == ("s_waitcnt vmcnt(0)", "a.hip:3", 64)
    assert (one.reasons, one.exposed) == ({StallReason.WAITCNT: 3}, {StallReason.WAITCNT: 2})
    assert (one.active_lanes, kernel.wave_counts) == (8, {8: 3})


def test_rocpd_table_of_prereleases(tmp_path: Path) -> None:
    path = tmp_path / "out_results.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"""
            CREATE TABLE rocpd_pc_sampling (method TEXT, timestamp INTEGER, exec_mask INTEGER, dispatch_id INTEGER,
                instruction TEXT, instruction_comment TEXT, correlation_id INTEGER, wave_issued_instruction INTEGER,
                instruction_type TEXT, stall_reason TEXT, wave_count INTEGER);
            INSERT INTO rocpd_pc_sampling VALUES ('host_trap', 1, 15, 1, 's_endpgm', '', 1, NULL, NULL, NULL, NULL),
                ('stochastic', 1, 15, 1, 's_barrier', '', 1, 0, '', '{REASON}BARRIER_WAIT', 4);
        """)

    trap, stochastic = sorted(read_pc_samples(path), key=lambda sampling: sampling.method)

    assert (trap.method, trap.kernels[0].instructions[0].mnemonic) == (SamplingMethod.HOST_TRAP, "s_endpgm")
    assert stochastic.kernels[0].instructions[0].reasons == {StallReason.BARRIER_WAIT: 1}


def test_one_recording_in_several_formats_counts_once(tmp_path: Path) -> None:
    (tmp_path / "7_results.json").write_text(json.dumps(_document([_record(0, 64, issued=1)])))
    _csv(tmp_path / "7_pc_sampling_host_trap.csv", STOCHASTIC_HEADER[:6], [(1, 1, 1, "s_endpgm", "", 1)])
    _csv(tmp_path / "9_pc_sampling_host_trap.csv", STOCHASTIC_HEADER[:6], [(1, 1, 1, "s_endpgm", "", 1)])
    (tmp_path / "8_results.json").write_text(json.dumps(_document([])))

    found = find_pc_samples(tmp_path)

    assert [path.name for path in found] == ["7_results.json", "9_pc_sampling_host_trap.csv"]
    assert has_pc_samples(RECORDED)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a_results.json", json.dumps(_document([])), "no PC samples"),
        ("a_results.json", json.dumps(_document([{"record": {}}])), "no pc"),
        ("a_pc_sampling_host_trap.csv", "Exec_Mask,Dispatch_Id\n1,2\n", "no column instruction"),
        ("a_pc_sampling_host_trap.csv", "Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment\n1,2\n", "row 2"),
        (
            "a_pc_sampling_stochastic.csv",
            "Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment,Wave_Issued_Instruction\n1,2,a,b,maybe\n",
            "not 0 or 1",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(content)

    with pytest.raises(LabError, match=told):
        read_pc_samples(path)
