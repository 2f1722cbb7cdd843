"""Rewrites of the experiments as a model might write them: wrong, racing, cheating, or correct.

Each YAML file has the rewrites of one experiment, with the stage that rejects them alone and a part of its reason; an earlier
trial may reject them at another stage. Correct rewrites must pass.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rocm_perf_lab.core.resources import resource_dir
from tests.builders.candidates import checker_of, described

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.candidate import CandidateChecker

DIRECTORY = Path(__file__).parent / "candidates"
EXPERIMENTS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(DIRECTORY.glob("*.yaml"))}
MARKS: dict[str | None, Any] = {"fast": (), "slow": pytest.mark.slow, None: pytest.mark.corpus}
CASES = [(name, case) for name, content in EXPERIMENTS.items() for case in content["candidates"]]


@cache
def checker(experiment: str) -> CandidateChecker:
    """Return the checker of an experiment, shared by its cases."""
    return checker_of(described(resource_dir("experiments") / experiment, **EXPERIMENTS[experiment]["params"]))


@pytest.mark.parametrize(
    ("experiment", "case"), [pytest.param(n, c, id=f"{n}: {c['name']}", marks=MARKS[c.get("suite")]) for n, c in CASES]
)
def test_each_candidate_is_judged_as_its_label_says(experiment: str, case: dict[str, Any], tmp_path: Path) -> None:
    description = described(resource_dir("experiments") / experiment)
    text = description.source_path.read_text()
    for old, new in case["edits"]:
        assert old in text, f"the experiment has changed: no {old!r}"
        text = text.replace(old, new)
    source = tmp_path / description.source.name
    source.write_text(text)

    result = checker(experiment).check(source)

    assert (result.stage == "right") == (case["stage"] == "right"), result.reason
    assert result.stage != case["stage"] or case.get("says", "") in result.reason


def test_names_of_candidates_are_unique() -> None:
    wrong = [(name, case["name"]) for name, case in CASES if case["stage"] != "right"]
    right = [(name, case["name"]) for name, case in CASES if case["stage"] == "right"]

    assert len(set(wrong)) == len(wrong) >= 80
    assert len(set(right)) == len(right) >= 25
