"""`passes=deep`: one command leaves a thread trace, its analysis, and the hottest lines on the screen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.analysis.documents import export_schemas
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.rocprof.att.directories import find_directories
from rocm_perf_lab.rocprof.att.model import AttTrace, Category, Column, State
from rocm_perf_lab.rocprof.att.reader import read_directory

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [
    sys.executable, "-m", "rocm_perf_lab", "job=profile", "kernel=softmax", "kernel.params.rows=16", "device=emulator",
    "passes=deep", "tracking=none",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run's directory, and what was printed."""
    work = tmp_path_factory.mktemp("deep")
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "100"}
    command = [*COMMAND, f"hydra.run.dir={work / 'run'}"]
    finished = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return work / "run", finished.stdout


@pytest.fixture(scope="module")
def trace(run: tuple[Path, str]) -> AttTrace:
    (directory,) = find_directories(run[0] / "att")
    return read_directory(directory)


def analysis_document(run: tuple[Path, str]) -> Any:
    return json.loads((run[0] / "analysis.json").read_text())


def test_the_directory_is_read_without_a_note_and_called_emulated(trace: AttTrace) -> None:
    assert trace.notes == ()
    assert (trace.provenance.device, trace.provenance.emulated, trace.provenance.gfxip) == ("emulator", True, 9)
    assert [label.name for label in trace.kernels] == ["softmax_kernel"]
    assert [row.line for row in trace.rows] == list(range(1, len(trace.rows) + 1))


def test_totals_of_the_code_are_the_sums_of_the_wavefronts(trace: AttTrace) -> None:
    for row in trace.rows:
        mine = [wave.instructions[wave.instructions[:, Column.LINE] == row.line] for wave in trace.waves]
        assert row.hits == sum(len(part) for part in mine)
        assert row.latency == sum(int(part[:, Column.DURATION].sum()) for part in mine)
        assert row.stall == sum(int(part[:, Column.STALL].sum()) for part in mine)
        assert row.stall <= row.latency


def test_latency_and_idle_are_the_whole_life_of_the_wavefronts(trace: AttTrace) -> None:
    assert sum(row.cycles for row in trace.rows) == sum(wave.cycles for wave in trace.waves)
    for wave in trace.waves:
        assert wave.timeline[:, 1].sum() == wave.cycles
        # The first workgroup on a compute unit waits for its code to arrive from memory.
        kind, clocks = wave.timeline[0]
        assert kind == State.IDLE
        assert wave.instructions[0, Column.TIME] == wave.begin + clocks
        assert wave.instructions[-1, Column.CATEGORY] == Category.MESSAGE
    waiting = sum(int(wave.timeline[wave.timeline[:, 0] == State.WAIT, 1].sum()) for wave in trace.waves)
    immediate = [wave.instructions[wave.instructions[:, Column.CATEGORY] == Category.IMMEDIATE] for wave in trace.waves]
    assert waiting == sum(int(part[:, Column.STALL].sum()) for part in immediate)


def test_hits_are_the_executions_of_the_traced_wavefronts(run: tuple[Path, str], trace: AttTrace) -> None:
    # All 16 workgroups do the same work: a traced wavefront executes what an average one does.
    mix = json.loads((run[0] / "profile.json").read_text())["instruction_mix"]

    assert sum(row.hits for row in trace.rows) / len(trace.waves) == pytest.approx(mix["all"]["per_wave"], rel=0.01)
    assert trace.rows[0].hits == len(trace.waves)


def test_rows_carry_source_lines(trace: AttTrace) -> None:
    assert any(row.source.startswith("softmax.hip:") for row in trace.rows)


def test_waits_name_the_loads_that_they_waited_for(trace: AttTrace) -> None:
    texts = {row.line: row.text for row in trace.rows}
    links = [(texts[wait], [texts[cause] for cause in found]) for wave in trace.waves for wait, found in wave.waits]

    vector = [found for wait, found in links if re.fullmatch(r"s_waitcnt vmcnt\(\d+\)", wait)]
    assert vector
    assert all(cause.startswith("global_") for found in vector for cause in found)


def test_occupancy_and_states_cover_the_wavefronts(trace: AttTrace) -> None:
    assert len(trace.occupancy[0]) == 2 * len(trace.waves)
    assert trace.states[State.WAIT].waves[-1] == 0
    assert trace.states[State.EXEC].waves.max() <= len(trace.waves)


def test_the_analysis_charges_nearly_all_waits(trace: AttTrace) -> None:
    result = analyse(trace, symbol="softmax_kernel")

    assert isinstance(result, ThreadTrace)
    assert result.unattributed_cycles < 0.02 * result.wait_cycles
    assert next(iter(result.charged)) == "vmem"
    assert 120 <= result.memory_latency["vmem"].median <= 2000


def test_analysis_json_has_the_block_and_fits_its_schema(run: tuple[Path, str], tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = analysis_document(run)
    schemas = {path.name: json.loads(path.read_text()) for path in export_schemas(tmp_path)}

    jsonschema.validate(document, schemas["analysis.schema.json"])
    assert document["att_reason"] is None
    assert sum(document["att"][f"{name}_fraction"] for name in ("stall", "issue", "idle")) == pytest.approx(1)
    part = document["thread_trace"]
    assert part["time_kind"] == "emulated"
    assert sum(one["cycles"] for one in part["classes"].values()) == part["total"]["cycles"]
    assert sum(line["cycles"] for line in part["lines"]) == part["total"]["cycles"]
    assert sum(line["caused_cycles"] for line in part["lines"]) == pytest.approx(part["total"]["cycles"])
    assert "64 wavefronts were traced" in part["limits"][0]


def test_the_three_hottest_lines_are_on_the_screen(run: tuple[Path, str]) -> None:
    hottest = [line["source"] for line in analysis_document(run)["thread_trace"]["lines"][:3]]

    assert "hottest lines" in run[1]
    assert all(source in run[1] for source in hottest)


@pytest.mark.slow
def test_without_the_pass_there_is_a_reason_and_no_directory(tmp_path: Path) -> None:
    command = [*(word for word in COMMAND if word != "passes=deep"), f"hydra.run.dir={tmp_path / 'run'}"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)

    document = json.loads((tmp_path / "run" / "analysis.json").read_text())
    assert (document["att"], document["thread_trace"]) == (None, None)
    assert "passes=deep" in document["att_reason"]
    assert not (tmp_path / "run" / "att").exists()
