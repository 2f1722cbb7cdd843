"""Harmless and refused rewrites of several kernels: the first two tables were written with the rules, the others after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.guard_snippets import edited, experiment, guard_outcome, guards_of

DIRECTORY = Path(__file__).parent / "guard_snippets"
pytestmark = pytest.mark.slow


def _cases(*names: str) -> list[Any]:
    return [
        pytest.param(kernel, case, id=f"{kernel}: {case['name']}")
        for name in names
        for kernel, rows in yaml.safe_load((DIRECTORY / name).read_text()).items()
        for case in rows
    ]


RIGHT = _cases("right.yaml", "right_unseen.yaml")
WRONG = _cases("wrong.yaml", "wrong_unseen.yaml")


@pytest.mark.parametrize(("kernel", "case"), RIGHT)
def test_harmless_rewrites_pass(kernel: str, case: dict[str, Any], tmp_path: Path) -> None:
    text = edited(experiment(kernel).source_path.read_text(), case["edits"])

    stage, reason, _ = guard_outcome(kernel, text, tmp_path, guards_of(case.get("inline_assembly", "refused")))

    assert (stage, reason) == ("none", "")


@pytest.mark.parametrize(("kernel", "case"), WRONG)
def test_other_rewrites_are_refused_with_a_reason(kernel: str, case: dict[str, Any], tmp_path: Path) -> None:
    text = edited(experiment(kernel).source_path.read_text(), case["edits"])

    stage, reason, _ = guard_outcome(kernel, text, tmp_path, guards_of(case.get("inline_assembly", "refused")))

    assert stage == case.get("stage", "guard"), reason
    assert case["says"] in reason


def test_both_tables_are_large_enough() -> None:
    assert len(RIGHT) >= 60
    assert len(WRONG) >= 60
