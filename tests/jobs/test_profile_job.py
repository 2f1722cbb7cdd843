"""`job=profile`: documents that follow their schemas, and equal runs that give equal documents."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rocm_perf_lab.analysis.documents import export_schemas
from rocm_perf_lab.cli.entry import run_lab

PROFILE = ("job=profile", "kernel=softmax", "kernel.params.rows=16", "device=emulator", "tracking=none")
DOCUMENTS = ("profile", "roofline", "dag", "analysis")


def profiled(directory: Path, *words: str) -> Path:
    assert run_lab([*PROFILE, f"hydra.run.dir={directory}", *words]) == 0
    return directory


def document(directory: Path, name: str) -> Any:
    return json.loads((directory / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return profiled(tmp_path_factory.mktemp("profile") / "run")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_follows_its_exported_schema(run: Path, name: str, tmp_path: Path) -> None:
    schemas = {path.name.split(".")[0]: json.loads(path.read_text()) for path in export_schemas(tmp_path)}

    jsonschema.validate(document(run, name), schemas[name])
    assert document(run, name)["schema_version"] == ("1.4" if name == "profile" else "1.0")


def test_the_profile_says_where_its_numbers_come_from(run: Path) -> None:
    provenance = document(run, "profile")["provenance"]

    assert provenance["device"] == "emulator"
    assert provenance["emulated"] is True
    assert provenance["time_kind"] == "emulated"


def test_equal_inputs_give_equal_documents_but_for_the_database_with_its_dates(run: Path, tmp_path: Path) -> None:
    again = profiled(tmp_path / "again")

    for name in DOCUMENTS:
        first, second = document(run, name), document(again, name)
        for one in (first, second):
            one.get("provenance", {}).get("hashes", {}).pop("database", None)
        assert first == second


def test_results_do_not_depend_on_the_number_of_threads(run: Path, tmp_path: Path) -> None:
    one_thread = profiled(tmp_path / "one", "device.threads=1")

    assert document(one_thread, "profile")["counters"] == document(run, "profile")["counters"]
    assert document(one_thread, "profile")["runtime_ms"] == document(run, "profile")["runtime_ms"]


def test_another_size_takes_an_override(tmp_path: Path) -> None:
    short = profiled(tmp_path / "short", "kernel.params.cols=1024")

    assert (
        document(short, "profile")["instruction_mix"]["vmem"]["per_wave"] == 3 * 4 + 4
    )  # three passes over 4 elements, one store each


def test_the_result_is_correct_or_not_checked(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(run, "profile")["result"] == "correct"

    unchecked = profiled(tmp_path / "unchecked", "passes=trace", "kernel.reference='baseline output'")

    assert document(unchecked, "profile")["result"] == "not checked"
    assert re.search(r"result\W+not checked", capsys.readouterr().out)


def test_without_counters_the_profile_says_what_is_missing(tmp_path: Path) -> None:
    bare = profiled(tmp_path / "bare", "passes=trace")

    profile = document(bare, "profile")

    assert profile["roofline"] is None
    assert profile["roofline_reason"]
    assert profile["runtime_ms"] > 0


def test_the_profile_keeps_the_times_that_its_statistics_are_of(run: Path) -> None:
    profile = document(run, "profile")

    assert profile["stability"]["durations_ms"] == [profile["runtime_ms"]]
    assert profile["kernels"][0]["durations_ms"] == [profile["runtime_ms"]]
    assert profile["stability"]["warnings"] == []


def test_a_roofline_is_drawn_and_plots_can_be_left_out(run: Path, tmp_path: Path) -> None:
    assert (run / "roofline.png").read_bytes().startswith(b"\x89PNG")
    assert "emulated" in (run / "roofline.html").read_text()

    plain = profiled(tmp_path / "plain", "passes.plots=false")

    assert not list(plain.glob("roofline.[ph][nt]*"))


def test_measured_peaks_come_from_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "roofline.csv").write_text("device,HBMBw,FP32Flops\n0,4000,60000\n")

    found = document(profiled(tmp_path / "run", f"passes.roofline_csv={tmp_path / 'roofline.csv'}"), "roofline")["roofline"]

    assert (found["peak_gb_per_s"], found["peaks"]) == (4000, "empirical: roofline.csv, device 0")
    assert run_lab([*PROFILE, f"hydra.run.dir={tmp_path / 'no'}", "passes.roofline_csv=/nowhere/roofline.csv"]) == 2
