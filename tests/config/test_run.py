"""The part of a configuration that every run needs is checked alone, and as thoroughly as the whole."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.config.errors import ConfigError, Origins
from rocm_perf_lab.config.run import parse_run_config
from rocm_perf_lab.jobs.lab import Lab
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = Origins({})


def composed(**changes: Any) -> dict[str, Any]:
    plain = {
        "target": load_target("mi300x").model_dump(by_alias=True),
        "passes": {"counters": ["SQ_WAVES"]},
        "tracking": {"_target_": "rocm_perf_lab.tracking.store.open_mlflow_tracker"},
        "job": {"_target_": "rocm_perf_lab.jobs.profile.application.ApplicationJob", "command": ["./app"]},
    }
    return {**plain, **changes}


def test_parts_for_other_jobs_may_be_missing_or_invalid() -> None:
    config = parse_run_config(composed(kernel={"no": "such thing"}), NOWHERE)

    assert config.target.name == "mi300x"
    assert config.passes.counters == ("SQ_WAVES",)
    assert config.display == "table"


@pytest.mark.parametrize(
    ("changes", "says", "hint"),
    [
        ({"passes": {"counter": []}}, "unknown key 'passes.counter'", "did you mean passes.counters?"),
        ({"passes": {"runs": 0}}, "passes.runs", None),
        (
            {"job": {"_target_": "rocm_perf_lab.jobs.profile.application.ApplicationJob", "comand": []}},
            "'job.comand'",
            "job.command",
        ),
        ({"tracking": {"_target_": "no.such.module"}}, "cannot import 'no.such.module'", "dotted Python path"),
    ],
)
def test_an_invalid_key_or_value_is_named(changes: dict[str, Any], says: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_run_config(composed(**changes), NOWHERE)

    assert says in refused.value.what
    assert hint is None or hint in str(refused.value.hint)


def test_the_whole_configuration_is_read_when_a_job_asks_for_it(tmp_path: Path) -> None:
    plain = composed(kernel={"no": "such thing"})
    lab = Lab.open(parse_run_config(plain, NOWHERE), resolved=plain, output_dir=tmp_path)

    with pytest.raises(ConfigError):
        _ = lab.config


def test_neither_search_spaces_nor_numpy_are_imported_for_it() -> None:
    program = "import sys, rocm_perf_lab.config.run; print({'numpy', 'rocm_perf_lab.autotune.spaces.space'} & set(sys.modules))"

    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert said.stdout == "set()\n"
