"""`rocm-perf analyze` on recordings of real GPUs: one screen and one document, with values computed from the raw files."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main
from rocm_perf_lab.jobs.analyze.document import export_schema
from tests.builders.rocpd_by_hand import Database

if TYPE_CHECKING:
    from click.testing import Result

    from tests.builders.workplace import Workplace

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
WORKLOADS = RECORDED / "workloads_vcopy"
TRAINING = RECORDED / "rocprofv3_json" / "908_results.json.gz"
RECORDINGS = [*sorted(WORKLOADS.iterdir()), RECORDED / "rocprofv3_json", RECORDED / "pc_sampling"]
MOST_LINES = 50
SECTIONS = (
    "GPU ",
    "kernels by share",
    "comm ",
    "path ",
    "kernel ",
    "time ",
    "roof ",
    "verdict ",
    "  ledger",
    "missing ",
    "files ",
)


def analyzed(*words: str | Path, width: int = 80) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, words)], env={"COLUMNS": str(width)}, catch_exceptions=False)


def screen(*words: str | Path, width: int = 80) -> list[str]:
    answer = analyzed(*words, width=width)
    assert answer.exit_code == 0, answer.output
    return answer.stdout.splitlines()


def document(tmp_path: Path, *words: str | Path) -> Any:
    answer = analyzed(*words, "--json", "--output", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def line_of(lines: list[str], label: str) -> str:
    """Return the text next to a label, with its continuation lines."""
    start = next(number for number, line in enumerate(lines) if line.startswith(label))
    texts = [lines[start][len(label) :]]
    for line in lines[start + 1 :]:
        if not line.startswith(" " * 9):
            break
        texts.append(line)
    return " ".join(" ".join(texts).split())


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_every_recording_is_one_screen_of_80_columns(recording: Path, tmp_path: Path) -> None:
    lines = screen(recording, "--output", tmp_path / "out")

    assert max(len(line) for line in lines if not line.startswith("files")) <= 80
    assert len(lines) <= MOST_LINES
    places = [next((n for n, line in enumerate(lines) if line.startswith(label)), None) for label in SECTIONS]
    found = [place for place in places if place is not None]
    assert found == sorted(found)
    assert all(label in ("missing ", "roof ", "  ledger") or recording.name == "pc_sampling"
               for label, place in zip(SECTIONS, places, strict=True) if place is None)  # fmt: skip


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_json_follows_its_schema_and_the_ledger_adds_up(recording: Path, tmp_path: Path) -> None:
    found = document(tmp_path, recording)

    jsonschema.validate(found, json.loads(export_schema(tmp_path).read_text()))
    assert found == json.loads((tmp_path / "out" / "report.json").read_text())
    ledger = found["ledger"]
    parts = [ledger["roof"]["utilisation"] if ledger["roof"] else 0, *(loss["share"] for loss in ledger["losses"])]
    assert sum(parts) + ledger["unexplained_share"] == pytest.approx(1)
    assert min(*parts, ledger["unexplained_share"]) >= 0
    assert all(loss["gain_share"] >= loss["share"] - 1e-9 and 0 <= loss["confidence"] <= 1 for loss in ledger["losses"])
    if ledger["measured_us"] is None:
        assert {loss["amount_us"] for loss in ledger["losses"]} <= {None}
    else:
        amounts = [ledger["roof"]["time_us"] if ledger["roof"] else 0, *(loss["amount_us"] for loss in ledger["losses"])]
        assert sum(amounts) + ledger["unexplained_us"] == pytest.approx(ledger["measured_us"])
    assert found["files"]["understood"]


def test_times_of_a_workload_are_those_of_its_table(tmp_path: Path) -> None:
    with (WORKLOADS / "MI200" / "timestamps.csv").open() as table:
        spans = [(int(row["Start_Timestamp"]), int(row["End_Timestamp"])) for row in csv.DictReader(table)]
    durations = [end - start for start, end in spans]
    wall = max(end for _, end in spans) - min(start for start, _ in spans)
    gaps = [after[0] - before[1] for before, after in zip(sorted(spans), sorted(spans)[1:], strict=False)]

    found = document(tmp_path, WORKLOADS / "MI200")
    lines = screen(WORKLOADS / "MI200", "--output", tmp_path / "out")

    overview = found["application"]
    assert overview["wall_ms"] == wall / 1e6
    assert overview["idle_share"] == pytest.approx(1 - sum(durations) / wall)  # they do not overlap
    assert overview["longest_gap_ms"] == max(gaps) / 1e6
    (kernel,) = overview["kernels"]
    assert (kernel["calls"], kernel["total_ms"]) == (len(spans), sum(durations) / 1e6)
    assert kernel["median_ms"] == found["runtime_ms"] == statistics.median(durations) / 1e6
    assert kernel["exposed_ms"] == kernel["active_ms"] == kernel["total_ms"]
    assert line_of(lines, "GPU") == (
        "AMD Instinct MI200 (gfx90a), 3 dispatches of 1 kernel 166 us measured: idle 69%, longest gap 93.3 us"
    )
    assert [line.split() for line in lines[2:4]] == [
        ["kernels", "by", "share", "calls", "total", "median", "share", "exposed"],
        [">", "vecCopy", "3", "52.3", "us", "16.3", "us", "100.0%", "100%"],
    ]
    assert line_of(lines, "comm") == "no communication kernels, no copies"


def test_a_recording_whose_times_are_too_coarse_has_shares_only(tmp_path: Path) -> None:
    lines = screen(WORKLOADS / "MI300X_A1", "--output", tmp_path / "out")
    found = document(tmp_path, WORKLOADS / "MI300X_A1")

    assert line_of(lines, "GPU").endswith("the recording has no times")
    assert line_of(lines, "time") == "not in the recording"
    assert [line.split() for line in lines if line.startswith("> ")] == [[">", "vecCopy", "3", "-", "-", "-", "-"]]
    assert any("precision" in note for note in found["notes"])
    (kernel,) = found["application"]["kernels"]
    assert {kernel[name] for name in ("total_ms", "median_ms", "share", "active_ms", "exposed_ms")} == {None}
    assert found["ledger"]["measured_us"] is None


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Any]:
    directory = tmp_path_factory.mktemp("training")
    lines = screen(TRAINING, "--output", directory / "out")
    return lines, json.loads((directory / "out" / "report.json").read_text())


@pytest.fixture(scope="module")
def raw_dispatches() -> list[tuple[int, int, str]]:
    """Start, end and symbol of every dispatch of the training job, from its JSON."""
    with gzip.open(TRAINING) as source:
        tool = json.load(source)["rocprofiler-sdk-tool"][0]
    names = {symbol["kernel_id"]: symbol["kernel_name"].removesuffix(".kd") for symbol in tool["kernel_symbols"]}
    rows = tool["buffer_records"]["kernel_dispatch"]
    return [(row["start_timestamp"], row["end_timestamp"], names[row["dispatch_info"]["kernel_id"]]) for row in rows]


def exposed_times(dispatches: list[tuple[int, int, str]]) -> dict[str, int]:
    """Return the time in which each kernel runs alone, by stepping through all starts and ends."""
    events = sorted([(end, 0, name) for _, end, name in dispatches] + [(start, 1, name) for start, _, name in dispatches])
    running: dict[str, int] = {}
    alone: dict[str, int] = {}
    before = events[0][0]
    for time, starts, name in events:
        if len(running) == 1:
            (only,) = running
            alone[only] = alone.get(only, 0) + time - before
        before = time
        running[name] = running.get(name, 0) + (1 if starts else -1)
        if not running[name]:
            del running[name]
    return alone


def test_kernels_of_a_training_job(training: tuple[list[str], Any], raw_dispatches: list[tuple[int, int, str]]) -> None:
    durations: dict[str, list[int]] = {}
    for start, end, name in raw_dispatches:
        durations.setdefault(name, []).append(end - start)
    alone = exposed_times(raw_dispatches)

    kernels = {kernel["mangled_name"]: kernel for kernel in training[1]["application"]["kernels"]}

    assert set(kernels) == set(durations)
    for name, own in durations.items():
        kernel = kernels[name]
        assert (kernel["calls"], kernel["total_ms"]) == (len(own), pytest.approx(sum(own) / 1e6)), name
        assert kernel["median_ms"] == pytest.approx(statistics.median(own) / 1e6), name
        assert kernel["exposed_ms"] == pytest.approx(alone.get(name, 0) / 1e6, rel=1e-3, abs=1e-3), name
    largest = max(durations, key=lambda name: sum(durations[name]))
    assert training[1]["application"]["kernels"][0]["mangled_name"] == largest
    assert training[1]["kernel"]["mangled_name"] == max(alone, key=lambda name: alone[name])


def test_idle_time_and_communication_of_a_training_job(
    training: tuple[list[str], Any], raw_dispatches: list[tuple[int, int, str]]
) -> None:
    busy, reached = 0, 0
    for start, end, _ in sorted(raw_dispatches):
        busy += max(0, end - max(start, reached))
        reached = max(reached, end)
    wall = reached - min(start for start, *_ in raw_dispatches)
    kinds = [(start, end, "comm" if "nccl" in name else "compute") for start, end, name in raw_dispatches]

    overview = training[1]["application"]

    assert overview["dispatches"] == 43_915
    assert overview["wall_ms"] == pytest.approx(wall / 1e6)
    assert overview["idle_share"] == pytest.approx(1 - busy / wall)
    assert overview["communication"]["count"] == sum("nccl" in name for *_, name in raw_dispatches) == 1310
    assert overview["communication"]["exposed_ms"] == pytest.approx(exposed_times(kinds)["comm"] / 1e6, rel=1e-3)
    assert line_of(training[0], "comm").startswith("1,310 communication kernels, 4.16 s: 95% exposed (3.95 s)")
    assert any("--kernel" in note for note in training[1]["notes"])


def test_pc_samples_alone_name_lines_with_intervals(tmp_path: Path) -> None:
    lines = screen(RECORDED / "pc_sampling", "--output", tmp_path / "out")

    assert line_of(lines, "kernel") == "reference_gemm<4>"
    assert line_of(lines, "sampled") == "4,690 PC samples (stochastic), 100% of those of all kernels"
    assert any("of 4,690 PC samples" in line and "95 % interval" in line for line in lines)
    assert any(line.startswith("  1. ") and (".cpp:" in line or ".h:" in line) for line in lines)


def test_a_mixture_of_recordings_uses_all_of_them(tmp_path: Path) -> None:
    found = document(tmp_path, WORKLOADS / "MI350", RECORDED / "pc_sampling")

    contents = {file["content"] for file in found["files"]["understood"]}
    assert {"CSV table", "PC samples", "description of the machine"} <= contents
    assert found["application"]["kernels"][0]["calls"] == 3


def test_options_that_exclude_each_other_and_names_that_do_not_exist(tmp_path: Path) -> None:
    workload = WORKLOADS / "MI200"
    answers = {
        "--json and --quiet exclude each other": analyzed(workload, "--json", "--quiet"),
        "--series and --att exclude each other": analyzed(workload, "--series", "--att", tmp_path),
        "no kernel matches 'absent'": analyzed(workload, "--kernel", "absent", "--output", tmp_path / "out"),
        "no file matches this pattern": analyzed(tmp_path / "*.db"),
        "No such file": analyzed(tmp_path / "absent.db"),
        "there is no recording that can be analysed": analyzed(Path(__file__).parent / "conftest.py", Path(__file__)),
    }

    for message, answer in answers.items():
        assert answer.exit_code == 2, answer.output
        assert answer.stderr.startswith("error: ")
        assert message in answer.stderr
        assert answer.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_pattern_is_expanded_and_quiet_prints_the_runtime(tmp_path: Path) -> None:
    answer = analyzed(WORKLOADS / "MI2*", "--quiet", "--output", tmp_path / "out")

    assert answer.stdout == "0.016320 ms measured\n"


def test_verbose_prints_what_the_screen_abbreviates(tmp_path: Path) -> None:
    short, whole = (screen(TRAINING, *more, "--output", tmp_path / "out") for more in ((), ("--verbose",)))

    assert sum(line.startswith("  ") and line.rstrip().endswith("%") for line in whole[:90]) >= 79
    assert any("72 other kernels" in line for line in short)
    assert not any("more (--verbose)" in line for line in whole)


def test_plots_target_and_kernel_are_options(tmp_path: Path) -> None:
    answer = analyzed(
        WORKLOADS / "MI300X_A1_rocpd", "--roofline", "--target", "mi325x", "--kernel", "vec", "--focus-critical",
        "--output", tmp_path / "out",
    )  # fmt: skip

    assert answer.exit_code == 0, answer.output
    assert "AMD Instinct MI325X (gfx942)" in answer.stdout
    assert (tmp_path / "out" / "roofline.png").stat().st_size > 0


def test_a_run_without_dispatches_shows_its_copies(workplace: Workplace, tmp_path: Path) -> None:
    with Database(tmp_path / "x.db") as database:
        database.process("00000000-0000-4000-8000-000000000001", 11)
        database.agent(4)
        database.agent(0, "CPU", {"name": "EPYC"})
        database.text(1, "MEMORY_COPY_HOST_TO_DEVICE")
        database.copy(1000, 3000, 4096, name=1, source=0, destination=4, stream=0)
        database.copy(5000, 6000, 4096, name=1, source=0, destination=4, stream=0)

    lines = screen(tmp_path / "x.db", "--output", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "report.json").read_text())

    assert line_of(lines, "copies") == "2 copies of 8.19 kB, 3 us: 100% exposed (3 us)"
    assert found["application"]["wall_ms"] == 0.005
    assert found["application"]["idle_share"] == pytest.approx(0.4)
    assert found["kernel"] is None
    assert "no kernel was dispatched" in found["notes"]


def test_the_schemas_of_the_documentation_are_those_of_this_version(tmp_path: Path) -> None:
    written = CliRunner().invoke(main, ["schemas", str(tmp_path)], catch_exceptions=False).stdout.splitlines()

    committed = RECORDED.parents[2] / "docs" / "schemas"
    assert "report.schema.json" in {Path(path).name for path in written}
    for path in written:
        assert Path(path).read_text() == (committed / Path(path).name).read_text(), "run: rocm-perf schemas docs/schemas"


def test_a_damaged_file_beside_a_readable_one_is_a_note(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        with Database(tmp_path / f"{name}.db") as database:
            database.process("00000000-0000-4000-8000-000000000001", 11)
            database.agent(4)
            database.kernel(1, "add")
            database.dispatch(1, 1, 1000, 3000, agent=4)
    content = (tmp_path / "bad.db").read_bytes()
    (tmp_path / "bad.db").write_bytes(content[: len(content) // 2])

    found = document(tmp_path, tmp_path / "good.db", tmp_path / "bad.db")
    alone = analyzed(tmp_path / "bad.db", "--output", tmp_path / "none")

    assert found["runtime_ms"] == 0.002
    (unused,) = found["files"]["not_understood"]
    assert Path(unused["path"]).name == "bad.db"
    assert "truncated" in unused["reason"]
    assert any(note.startswith("bad.db is not used") for note in found["notes"])
    assert (alone.exit_code, alone.stdout) == (2, "")


def test_lost_data_is_the_first_note_and_verbose_cuts_none(tmp_path: Path) -> None:
    shutil.copytree(WORKLOADS / "MI200", tmp_path / "run", copy_function=shutil.copyfile)
    table = tmp_path / "run" / "pmc_perf.csv"
    table.write_text(table.read_text()[:-30])

    lines = screen(tmp_path / "run", "--output", tmp_path / "out")
    whole = screen(TRAINING, "--kernel", "reduce_kernel", "--verbose", "--output", tmp_path / "out")

    assert line_of(lines, "notes").startswith(
        "pmc_perf.csv was ignored: row 4 does not have 1022 columns: is the file truncated?"
    )
    notes = line_of(whole, "notes")
    assert ".." not in notes
    assert "5 kernels match --kernel: the one with the largest exposed time of them is analysed" in notes


def test_a_wrong_kernel_is_answered_with_short_names(tmp_path: Path) -> None:
    answer = analyzed(TRAINING, "--kernel", "nothing", "--output", tmp_path / "out")

    assert answer.exit_code == 2
    (hint,) = [line for line in answer.stderr.splitlines() if line.startswith(" hint:")]
    assert hint.startswith(" hint: kernels, longest first: ncclDevKernel_Generic_1, vectorized_elementwise_kernel<4, ")
    assert len(hint) < 400


def test_inexact_timestamps_of_an_ordered_queue_are_counted_in_a_note(tmp_path: Path) -> None:
    with Database(tmp_path / "x.db") as database:
        database.process("00000000-0000-4000-8000-000000000001", 11)
        database.agent(4)
        database.kernel(1, "add")
        database.dispatch(1, 1, 1000, 3000, agent=4)
        database.dispatch(2, 1, 2900, 5000, agent=4)

    lines = screen(tmp_path / "x.db", "--verbose", "--output", tmp_path / "out")

    assert "1 dispatch overlaps the next one of the same queue and stream by less than 1 us" in line_of(lines, "notes")


def test_other_runs_are_named_and_not_pooled(tmp_path: Path) -> None:
    for number, start in enumerate((1000, 900_000)):
        with Database(tmp_path / f"run{number}" / "1_results.db") as database:
            database.process(f"00000000-0000-4000-8000-00000000000{number}", 11 + number, machine="node 1")
            database.agent(4)
            database.kernel(1, "add")
            database.dispatch(1, 1, start, start + 2000, agent=4)

    found = document(tmp_path, tmp_path)

    assert found["application"]["dispatches"] == 1
    assert "the files are of 2 runs: run0/1_results.db is analysed; --series compares the runs" in found["notes"]
