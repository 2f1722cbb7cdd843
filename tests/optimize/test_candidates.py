"""Rewrites of the experiments as a model might give them: wrong, racing, gaming the examination, or honest.

Each YAML file has those of one experiment. Whatever is not right has to be stopped, by the stage that is meant to, and with a
reason that tells what to change; nothing may stop an honest one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rocm_perf_lab.core.resources import resource_dir
from tests.builders.judging import described, judge_of

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.judge import Judge

DIRECTORY = Path(__file__).parent / "candidates"
EXPERIMENTS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(DIRECTORY.glob("*.yaml"))}
CASES = [(name, case) for name, content in EXPERIMENTS.items() for case in content["candidates"]]


@cache
def judge(experiment: str) -> Judge:
    """One that has learned the kernel, for all cases."""
    return judge_of(described(resource_dir("experiments") / experiment, **EXPERIMENTS[experiment]["params"]))


@pytest.mark.parametrize(
    ("experiment", "case"),
    [pytest.param(n, c, id=f"{n}: {c['name']}", marks=() if c.get("quick") else pytest.mark.slow) for n, c in CASES],
)
def test_what_is_wrong_is_stopped_with_a_reason_and_what_is_right_is_not(
    experiment: str, case: dict[str, Any], tmp_path: Path
) -> None:
    description = described(resource_dir("experiments") / experiment)
    text = description.source_path.read_text()
    for old, new in case["edits"]:
        assert old in text, f"the experiment has changed: no {old!r}"
        text = text.replace(old, new)
    source = tmp_path / description.source.name
    source.write_text(text)

    judgement = judge(experiment).judge(source)

    assert judgement.stage in (case["stage"], *case.get("also", ())), judgement.reason
    assert case.get("says", "") in judgement.reason


def test_the_cases_are_many_and_named_apart() -> None:
    wrong = [(name, case["name"]) for name, case in CASES if case["stage"] != "right"]
    right = [(name, case["name"]) for name, case in CASES if case["stage"] == "right"]

    assert len(set(wrong)) == len(wrong) >= 80
    assert len(set(right)) == len(right) >= 25
