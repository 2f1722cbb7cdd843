"""Every JSON document in the directory of a run has a schema of `rocm-perf schemas`, and is valid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner

import rocm_perf_lab as lab
from rocm_perf_lab.cli import main
from rocm_perf_lab.device.protocol import Finding
from rocm_perf_lab.jobs.profile.workbench import write_findings

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURATION = "config.json"
"""Input of a run: the composed configuration, whose models are in config/."""
OTHER_NAMES = {"replay_captured": "replay", "replay_override": "replay", "dispatch": "capture_dispatch",
               "memory_regions": "capture_memory_regions", "manifest": "capture_manifest"}  # fmt: skip
"""Schemas of documents with other names."""
AT: dict[str, Any] = {"device": "emulator", "tracking": "none"}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("schemas")
    assert CliRunner().invoke(main, ["schemas", str(directory)]).exit_code == 0
    return {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in directory.glob("*.json")}


def validated(run: Path, schemas: dict[str, Any]) -> set[str]:
    """Validate the documents of a run and of its parts; return their names."""
    places = [run, *(path for path in run.rglob("*") if path.is_dir() and not {"att", ".rocpd_profile"} & set(path.parts))]
    names = set()
    for path in sorted(path for place in places for path in place.glob("*.json") if path.name != CONFIGURATION):
        name = OTHER_NAMES.get(path.stem, path.stem)
        content = json.loads(path.read_text())
        # The documents of `replay full-vm` and of the job have the same file name.
        jsonschema.validate(content, schemas["replay_job" if name == "replay" and "override" in content else name])
        names.add(path.stem)
    return names


def test_the_documents_of_a_profile_are_valid(schemas: dict[str, Any], tmp_path: Path) -> None:
    run = lab.profile("vector_add", n=4096, output=tmp_path, **AT)

    assert validated(run.directory, schemas) == {"profile", "analysis", "roofline", "dag", "instruction_counts", "origin"}


def test_findings_are_valid(schemas: dict[str, Any], tmp_path: Path) -> None:
    write_findings([Finding("races", "two work-items write one element", "k.hip:3")], tmp_path)

    assert validated(tmp_path, schemas) == {"checks"}


@pytest.mark.slow
def test_the_documents_of_an_optimization_a_search_and_a_replay_are_valid(schemas: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("{parameters: {block: [64, 128]}}")
    overrides = ["optimizer=quick", "kernel.params.rows=16", "kernel.params.cols=1024"]

    optimized = lab.optimize("softmax", budget=1, overrides=overrides, output=tmp_path / "optimized", **AT)
    tuned = lab.autotune("vector_add", n=4096, space=tmp_path / "space.yaml", budget=2, output=tmp_path / "tuned", **AT)

    assert {"optimize", "profile", "analysis"} <= validated(optimized.directory, schemas)
    assert "autotune" in validated(tuned.directory, schemas)


def test_an_unknown_field_of_an_optimization_is_invalid(schemas: dict[str, Any]) -> None:
    assert schemas["optimize"]["additionalProperties"] is False
