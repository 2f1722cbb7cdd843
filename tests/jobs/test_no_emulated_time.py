"""Jobs on a target whose architecture the emulator executes without a timing model: exact counters, and no times anywhere."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from rocm_perf_lab.analysis.documents import export_schemas
from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.optimize.counter_rule import DECIDING_COUNTERS, ExactCounts, decide_by_counters
from rocm_perf_lab.rocprof.reader import read_database
from tests.builders.command import rocm_perf
from tests.builders.report_pages import run_data

if TYPE_CHECKING:
    from pathlib import Path

ON_RDNA2 = ("target=rx6800xt", "device=emulator", "tracking=none")
COUNTED = frozenset({"SQ_INSTS", "SQ_INSTS_VALU", "SQ_INSTS_VMEM_RD"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("profile") / "run"
    words = ("job=profile", "kernel=vector_add", "kernel.params.n=2048", "passes=deep", *ON_RDNA2)
    with redirect_stdout(StringIO()) as printed:
        assert run_lab([*words, f"hydra.run.dir={directory}"]) == 0
    (directory / "printed.txt").write_text(printed.getvalue())
    return directory


def document(directory: Path, name: str) -> Any:
    return json.loads((directory / f"{name}.json").read_text())


def test_a_profile_has_exact_counters_and_no_time(run: Path) -> None:
    profile = document(run, "profile")

    assert (profile["runtime_ms"], profile["error_bands"], profile["result"]) == (None, None, "correct")
    # 8 workgroups of 256 work-items are 64 wavefronts of 32 lanes, each with two loads and a store.
    assert profile["waves"] == 64
    counters = {name: value for counted in profile["counters"] for name, value in counted.items()}
    assert counters["SQ_INSTS_VMEM_RD"] == 2 * 64
    assert counters["SQ_INSTS_VMEM_WR"] == 64
    assert profile["roofline"] is None
    # The hardware has no counters for these.
    assert counters["SQ_INSTS"] > counters["SQ_INSTS_VALU"]
    assert counters["SQ_INSTS_BRANCH"] == 64  # each wavefront jumps over work-items beyond the end
    assert not any(name.startswith(("TCC_", "TCP_", "GRBM_", "SQ_BUSY", "SQ_INSTS_MFMA")) for name in counters)


def test_the_screen_shows_the_counted_instructions(run: Path) -> None:
    # Per wavefront two loads and a store are three vector memory instructions.
    (line,) = (line for line in (run / "printed.txt").read_text().splitlines() if "instructions per wave" in line)

    assert "VMEM 3" in line


def test_its_documents_follow_their_schemas(run: Path, tmp_path: Path) -> None:
    schemas = {path.name.split(".")[0]: json.loads(path.read_text()) for path in export_schemas(tmp_path)}

    for name in ("profile", "analysis", "dag"):
        jsonschema.validate(document(run, name), schemas[name])


def test_its_database_has_no_stamps_and_says_so(run: Path) -> None:
    trace = read_database(next(run.rglob("*.db")))

    assert not trace.dispatches.start_ns.any()
    assert not trace.dispatches.end_ns.any()
    assert (trace.provenance.emulated, trace.provenance.has_times) == (True, False)


def test_its_report_shows_the_reason_in_the_place_of_a_time(run: Path) -> None:
    assert run_data(run / "report.html")["profile"]["runtime_ms"] is None
    assert not list(run.glob("*.perfetto-trace"))


def test_profiles_without_times_are_not_compared(run: Path) -> None:
    answer = rocm_perf("compare", run, run)

    assert answer.code == 2
    assert "error: no emulated time for this architecture: there are no times to compare" in answer.err


def test_autotune_refuses_to_rank(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("job=autotune", "kernel=reduction", "space=gemm", *ON_RDNA2)

    assert run_lab([*words, f"hydra.run.dir={tmp_path / 'run'}"]) == 2

    error = capfd.readouterr().err
    assert "error: no emulated time for this architecture: autotune cannot rank configurations" in error
    assert "target=rx6800xt" in error


def test_a_timed_replay_is_refused_as_bad_input(tmp_path: Path) -> None:
    words = ("job=replay_capture", "kernel=vector_add", "kernel.params.n=256", f"job.output={tmp_path / 'capture'}", *ON_RDNA2)
    assert run_lab([*words, f"hydra.run.dir={tmp_path / 'run'}"]) == 0

    answer = rocm_perf("replay", "full-vm", "--capture-dir", tmp_path / "capture", "--device", "emulator")

    assert answer.code == 2
    assert "error: no emulated time for this architecture: replays of it cannot be timed" in answer.err
    assert "gfx1030" in answer.err
    assert "Memory reconstructed" not in answer.out


def counts(**values: float) -> ExactCounts:
    return ExactCounts(dict.fromkeys(COUNTED, 100.0) | values, 16.0, countable=COUNTED)


def test_counters_decide_among_those_that_the_architecture_has() -> None:
    fewer = decide_by_counters(counts(), counts(SQ_INSTS=90.0, SQ_INSTS_VALU=90.0), old_ns=0.0, new_ns=0.0)
    more = decide_by_counters(counts(), counts(SQ_INSTS_VALU=90.0, SQ_INSTS_VMEM_RD=101.0), old_ns=0.0, new_ns=0.0)

    assert fewer.accepted
    assert fewer.reason == (
        "accepted by exact counters: 10% fewer VALU instructions, none grew; "
        "cache lines and LDS conflicts are not counted on this architecture"
    )
    assert (more.accepted, more.reason) == (False, "exact counters do not decide: more VMEM reads")
    assert set(DECIDING_COUNTERS) > COUNTED
