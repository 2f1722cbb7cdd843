"""`rocm-perf analyze`: what rocprofv3 left, without a GPU and without running anything."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.profiles import VEC_COPY_NS, vec_copy_counters
from tests.builders.rocpd import REDUCE, VEC_COPY, dispatch, recorded_run
from tests.builders.rocprof_json import process_of, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.workplace import Workplace


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A vector copy with the counters of a real MI300X, and a short reduction on another queue."""
    path = tmp_path / "anything.db"
    run = [
        dispatch(1000, 1000 + VEC_COPY_NS, counters=vec_copy_counters()),
        dispatch(1500, 3000, kernel=REDUCE, queue=1),
    ]
    write_database(path, recorded_run(load_target("mi300x"), run, emulated=False))
    return path


def document(directory: Path, name: str = "profile") -> Any:
    return json.loads((directory / "out" / f"{name}.json").read_text())


def test_the_documents_of_a_database_that_somebody_else_recorded(workplace: Workplace, database: Path) -> None:
    before = database.read_bytes()

    answer = workplace.rocm_perf("analyze", str(database), "--output", "out")

    assert answer.exit_code == 0, answer.output
    profile = document(workplace.directory)
    assert profile["kernel"]["mangled_name"] == VEC_COPY.mangled_name
    assert profile["runtime_ms"] == VEC_COPY_NS / 1e6
    assert profile["provenance"]["time_kind"] == "measured"
    assert profile["roofline"] is not None
    assert document(workplace.directory, "analysis")["bottleneck"]
    assert "10 us measured" in answer.stdout
    assert b"vecCopy" in (workplace.directory / "out" / "timeline.perfetto-trace").read_bytes()
    assert database.read_bytes() == before


def test_json_has_all_results_and_quiet_only_the_runtime(workplace: Workplace, database: Path) -> None:
    whole = workplace.rocm_perf("analyze", str(database), "--json", "--output", "out")
    short = workplace.rocm_perf("analyze", str(database), "--quiet", "--output", "out")

    printed, profile = json.loads(whole.stdout), document(workplace.directory)
    assert printed == document(workplace.directory, "report")
    assert {name: printed[name] for name in profile if name not in ("schema_version", "notes")} == {
        name: value for name, value in profile.items() if name not in ("schema_version", "notes")
    }
    assert printed["analysis"] == document(workplace.directory, "analysis")
    assert printed["files"]["understood"] == [{"path": str(database), "content": "rocpd database"}]
    assert short.stdout == "0.010000 ms measured\n"


def test_json_of_rocprofv3_says_what_its_database_says(workplace: Workplace, database: Path, tmp_path: Path) -> None:
    run = recorded_run(
        load_target("mi300x"),
        [dispatch(1000, 1000 + VEC_COPY_NS, counters=vec_copy_counters()), dispatch(1500, 3000, kernel=REDUCE, queue=1)],
        emulated=False,
    )
    write_json(tmp_path / "json" / "1_results.json", process_of(run))

    said = [
        workplace.rocm_perf("analyze", str(given), "--json", "--output", "out").stdout
        for given in (database, tmp_path / "json", tmp_path / "json" / "1_results.json")
    ]

    profiles = [json.loads(text) for text in said]
    for profile in profiles:
        del profile["provenance"], profile["files"]
    assert profiles[0] == profiles[1] == profiles[2]


def test_truncated_json_is_rejected(workplace: Workplace, tmp_path: Path) -> None:
    whole = write_json(tmp_path / "x_results.json", process_of(recorded_run(load_target("mi300x"), [dispatch(1, 5)])))
    whole.write_bytes(whole.read_bytes()[:-60])

    answer = workplace.rocm_perf("analyze", "x_results.json", "--output", "out")

    assert answer.exit_code == 2
    assert "error: the JSON is damaged or truncated" in answer.output
    assert not (workplace.directory / "out").exists()


def test_a_kernel_is_chosen_by_its_name(workplace: Workplace, database: Path) -> None:
    workplace.rocm_perf("analyze", str(database), "--kernel", "reduce", "--output", "out")

    assert document(workplace.directory)["kernel"]["name"] == "reduce"


def test_counters_may_lie_in_another_directory(workplace: Workplace, tmp_path: Path) -> None:
    for name, counters in (("times", {}), ("counters", vec_copy_counters())):
        (tmp_path / name).mkdir()
        run = recorded_run(load_target("mi300x"), [dispatch(1000, 1000 + VEC_COPY_NS, counters=counters)], emulated=False)
        write_database(tmp_path / name / "x.db", run)

    workplace.rocm_perf("analyze", "times", "--counters", "counters", "--output", "out")

    assert document(workplace.directory)["roofline"] is not None


def test_the_target_follows_from_the_trace(workplace: Workplace, tmp_path: Path) -> None:
    run = recorded_run(load_target("mi325x"), [dispatch(1000, 2000)], emulated=False)
    write_database(tmp_path / "x.db", run)

    workplace.rocm_perf("analyze", "x.db", "--output", "out")

    assert document(workplace.directory)["gpu"]["name"] == load_target("mi325x").product_name


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_text("<html></html>"), "SQLite"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE rocpd_op(x)").connection.commit(), ""),
        (lambda path: None, "x.db"),
    ],
    ids=["empty", "not SQLite", "foreign", "missing"],
)
def test_what_is_no_rocpd_database_is_refused_by_name(workplace: Workplace, tmp_path: Path, make: Any, says: str) -> None:
    make(tmp_path / "x.db")

    answer = workplace.rocm_perf("analyze", "x.db", "--output", "out")

    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: ")
    assert says in answer.stderr
    assert not (workplace.directory / "out").exists()


def test_a_thread_trace_that_cannot_be_read_is_refused(workplace: Workplace, database: Path, tmp_path: Path) -> None:
    (tmp_path / "att").mkdir()

    answer = workplace.rocm_perf("analyze", str(database), "--att", "att", "--output", "out")

    assert answer.exit_code == 2
    assert "att" in answer.stderr


def test_an_architecture_that_no_target_describes(workplace: Workplace, database: Path) -> None:
    answer = workplace.rocm_perf("analyze", str(database), "--target", "mi250x", "--output", "out")

    assert answer.exit_code == 2
    assert "the trace is of gfx942, the target mi250x is gfx90a" in answer.stderr


@pytest.mark.parametrize(
    ("reads", "target", "said"),
    [
        ("TCC_EA_RDREQ_sum", "gfx90a", "its counters exist on gfx90a only"),
        ("GL2C_EA_RDREQ_128B_sum", "gfx1030", "its counters exist on gfx1030 only"),
        ("GL1C_STARVE_sum", "gfx1030", "its counters exist on gfx1030 only"),
        ("TCC_BUBBLE_sum", "gfx942", "does not identify its GPU"),
        ("SQ_WAVES", "gfx942", "does not identify its GPU"),
    ],
)
def test_a_table_that_names_no_gpu_is_known_by_its_counters(
    workplace: Workplace, tmp_path: Path, reads: str, target: str, said: str
) -> None:
    table = tmp_path / "pmc_perf.csv"
    table.write_text(
        f"Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,"
        f'{reads},Start_Timestamp,End_Timestamp\n0,"vecCopy(double*)",2,1048576,256,0,0,8,0,16,131072,1000,11000\n'
    )

    answer = workplace.rocm_perf("analyze", str(table), "--output", "out")

    assert answer.exit_code == 0, answer.output
    profile = document(workplace.directory)
    assert profile["gpu"]["architecture"] == target
    assert any(said in note for note in profile["notes"])


NAMES_OF_A_KERNEL = ("vecCopy(double*, int) [clone .kd]", "vecCopy(double*, int) ")
COLUMNS = "GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR"


def tables_of_rocprof_compute(directory: Path, names: tuple[str, str]) -> None:
    """The times and the counters of a kernel that each table calls otherwise, as older releases did."""
    (directory / "counters").mkdir()
    sizes = "2,1048576,256,0,0,8,0,16"
    (directory / "timestamps.csv").write_text(
        f'Dispatch_ID,Kernel_Name,{COLUMNS},Start_Timestamp,End_Timestamp\n0,"{names[0]}",{sizes},1000,17320\n'
    )
    (directory / "counters" / "pmc_perf.csv").write_text(
        f"Dispatch_ID,Kernel_Name,{COLUMNS},TCC_EA_RDREQ_sum,TCC_EA_RDREQ_32B_sum,TCC_EA_WRREQ_sum,TCC_EA_WRREQ_64B_sum,"
        f'Start_Timestamp,End_Timestamp\n0,"{names[1]}",{sizes},131072,0,131072,131072,1000,20840\n'
    )


def test_counters_of_a_kernel_that_another_table_calls_otherwise_are_its(workplace: Workplace, tmp_path: Path) -> None:
    tables_of_rocprof_compute(tmp_path, NAMES_OF_A_KERNEL)

    answer = workplace.rocm_perf(
        "analyze", str(tmp_path / "timestamps.csv"), "--counters", str(tmp_path / "counters"), "--output", "out"
    )

    assert answer.exit_code == 0, answer.output
    # 16 MiB in the 16.32 us of the run without counters, on the GPU that their names tell.
    metrics = document(workplace.directory, "analysis")["metrics"]
    assert metrics["dram_read_gb_per_s"] == pytest.approx(8 * 1024 * 1024 / 16320)
    assert document(workplace.directory)["gpu"]["architecture"] == "gfx90a"


def test_counters_of_other_kernels_alone_are_said_to_be_that(workplace: Workplace, tmp_path: Path) -> None:
    tables_of_rocprof_compute(tmp_path, ("copy(float*)", "scale(float*)"))

    workplace.rocm_perf("analyze", str(tmp_path / "timestamps.csv"), "--counters", str(tmp_path / "counters"), "--output", "out")

    notes = document(workplace.directory)["notes"]
    assert "the counter passes have no counters of copy(float*); their kernels: scale(float*)" in notes
