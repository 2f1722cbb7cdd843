"""`autotune.json`: the committed schema, and documents of earlier releases."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from rocm_perf_lab.autotune.document import AutotuneDocument, export_schema
from rocm_perf_lab.autotune.spaces.space_files import space_of_list
from rocm_perf_lab.jobs.autotune.priors import trials_of

REPOSITORY = Path(__file__).parents[2]
SCHEMA = REPOSITORY / "docs" / "schemas" / "autotune.schema.json"
EARLIER = REPOSITORY / "tests" / "data" / "autotune_1_0.json"
"""As the first release with version 1.0 wrote it: 20 configurations of a command, 4 of them infeasible."""


def test_the_committed_schema_equals_that_of_the_model(tmp_path: Path) -> None:
    assert export_schema(tmp_path).read_text() == SCHEMA.read_text()


def test_an_earlier_document_is_valid() -> None:
    content = json.loads(EARLIER.read_text())

    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(content)
    document = AutotuneDocument.model_validate(content)

    assert (document.evaluated_configs, document.infeasible_configs) == (20, 4)
    assert document.best_config is not None
    assert document.best_config.parameters == {"BLOCK_M": 48, "BLOCK_N": 32}
    assert document.failures[0].reason == "ends with exit code 3: out of LDS"


def test_an_earlier_document_is_a_prior() -> None:
    space = space_of_list([{"BLOCK_M": m, "BLOCK_N": n} for m in (32, 48) for n in (16, 32, 64)], where="test")

    times = {tuple(trial.parameters.values()): trial.runtime_ms for trial in trials_of(EARLIER.read_text(), str(EARLIER))}

    assert times[48, 32] == 1.0
    assert all(tuple(space.configuration(row).values()) in times for row in range(len(space)))


def test_numbers_that_json_does_not_have_are_null() -> None:
    content = json.loads(EARLIER.read_text())
    content["model"]["r2"] = float("nan")

    assert json.loads(AutotuneDocument.model_validate(content).model_dump_json())["model"]["r2"] is None
