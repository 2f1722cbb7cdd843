"""Sources that cheat, race or compute wrong results, each in the directory of the stage that must reject it.

They include published cases: cached outputs, NaN wildcards, zeros under a loose tolerance, special-cased inputs. `right/` has
rewrites that must pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.verify.checker import VacuousToleranceError
from rocm_perf_lab.verify.policy import TrialPolicy
from tests.builders.candidates import checker_of, described

if TYPE_CHECKING:
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.candidate import CandidateChecker

DIRECTORY = Path(__file__).parent / "adversarial"
SOURCES = sorted(DIRECTORY.glob("*/*.hip"))
QUICK = {"cached_outputs", "clock", "host_code", "writes_behind", "zeros", "nan_wildcard", "unrolled"}
"""One source of each kind; `make corpus` runs the others."""


@pytest.fixture(scope="module")
def description() -> KernelDescription:
    return described(DIRECTORY)


@pytest.fixture(scope="module")
def checker(description: KernelDescription) -> CandidateChecker:
    return checker_of(description)


@pytest.mark.parametrize(
    "source",
    [pytest.param(s, marks=() if s.stem in QUICK else pytest.mark.corpus, id=f"{s.parent.name}-{s.stem}") for s in SOURCES],
)
def test_each_source_ends_at_its_stage(source: Path, checker: CandidateChecker) -> None:
    result = checker.check(source)

    assert result.stage == source.parent.name, result.reason


def test_a_finding_names_the_source_line(checker: CandidateChecker) -> None:
    result = checker.check(DIRECTORY / "gate" / "no_barrier.hip")

    assert result.reason.startswith("no_barrier.hip:")
    assert "race on LDS offset" in result.reason


def test_a_tolerance_that_accepts_zeros_is_rejected(description: KernelDescription) -> None:
    loose = {"out": description.tolerance["out"].model_copy(update={"atol": 100.0, "note": "approximate sums"})}

    with pytest.raises(VacuousToleranceError, match=r"output 'out' could be all zeros"):
        checker_of(description.model_copy(update={"tolerance": loose}))


def test_a_baseline_that_differs_from_its_reference_is_rejected(description: KernelDescription) -> None:
    wrong = {"out": "(a + b) * 1.6", "positive": "int32(sum(a + b > 0, axis=1))"}

    with pytest.raises(LabError, match="the unmodified kernel differs from its reference"):
        checker_of(description.model_copy(update={"reference": wrong}))


@pytest.mark.slow
def test_without_reassociation_results_must_be_bitwise_identical(description: KernelDescription, tmp_path: Path) -> None:
    source = tmp_path / "honest.hip"
    text = (DIRECTORY / "honest.hip").read_text()
    source.write_text(text.replace("sum * scale;", "(a[row * cols + i] * scale) + b[row * cols + i] * scale;"))

    assert checker_of(description).check(source).stage == "right"
    strict = checker_of(description, policy=TrialPolicy(reassociate=False)).check(source)
    assert strict.stage == "verification"
    assert "which must be bitwise identical" in strict.reason


@pytest.mark.slow
def test_the_policy_can_ignore_nan(description: KernelDescription) -> None:
    lenient = checker_of(description, policy=TrialPolicy(nan="ignore"))

    assert lenient.check(DIRECTORY / "verification" / "no_nan.hip").stage == "right"
    assert lenient.check(DIRECTORY / "verification" / "nan_wildcard.hip").stage == "verification"


@pytest.mark.slow
def test_trials_depend_on_the_seed_only(description: KernelDescription) -> None:
    first, again, other = (checker_of(description, policy=TrialPolicy(seed=s)).correctness.baseline_trials() for s in (1, 1, 2))

    assert [trial.outputs["out"].tobytes() for trial in first] == [trial.outputs["out"].tobytes() for trial in again]
    assert {trial.trial.name for trial in first}.isdisjoint(trial.trial.name for trial in other)
    shapes = [{tuple(trial.trial.params.items()) for trial in trials} for trials in (first, other)]
    assert len(shapes[0] - shapes[1]) > len(shapes[0]) / 2
