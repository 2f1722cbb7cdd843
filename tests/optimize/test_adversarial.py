"""Sources that cheat, race or compute something else, each in the directory of the stage that has to stop it.

The tricks are those that others have met (cached outputs, NaN wildcards, zeros under a loose tolerance, special-cased
inputs), and some more. `right/` holds rewrites that nothing may stop.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.verify.examiner import VacuousTolerance
from rocm_perf_lab.verify.policy import TrialPolicy
from tests.builders.judging import described, judge_of

if TYPE_CHECKING:
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.judge import Judge

DIRECTORY = Path(__file__).parent / "adversarial"
SOURCES = sorted(DIRECTORY.glob("*/*.hip"))
QUICK = {"cached_outputs", "clock", "host_code", "shuffle_32", "no_barrier", "writes_behind", "zeros", "nan_wildcard", "unrolled"}
"""One of each kind runs every time; all of them where slow tests run."""


@pytest.fixture(scope="module")
def description() -> KernelDescription:
    return described(DIRECTORY)


@pytest.fixture(scope="module")
def judge(description: KernelDescription) -> Judge:
    return judge_of(description)


@pytest.mark.parametrize(
    "source",
    [pytest.param(s, marks=() if s.stem in QUICK else pytest.mark.slow, id=f"{s.parent.name}-{s.stem}") for s in SOURCES],
)
def test_each_trick_is_stopped_where_it_has_to_be_and_no_honest_rewrite_is(source: Path, judge: Judge) -> None:
    judgement = judge.judge(source)

    assert judgement.stage == source.parent.name, judgement.reason


def test_the_gate_names_the_line(judge: Judge) -> None:
    judgement = judge.judge(DIRECTORY / "gate" / "no_barrier.hip")

    assert judgement.reason.startswith("no_barrier.hip:")
    assert "race on LDS offset" in judgement.reason


def test_a_tolerance_that_zeros_pass_is_refused_before_anything_is_judged(description: KernelDescription) -> None:
    loose = {"out": description.tolerance["out"].model_copy(update={"atol": 100.0})}

    with pytest.raises(VacuousTolerance, match=r"output 'out' could be all zeros"):
        judge_of(description.model_copy(update={"tolerance": loose}))


def test_a_baseline_that_differs_from_its_reference_is_refused(description: KernelDescription) -> None:
    wrong = {"out": "(a + b) * 1.6", "positive": "int32(sum(a + b > 0, axis=1))"}

    with pytest.raises(LabError, match="the unmodified kernel differs from its reference"):
        judge_of(description.model_copy(update={"reference": wrong}))


def test_without_leave_to_reassociate_a_last_bit_is_too_much(description: KernelDescription, tmp_path: Path) -> None:
    source = tmp_path / "honest.hip"
    text = (DIRECTORY / "honest.hip").read_text()
    source.write_text(text.replace("sum * scale;", "(a[row * cols + i] * scale) + b[row * cols + i] * scale;"))

    assert judge_of(description).judge(source).stage == "right"
    strict = judge_of(description, policy=TrialPolicy(reassociate=False)).judge(source)
    assert strict.stage == "verification"
    assert "which must be the same bit for bit" in strict.reason


def test_nan_may_be_ignored_where_the_policy_says_so(description: KernelDescription) -> None:
    lenient = judge_of(description, policy=TrialPolicy(nan="ignore"))

    assert lenient.judge(DIRECTORY / "verification" / "no_nan.hip").stage == "right"
    assert lenient.judge(DIRECTORY / "verification" / "nan_wildcard.hip").stage == "verification"


def test_equal_seeds_give_equal_trials_and_others_give_others(description: KernelDescription) -> None:
    first, again, other = (judge_of(description, policy=TrialPolicy(seed=s)).examiner.learned() for s in (1, 1, 2))

    assert [lesson.outputs["out"].tobytes() for lesson in first] == [lesson.outputs["out"].tobytes() for lesson in again]
    assert all(
        a.outputs["out"].tobytes() != b.outputs["out"].tobytes()
        for a, b in zip(first, other, strict=True)
        if a.trial.inputs == "random"
    )
