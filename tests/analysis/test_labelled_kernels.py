"""Kernels that were built to show one bottleneck each are classified as what they were built to be."""

import pytest

from benchmarks.bottlenecks import CASES, Outcome, classify_all


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(classify_all())


def test_every_labelled_kernel_is_recognised(outcomes: list[Outcome]) -> None:
    wrong = [(o.case.kernel, o.case.label, o.name) for o in outcomes if o.name != o.case.label]

    assert wrong == []


def test_every_answer_carries_its_evidence(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == len(CASES)
    assert all(any(letter.isdigit() for letter in o.reason) for o in outcomes)
