"""The four JSON documents: their content, their schemas, their writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from rocm_perf_lab.analysis.describe import describe
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.analysis.documents import DOCUMENTS
from rocm_perf_lab.cli import main
from rocm_perf_lab.profiling.documents import DocumentError, write_documents
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.profiles import vec_copy_counters, vec_copy_trace
from tests.builders.rocpd import REDUCE, dispatch, recorded_run

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
TARGET = load_target("mi300x")


def written(directory: Path, counters: dict[str, float] | None = None) -> dict[str, Any]:
    trace = vec_copy_trace(directory, counters)
    profile = build_profile(trace, target=TARGET, identity_note="no /dev/kfd")
    documents = describe(profile, diagnose(profile, trace, deterministic=True), trace)
    paths = write_documents(directory / "out", documents)
    return {path.name: json.loads(path.read_text()) for path in paths}


def test_committed_schemas_are_those_of_the_models(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["schemas", str(tmp_path)]).exit_code == 0

    exported = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert exported.keys() == {path.name for path in SCHEMAS.glob("*.schema.json")}
    assert [name for name, text in sorted(exported.items()) if text != (SCHEMAS / name).read_text()] == []


@pytest.mark.parametrize("counters", [None, {}, {"SQ_WAVES": 4.0}])
def test_every_document_fits_its_schema(tmp_path: Path, counters: dict[str, float] | None) -> None:
    documents = written(tmp_path, counters)

    assert set(documents) == set(DOCUMENTS)
    for name, document in documents.items():
        schema = json.loads((SCHEMAS / name.replace(".json", ".schema.json")).read_text())
        jsonschema.Draft202012Validator(schema).validate(document)
        assert document["schema_version"] == ("1.4" if name == "profile.json" else "1.0")


def test_profile_json_states_kernel_time_and_instructions(tmp_path: Path) -> None:
    profile = written(tmp_path)["profile.json"]

    assert profile["kernel"]["mangled_name"] == "_Z7vecCopyPdS_S_ii"
    assert (profile["kernel"]["grid"], profile["kernel"]["block"]) == ([4096, 1, 1], [256, 1, 1])
    assert (profile["runtime_ms"], profile["stability"]["classification"]) == (0.01, "stable")
    assert profile["instruction_mix"]["valu"] == {"total": 98304.0, "per_wave": 6.0}
    assert profile["instruction_mix"]["smem"]["per_wave"] == 4
    assert (profile["occupancy"]["theoretical"], profile["occupancy"]["threads_per_block"]) == (1.0, 256)


def test_an_emulated_time_is_called_emulated_in_every_document(tmp_path: Path) -> None:
    documents = written(tmp_path)

    assert documents["profile.json"]["provenance"]["time_kind"] == "emulated"
    assert {documents[name]["time_kind"] for name in ("roofline.json", "dag.json", "analysis.json")} == {"emulated"}


def test_without_counters_the_roofline_is_null_with_a_reason(tmp_path: Path) -> None:
    documents = written(tmp_path, {})

    assert (documents["profile.json"]["roofline"], documents["roofline.json"]["roofline"]) == (None, None)
    assert documents["profile.json"]["roofline_reason"] == "no counters were collected"
    assert documents["profile.json"]["instruction_mix"] is None
    assert documents["analysis.json"]["bottleneck"] == "unknown"


def test_analysis_json_classifies_the_copy_as_memory_bound(tmp_path: Path) -> None:
    analysis = written(tmp_path)["analysis.json"]

    assert (analysis["operational_intensity"], analysis["roofline_position"]) == (0.0, "memory_bound")
    assert (analysis["critical_path_score"], analysis["time_ms"]) == (1.0, 0.01)
    assert analysis["metrics"]["active_lanes"] == 64
    assert analysis["metric_reasons"]["wait_share"] == "not collected: SQ_WAIT_ANY"
    assert analysis["headroom"]["limited_by"] == "dram"


def test_dag_json_shares_the_critical_path_between_kernels(tmp_path: Path) -> None:
    write_database(tmp_path / "x.db", recorded_run(TARGET, [dispatch(100, 400), dispatch(400, 500, kernel=REDUCE)]))
    trace = read_database(tmp_path / "x.db")
    profile = build_profile(trace, target=TARGET)

    documents = describe(profile, diagnose(profile, trace, deterministic=True), trace)

    dag = documents["dag.json"].model_dump(mode="json")
    assert (dag["critical_path_ns"], dag["critical_path"], dag["edges"]) == (400, [0, 1], [[0, 1]])
    assert [(kernel["kernel"][:7], kernel["share"]) for kernel in dag["kernels"]] == [
        ("vecCopy", 0.75),
        ("reduce", 0.25),
    ]
    assert [node["start_ns"] for node in dag["nodes"]] == [0, 300]


def test_a_nan_counter_becomes_a_reason(tmp_path: Path) -> None:
    documents = written(tmp_path, {**vec_copy_counters(), "SQ_LDS_IDX_ACTIVE": -5.0})

    assert "impossible counter values" in documents["analysis.json"]["metric_reasons"]["lds_bytes"]


def test_documents_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the directory should be")

    with pytest.raises(DocumentError, match="cannot write profile"):
        written(tmp_path)
