"""`rocm-perf analyze` on databases in the layouts of ROCm 7.0 to 10, made without the lab's writer: every number by hand."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest
from rocm_perf_lab.jobs.analyze.results import analyze_recording
from tests.builders.rocpd_by_hand import Database

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.workplace import Workplace

FIRST = "0198a9b2-1a2b-7c3d-8e4f-000000000001"
SECOND = "0198a9b2-1a2b-7c3d-8e4f-000000000002"
COPY_IN, LAUNCH, MARKER = 1, 2, 3
WAVES_OF_4, WAVES_OF_5, HITS = 7704, 7705, 7706
LAYOUTS: dict[str, dict[str, Any]] = {
    "ROCm 7.0": {"version": "3"},
    "ROCm 7.1": {"version": "3.0.0"},
    "ROCm 7.13": {"version": "3.0.2"},
    "ROCm 10": {"version": "3.0.3"},
    "columns not seen yet": {"version": "3.0.9"},
    "no views": {"version": "3", "views": False},
}


def fill(database: Database, guid: str, pid: int, *, later_ns: int = 0) -> None:
    """One process with two GPUs.

    On GPU 4: a copy of 800 ns, `add` for 1 us. On GPU 5: a helper for 6 us, `add` for 4 us with dynamic LDS and scratch.
    """
    database.process(guid, pid, command="./app --name caf\u00e9")
    database.agent(0, "CPU", {"name": "AMD EPYC 9654"})
    database.agent(4)
    database.agent(5)
    database.kernel(1, "_Z3addPf", "add(float*)", arch_vgpr_count=12, accum_vgpr_count=4, sgpr_count=32, group_segment_size=1024)
    database.kernel(2, "__amd_rocclr_copyBuffer")
    for number, text in ((COPY_IN, "MEMORY_COPY_HOST_TO_DEVICE"), (LAUNCH, "hipLaunchKernel"), (MARKER, "my range")):
        database.text(number, text)
    for number, name, agent in ((WAVES_OF_4, "SQ_WAVES", 4), (WAVES_OF_5, "SQ_WAVES", 5), (HITS, "TCC_HIT_max", 5)):
        database.counter(number, name, agent)
    t = later_ns
    database.dispatch(1, 1, t + 1000, t + 2000, agent=4, lds=2048, event=11, stack=21, grid=(1000, 3, 1))
    database.dispatch(2, 2, t + 3000, t + 9000, agent=5, event=12, stack=22)
    database.dispatch(3, 1, t + 10_000, t + 14_000, agent=5, lds=2048, scratch=16, event=13, stack=23, grid=(1000, 3, 1))
    database.copy(t + 100, t + 900, 4096, name=COPY_IN, source=0, destination=4, stream=None)
    database.region(t + 950, t + 960, name=LAUNCH, event=14, stack=21)
    database.region(t, t + 15_000, name=MARKER)
    database.values(11, WAVES_OF_4, *[2.0] * 8)
    database.values(13, WAVES_OF_5, 20.0, 24.0, None, 0.0)
    database.values(13, HITS, 5.0, 9.0)


def analysed(place: Workplace, *words: str) -> dict[str, Any]:
    answer = place.rocm_perf("analyze", *words, "--output", "out")
    assert answer.exit_code == 0, answer.output
    return {name: json.loads((place.directory / "out" / f"{name}.json").read_text()) for name in ("profile", "dag", "analysis")}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_number_of_one_process(workplace: Workplace, layout: str) -> None:
    with Database(workplace.directory / "x.db", **LAYOUTS[layout]) as database:
        fill(database, FIRST, 100)

    found = analysed(workplace, "x.db")

    profile = found["profile"]
    assert profile["kernel"] == {"name": "add(float*)", "mangled_name": "_Z3addPf", "grid": [4, 3, 1], "block": [256, 1, 1]}
    assert (profile["gpu"]["architecture"], profile["gpu"]["name"]) == ("gfx942", "AMD Instinct MI300X")
    assert profile["runtime_ms"] == 0.0025  # the median of 1 and 4 us
    assert profile["stability"]["durations_ms"] == [0.001, 0.004]
    resources = {"vgpr_per_thread": 12, "agpr_per_thread": 4, "sgpr_per_wave": 32, "lds_bytes": 2048, "scratch_bytes": 16}
    assert profile["resources"].items() >= resources.items()
    # 16 registers allow 8 waves, LDS 32 groups of 4 waves: the 32 places of the CU are the limit.
    assert profile["occupancy"].items() >= {"waves_per_simd": 8.0, "theoretical": 1.0, "limiter": "wave slots"}.items()
    # A row without a value spoils the total of its dispatch; the maximum over instances is the larger row.
    assert profile["counters"] == [{"SQ_WAVES": 16.0, "TCC_HIT_max": 9.0}]
    assert "SQ_WAVES: 1 dispatches have a value that is not a number; ignored" in profile["notes"]
    ranked = [(k["name"], k["calls"], k["total_ms"], k["helper"]) for k in profile["kernels"]]
    assert ranked == [("__amd_rocclr_copyBuffer", 1, 0.006, True), ("add(float*)", 2, 0.005, False)]
    assert [k["share"] for k in profile["kernels"]] == pytest.approx([6 / 11, 5 / 11])
    assert profile["provenance"].items() >= {"device": "rocm", "emulated": False, "time_kind": "measured"}.items()
    # One after the other over both GPUs: 800 + 1000 + 6000 + 4000 ns of 13900.
    assert (found["dag"]["critical_path_ns"], found["dag"]["wall_ns"], found["dag"]["idle_ns"]) == (11_800, 13_900, 2100)
    assert found["dag"]["copies_on_critical_path_ns"] == 800
    assert found["analysis"]["critical_path_score"] == pytest.approx(5000 / 11_800)


def test_processes_of_one_file_and_of_several_are_the_same_run(workplace: Workplace) -> None:
    with Database(workplace.directory / "both.db") as database:
        fill(database, FIRST, 100)
        fill(database, SECOND, 100, later_ns=500)
    for guid, later_ns in ((FIRST, 0), (SECOND, 500)):
        with Database(workplace.directory / "parts" / guid[-1] / "100_results.db") as database:
            fill(database, guid, 100, later_ns=later_ns)

    whole, parts = analysed(workplace, "both.db"), analysed(workplace, "parts")

    assert whole["profile"]["stability"]["durations_ms"] == [0.001, 0.001, 0.004, 0.004]
    assert [(k["calls"], k["total_ms"]) for k in whole["profile"]["kernels"]] == [(2, 0.012), (4, 0.01)]
    # Processes do not wait for each other: the path is that of one of them.
    assert (whole["dag"]["critical_path_ns"], whole["dag"]["wall_ns"]) == (11_800, 14_400)
    for key in ("kernel", "stability", "resources", "counters", "kernels"):
        assert parts["profile"][key] == whole["profile"][key]
    assert parts["dag"]["critical_path_ns"] == whole["dag"]["critical_path_ns"]


def counter_pass(path: Path, guid: str, counter: str, value: float, *, start: int, command: str = "./app") -> None:
    """One dispatch of 700 ns with one counter."""
    with Database(path) as database:
        database.process(guid, 100, command, machine="node 1")
        database.agent(4)
        database.kernel(1, "_Z3addPf", "add(float*)")
        database.counter(7, counter, 4)
        database.dispatch(1, 1, start, start + 700, agent=4, event=1)
        database.values(1, 7, value)


def test_passes_of_several_pmc_options_are_not_taken_for_one_run(workplace: Workplace) -> None:
    counter_pass(workplace.directory / "out_of_rocm/pass_1/1_results.db", FIRST, "SQ_WAVES", 5.0, start=1000)
    counter_pass(workplace.directory / "out_of_rocm/pass_2/2_results.db", SECOND, "SQ_INSTS", 10.0, start=9000)

    profile = analysed(workplace, "out_of_rocm")["profile"]

    assert profile["counters"] == [{"SQ_WAVES": 5.0}, {"SQ_INSTS": 10.0}]
    assert [(k["calls"], k["total_ms"]) for k in profile["kernels"]] == [(1, 0.0007)]
    assert "2 runs with different counters are here: times are those of 1_results.db" in profile["notes"]


def test_processes_at_the_same_time_with_different_counters_are_one_run(workplace: Workplace) -> None:
    counter_pass(workplace.directory / "run/1_results.db", FIRST, "SQ_WAVES", 5.0, start=1000)
    counter_pass(workplace.directory / "run/2_results.db", SECOND, "SQ_INSTS", 10.0, start=1300)

    assert analysed(workplace, "run")["profile"]["kernels"][0]["calls"] == 2


def test_another_command_at_another_time_is_another_run(workplace: Workplace) -> None:
    counter_pass(workplace.directory / "run/1_results.db", FIRST, "SQ_WAVES", 5.0, start=1000)
    counter_pass(workplace.directory / "run/2_results.db", SECOND, "SQ_INSTS", 10.0, start=9000, command="./other")

    profile = analysed(workplace, "run")["profile"]

    assert (profile["kernels"][0]["calls"], profile["counters"]) == (1, [{"SQ_WAVES": 5.0}])


def test_tables_without_suffix_and_with_an_unusual_suffix(workplace: Workplace) -> None:
    with Database(workplace.directory / "plain.db", suffixed=False) as database:
        fill(database, FIRST, 100)
    with Database(workplace.directory / "run1.db", views=False) as database:
        fill(database, "run1", 100)

    assert analysed(workplace, "plain.db")["profile"]["stability"] == analysed(workplace, "run1.db")["profile"]["stability"]


def test_streaming_samples_belong_to_no_dispatch(workplace: Workplace) -> None:
    with Database(workplace.directory / "x.db", version="3.0.3") as database:
        fill(database, FIRST, 100)
        database.values(11, WAVES_OF_4, 99.0, sample_id=1, xcc=0, shader_engine=1, instance=0)
        database.values(None, WAVES_OF_4, 98.0)

    assert analysed(workplace, "x.db")["profile"]["counters"][0]["SQ_WAVES"] == 16.0


def test_a_command_line_of_any_bytes(workplace: Workplace) -> None:
    with Database(workplace.directory / "x.db") as database:
        fill(database, FIRST, 100)
        database.execute("UPDATE {info_process} SET command = CAST(x'2e2f61707020ff' AS TEXT)")

    assert analysed(workplace, "x.db")["profile"]["runtime_ms"] == 0.0025


def test_a_finished_write_ahead_log_in_a_directory_that_cannot_be_written(workplace: Workplace) -> None:
    directory = workplace.directory / "shared"
    with Database(directory / "x.db") as database:
        fill(database, FIRST, 100)
    with closing(sqlite3.connect(directory / "x.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    (directory / "x.db-wal").touch()
    (directory / "x.db-shm").write_bytes(bytes(32768))
    directory.chmod(0o555)
    try:
        assert analysed(workplace, "shared/x.db")["profile"]["runtime_ms"] == 0.0025
    finally:
        directory.chmod(0o755)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE {kernel_dispatch} SET workgroup_size_x = 0", "workgroups of 0 x 1 x 1"),
        ("UPDATE {info_kernel_symbol} SET arch_vgpr_count = 'many'", "rocpd_info_kernel_symbol contains a value"),
        ("UPDATE {info_process} SET pid = x'ff'", "rocpd_info_process contains a value"),
        ("UPDATE {kernel_dispatch} SET agent_id = 77", "row 77"),
        ("UPDATE {info_agent} SET extdata = '['", "not contain JSON"),
    ],
)
def test_invalid_values_are_named(workplace: Workplace, statement: str, says: str) -> None:
    with Database(workplace.directory / "x.db") as database:
        fill(database, FIRST, 100)
        database.execute(statement)

    answer = workplace.rocm_perf("analyze", "x.db", "--output", "out")

    assert (answer.exit_code, "Traceback" in answer.output) == (2, False)
    assert says in answer.stderr


@pytest.mark.parametrize("properties", ["[]", "null", '{"num_xcc": null, "cu_count": "many", "rocm_perf_lab": {"versions": 3}}'])
def test_agents_without_properties(workplace: Workplace, properties: str) -> None:
    with Database(workplace.directory / "x.db") as database:
        fill(database, FIRST, 100)
        database.execute("UPDATE {info_agent} SET extdata = ?", properties)

    assert analysed(workplace, "x.db")["profile"]["gpu"]["name"] == "AMD Instinct MI300X"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("intact") / "x.db"
    with Database(path, version="3.0.3") as database:
        fill(database, FIRST, 100)
    return path.read_bytes()


def is_read_or_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        analyze_recording(AnalyzeRequest((path,)), path.parent / "out")
    except LabError as error:
        assert str(path) in str(error)


def test_a_truncated_file_is_rejected(intact: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    lengths = [*range(120), *random.Random(1).sample(range(120, len(intact)), 80), len(intact) - 1]

    for length in lengths:
        path.write_bytes(intact[:length])
        with pytest.raises(LabError, match=r"empty|truncated|not an SQLite"):
            analyze_recording(AnalyzeRequest((path,)), tmp_path / "out")


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bytes_are_an_error_or_have_no_effect(intact: bytes, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    used = [place for place, byte in enumerate(intact) if byte]

    for number in range(60):
        content = bytearray(intact)
        for place in chance.sample(range(100) if number % 4 == 0 else used, chance.randint(1, 5)):
            content[place] ^= 1 << chance.randrange(8)
        is_read_or_refused(tmp_path / "x.db", bytes(content))
