"""`rocm-perf analyze DB --att DIR` on written traces: what a person reads, and directories that cannot be used."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.text import Text

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.analyze.job import run_analyze
from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest
from rocm_perf_lab.jobs.analyze.screen import files_line
from rocm_perf_lab.rocprof.att.writer import write_trace
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.att import thread_trace
from tests.builders.report_pages import run_data
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run
from tests.builders.simd_traces import Traced

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.att.model import AttTrace

LONG = "/home/someone/project/src/kernels/copies/copy.hip"
CODE = [
    ("s_load_dwordx2 s[0:1], s[4:5], 0x0", f"{LONG}:9"), ("s_waitcnt lgkmcnt(0)", f"{LONG}:10"),
    ("global_load_dword v1, v0, s[0:1]", f"{LONG}:12"), ("s_waitcnt vmcnt(0)", f"{LONG}:13 -> {LONG}:40"),
    ("s_cbranch_scc1 65530", f"{LONG}:11"), ("s_endpgm", ""),
]  # fmt: skip


def copy_trace() -> AttTrace:
    turn = [(3, 0, 0, 4), (4, 0, 400, 400), (5, 4, 0, 4)]
    trace = thread_trace(CODE, [(1, 0, 0, 4), (2, 0, 92, 92), *turn, *turn, (6, 0, 0, 4)])
    label = replace(trace.kernels[0], mangled_name=VEC_COPY.mangled_name, name=VEC_COPY.display_name)
    return replace(trace, kernels=(label,))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    run = recorded_run(load_target("mi300x"), [dispatch(100, 40_000)], emulated=False, kernels=(VEC_COPY,))
    write_database(tmp_path / "x_results.db", run)
    return tmp_path / "x_results.db"


def analysed(
    database: Path, att: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[str, dict[str, Any]]:
    """Return the screen output without frames and line breaks, and analysis.json."""
    monkeypatch.setenv("COLUMNS", "80")
    run_analyze(AnalyzeRequest.of([database], att=att, output=database.parent / "out", verbose=True))
    printed = capsys.readouterr().out
    assert max(len(line) for line in printed.splitlines() if not line.startswith("files")) <= 80
    words = re.sub("[─━┃│┌┐└┘├┤┬┴┼┏┓┡┩╇┳]", " ", printed).split()
    return " ".join(words), json.loads((database.parent / "out" / "analysis.json").read_text())


def test_time_waits_loops_and_limits_are_read_at_80_columns(
    database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, document = analysed(database, write_trace(copy_trace(), database.parent / "att"), capsys, monkeypatch)

    # 96 cycles before the loop, 2 turns of 412, one of them the gap before the branch, and 4 at the end: 924 in all.
    assert "thread trace, measured cycles 1 wavefront 924 cycles each: 3% issuing, 97% stalled, 1% idle" in text
    assert "waits for vmem 87%, for smem 10%" in text
    assert "copies/copy.hip:11-13 0x1010 to 0x1020: 89% of the time, 2 turns of 412 cycles" in text
    assert "1 of 16,384 wavefronts were traced" in text
    assert (
        "0x1018 s_waitcnt vmcnt(0) copies/copy.hip:13 87% because of 0x1010 global_load_dword v1, v0, s[0:1] copies/copy.hip:12"
        in text
    )
    assert "lost to memory latency 87%, scalar latency 10%" in text
    assert "phases 10% before the first loop, 89% in loops, 0% after" in text
    page = run_data(database.parent / "out" / "report.html")
    assert (page["time_kind"], page["code"]["emulated"]) == ("measured", False)
    assert [0x1018, 0x1010, 800, "vmcnt"] in page["code"]["charges"]  # 800 of 924 cycles because of the load
    part = document["thread_trace"]
    assert part["time_balance"] == {
        "instructions": 924, "waves": 924, "overlapped": 0, "behind_last": 0, "unplaced": 0, "without_file": 0,
    }  # fmt: skip
    assert (part["hot_spots"][0]["waits_for"], part["hot_spots"][0]["waited_cycles"]) == ("global_load_dword v1, v0, s[0:1]", 800)
    assert [loop["turns_per_entry"] for loop in part["loops"]] == [2.0]
    assert part["limits"][0].startswith("1 of 16,384 wavefronts")


def test_the_trace_of_another_kernel_is_said_and_the_analysis_goes_on(
    database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, document = analysed(
        database, write_trace(thread_trace(CODE, [(6, 0, 0, 4)]), database.parent / "att"), capsys, monkeypatch
    )

    assert "no thread trace: the thread trace is of kernel(float*), not of _Z7vecCopyPdS_S_ii" in text
    assert (document["thread_trace"], document["att"]) == (None, None)


def test_stalls_behind_a_busy_matrix_core_read_as_its_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = [("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "g.hip:8"), ("s_endpgm", "")]
    traced = Traced(code)
    for slot in range(2):
        # 16 passes of 4 clocks: two wavefronts alternate, each stalls for 60 of 64 clocks.
        traced.wave([(1, 0, 60, 64)] * 100 + [(2, 0, 0, 4)], slot=slot, begin=32 * slot)
    write_trace(traced.trace(), tmp_path / "att")

    run_analyze(AnalyzeRequest.of([tmp_path / "att"], output=tmp_path / "out"))

    words = " ".join(capsys.readouterr().out.split())
    assert "94% stalled" in words
    (busy,) = re.findall(r"their SIMDs: matrix cores (\d+)% busy, no wavefront can run (\d+)%", words)
    assert int(busy[0]) >= 95
    assert int(busy[1]) <= 5


@pytest.mark.parametrize(("name", "contents"), [("x" * 36, True), ("x" * 60, False)])
def test_the_line_of_the_documents_fits_80_columns(name: str, contents: bool) -> None:
    line = Text.from_markup(files_line(Path(name))).plain

    assert line.startswith(f"files    {name}")
    assert ("(report.html" in line) is contents
    assert len(line) <= 80


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda directory: None, "cannot read the profile data: No such file"),
        (lambda directory: directory.write_text(""), "this is a file, not the directory of a thread trace"),
        (lambda directory: directory.mkdir(), "no code.json"),
        (lambda directory: (directory.mkdir(), (directory / "x_shader_engine_0_1.att").touch()), "were not decoded"),
        (lambda directory: (directory.mkdir(), (directory / "code.json").write_text('{"code": [["s_nop')), "or truncated"),
    ],
)
def test_a_directory_that_cannot_be_used_is_one_error_and_leaves_nothing(database: Path, make: Any, message: str) -> None:
    directory = database.parent / "traced"
    make(directory)

    with pytest.raises(LabError, match=message):
        run_analyze(AnalyzeRequest.of([database], att=directory, output=database.parent / "out", quiet=True))

    assert not (database.parent / "out").exists()


def test_of_several_traces_the_used_one_is_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    trace = copy_trace()
    for number in (1, 2, 3):
        write_trace(replace(trace, provenance=replace(trace.provenance, agent=1, dispatch=number)), tmp_path / "att")

    run_analyze(AnalyzeRequest.of([tmp_path / "att"], output=tmp_path / "out"))
    printed = " ".join(capsys.readouterr().out.split())

    # The first dispatch is cold, and of the others the one with the median cycles is used.
    assert "traced ui_output_agent_1_dispatch_2, one of 3 traces: 1 wavefront, 924 measured cycles each" in printed
    assert "times, launch sizes and the GPU: a kernel trace (rocprofv3 --kernel-trace" in printed
