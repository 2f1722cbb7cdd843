"""`analyze --series`: runs are found and ordered, changes are dated and explained, the screen fits 80 columns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from rocm_perf_lab.jobs.analyze.series import SeriesRequest, read_runs, run_series
from rocm_perf_lab.jobs.analyze.series_screen import history_line
from tests.builders.command import rocm_perf
from tests.builders.rocpd import REDUCE, VEC_COPY
from tests.builders.series import SimulatedRun, write_run

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = Path(__file__).parents[2] / "docs/schemas/series.schema.json"
MORE_REGISTERS = replace(VEC_COPY, arch_vgpr_count=64)


def series(directory: Path, runs: Sequence[SimulatedRun]) -> Path:
    for number, run in enumerate(runs):
        write_run(directory / f"run{number + 1}" / "x_results.db", number, run)
    return directory


def analysed(directory: Path, *paths: Path | str, options: Sequence[str] = ()) -> dict[str, Any]:
    answer = rocm_perf("analyze", "--series", *map(str, paths), "--output", str(directory / "out"), "--json", *options)
    assert answer.code == 0, answer
    document: dict[str, Any] = json.loads(answer.out)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert json.loads((directory / "out/series.json").read_text()) == document
    return document


def changes(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [change for kernel in document["kernels"] if kernel["name"].startswith(name) for change in kernel["changes"]]


def test_a_change_is_dated_and_explained_by_registers(tmp_path: Path) -> None:
    before, after = SimulatedRun(), SimulatedRun(copy_ns=12_000, copy=MORE_REGISTERS)
    runs = series(tmp_path / "runs", [before] * 6 + [after] * 4)

    document = analysed(tmp_path, runs)

    (change,) = changes(document, "vecCopy")
    assert (change["run"], change["runs_before"], change["runs_after"]) == (6, 6, 4)
    assert change["change"] == pytest.approx(0.2, abs=0.005)
    assert (change["before_ms"], change["after_ms"]) == (pytest.approx(0.01, rel=0.01), pytest.approx(0.012, rel=0.01))
    assert (change["explained"], change["reasons"]) == (True, ["VGPRs 4 -> 64"])
    assert changes(document, "reduce") == []
    assert document["order"] == "time"
    assert [run["label"] for run in document["runs"]] == [f"run{number}" for number in range(1, 11)]
    assert [run["dispatches"] for run in document["runs"]] == [16] * 10


def test_a_change_without_recorded_difference_is_unexplained(tmp_path: Path) -> None:
    runs = series(tmp_path / "runs", [SimulatedRun()] * 5 + [SimulatedRun(reduce_ns=7_000)] * 5)

    (change,) = changes(analysed(tmp_path, runs), "reduce")

    assert change["explained"] is False
    assert change["reasons"][0].startswith("no recorded difference explains it: registers, LDS,")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            {"SQ_INSTS_VALU": 1e6, "SQ_WAVES": 16384.0},
            {"SQ_INSTS_VALU": 1.5e6, "SQ_WAVES": 16384.0},
            "SQ_INSTS_VALU 1,000,000 -> 1,500,000 (+50%)",
        ),
        (
            {"GRBM_GUI_ACTIVE": 20_000.0, "SQ_INSTS_VALU": 7.0},
            {"GRBM_GUI_ACTIVE": 20_020.0, "SQ_INSTS_VALU": 7.0},
            "the cycles are unchanged (20,000 -> 20,020): the clock changed",
        ),
        (
            {"GRBM_GUI_ACTIVE": 20_000.0},
            {"GRBM_GUI_ACTIVE": 24_000.0},
            "no recorded difference explains it; the cycles changed too (20,000 -> 24,000), so not the clock alone",
        ),
        (
            {"SQ_WAIT_INST_ANY": 10.0, "TCC_EA_RDREQ_sum": 100.0},
            {"SQ_WAIT_INST_ANY": 90.0, "TCC_EA_RDREQ_sum": 100.0},
            "no recorded difference explains it: registers, LDS, scratch and code object are equal, "
            "and so are the counters of work; the clock is one possibility",
        ),
    ],
    ids=["instructions", "clock", "cycles", "waiting is no cause"],
)
def test_counters_explain_a_change(tmp_path: Path, old: dict[str, float], new: dict[str, float], reason: str) -> None:
    before, after = SimulatedRun(counters=old), SimulatedRun(copy_ns=12_000, counters=new)
    runs = series(tmp_path / "runs", [before] * 5 + [after] * 5)

    (change,) = changes(analysed(tmp_path, runs), "vecCopy")

    assert change["reasons"] == [reason]


def test_another_launch_shape_is_another_history_and_no_change(tmp_path: Path) -> None:
    small, large = SimulatedRun(), SimulatedRun(copy_ns=40_000, groups=16384)
    document = analysed(tmp_path, series(tmp_path / "runs", [small] * 5 + [large] * 5))

    copies = [kernel for kernel in document["kernels"] if kernel["name"].startswith("vecCopy")]

    assert [(kernel["launch"], kernel["runs"]) for kernel in copies] == [
        ("16384x1x1 of 256x1x1", [5, 6, 7, 8, 9]),
        ("4096x1x1 of 256x1x1", [0, 1, 2, 3, 4]),
    ]
    assert changes(document, "") == []


def test_all_kernels_changing_at_one_run_is_stated(tmp_path: Path) -> None:
    from rocm_perf_lab.analysis.series import KernelHistory, SeriesChange, _with_common_changes

    def changed(name: str, run: int) -> KernelHistory:
        change = SeriesChange(run, 0.1, 0.01, 10, 11, 5, 5, explained=False, reasons=("nothing",))
        return KernelHistory(name, name, "1 of 64", tuple(range(10)), (1.0,) * 10, (1,) * 10, 0.1, 0.01, (change,), ())

    found = _with_common_changes([changed("a", 5), changed("b", 5), changed("c", 5), changed("d", 7)])

    assert [kernel.changes[0].reasons[1:] for kernel in found] == [
        ("3 of 4 kernels changed at this run in this direction: clocks, driver, or other users of the GPU",)
    ] * 3 + [()]


def test_runs_are_ordered_by_start_and_processes_of_one_run_are_one_point(tmp_path: Path) -> None:
    write_run(tmp_path / "a/x_results.db", 2, SimulatedRun())
    write_run(tmp_path / "b/1_results.db", 1, SimulatedRun())
    second = write_run(tmp_path / "b/2_results.db", 1, SimulatedRun(copy_ns=10_001), process=1)
    write_run(tmp_path / "c/x_results.db", 0, SimulatedRun())

    document = analysed(tmp_path, tmp_path / "a", tmp_path / "b/1_results.db", second, tmp_path / "c")

    assert [(run["label"].partition("/")[0], run["processes"]) for run in document["runs"]] == [("c", 1), ("b", 2), ("a", 1)]


def test_globs_and_files_of_one_directory_are_runs(tmp_path: Path) -> None:
    for number in range(3):
        write_run(tmp_path / f"nightly_{number}.db", number, SimulatedRun())

    document = analysed(tmp_path, f"{tmp_path}/nightly_*.db")

    assert [run["label"] for run in document["runs"]] == [f"nightly_{number}.db" for number in range(3)]


def test_runs_of_several_machines_are_ordered_by_name_with_numbers(tmp_path: Path) -> None:
    runs = read_runs([series(tmp_path / "runs", [SimulatedRun()] * 11)])[0]
    from rocm_perf_lab.analysis.series import series_of

    renamed = [replace(run, machines=frozenset({f"node{place % 2}"})) for place, run in enumerate(runs)]

    found = series_of(renamed[::-1])

    assert found.order == "name"
    assert [run.label for run in found.runs] == [f"run{number}" for number in range(1, 12)]


def test_tables_of_different_gpus_have_no_common_clock() -> None:
    workloads = Path(__file__).parents[1] / "data" / "recorded" / "workloads_vcopy"
    runs = read_runs([workloads / name for name in ("MI350", "MI300X_A1_rocpd", "MI200")])[0]
    from rocm_perf_lab.analysis.series import series_of

    found = series_of(runs)

    # Each start is the time since its own machine was booted.
    assert found.order == "name"
    assert [run.label for run in found.runs] == ["MI200", "MI300X_A1_rocpd", "MI350"]


def test_one_run_is_no_series(tmp_path: Path) -> None:
    path = write_run(tmp_path / "x_results.db", 0, SimulatedRun())

    answer = rocm_perf("analyze", "--series", str(path))

    assert answer.code == 2
    assert "a series needs two or more runs with dispatches, found 1" in answer.err


def test_a_damaged_run_is_left_out_with_a_note(tmp_path: Path) -> None:
    runs = series(tmp_path / "runs", [SimulatedRun()] * 3)
    (runs / "run4").mkdir()
    (runs / "run4/x_results.db").write_bytes((runs / "run1/x_results.db").read_bytes()[:5000])

    document = analysed(tmp_path, runs)

    assert len(document["runs"]) == 3
    assert document["notes"][0].startswith("run4 is omitted: ")


def test_the_kernel_option_selects_histories(tmp_path: Path) -> None:
    runs = series(tmp_path / "runs", [SimulatedRun()] * 3)

    document = analysed(tmp_path, runs, options=("--kernel", "^red"))
    wrong = rocm_perf("analyze", "--series", str(runs), "--kernel", "gemm")

    assert [kernel["name"] for kernel in document["kernels"]] == [REDUCE.display_name]
    assert (wrong.code, "no kernel matches 'gemm'" in wrong.err) == (2, True)


def test_the_screen_names_changes_within_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = SimulatedRun(), SimulatedRun(copy_ns=12_000, copy=MORE_REGISTERS)
    runs = series(tmp_path / "runs", [before] * 6 + [after] * 4)

    run_series(SeriesRequest((runs,), output=tmp_path / "out"))

    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("files")) <= 80
    assert lines[0] == "10 runs in order of recorded start: run1, run2, run3, ..., run8, run9, run10"
    assert any(line.startswith("vecCopy: +20.") and "from run 7, run7: " in line for line in lines)
    assert "  VGPRs 4 -> 64" in lines


@pytest.mark.parametrize(
    ("times", "line"),
    [([1, 1, 1.01], "▄▄▄"), ([1, 2, 8], "▁▂█"), ([1.0] * 16 + [2.0] * 16, "▁▁▁▁▁▁▁▁████████"), ([5], "▄")],
)
def test_a_history_is_drawn_as_bars(times: list[float], line: str) -> None:
    assert history_line(times) == line
