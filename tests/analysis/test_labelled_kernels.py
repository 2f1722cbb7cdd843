"""Classification of kernels built to show one bottleneck each."""

import pytest

from benchmarks.bottleneck_cases import FIRST, HELD_OUT, UNSEEN, Case
from benchmarks.bottlenecks import Outcome, classify_all

QUICK = {
    "fill", "copy_f64", "mall_sweep", "l2_sweep", "l1_scattered", "fma_f64", "hash_rounds", "scalar_rounds",
    "lone_lane", "few_conflicts", "one_counter", "static_lds", "dynamic_lds", "long_loop", "rare_work", "own_trips",
    "two_way", "eight_way", "reset", "add_some",
}  # fmt: skip
"""Fast cases of each class (less than a second each on the emulator); the others are slow tests."""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(classify_all([case for case in HELD_OUT if case.kernel in QUICK]))


def wrong(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(o.case.kernel, o.case.label, o.name) for o in outcomes if o.name != o.case.label]


def test_every_labelled_kernel_is_classified_correctly(outcomes: list[Outcome]) -> None:
    assert wrong(outcomes) == []


def test_every_classification_has_evidence(outcomes: list[Outcome]) -> None:
    assert all(any(letter.isdigit() for letter in o.reason) for o in outcomes)


def test_memory_level_and_occupancy_limiter_are_named(outcomes: list[Outcome]) -> None:
    assert_names(outcomes)


def assert_names(outcomes: list[Outcome]) -> None:
    """Each outcome that is right also names the level, or the limiter, that its case states before a colon."""
    words = {"memory_bandwidth_bound": "memory_level", "under_occupied": "limiter"}
    right = [o for o in outcomes if o.name == o.case.label and o.name in words and ":" in o.case.why]
    stated = {(o.case.kernel, o.case.why.partition(":")[0]): o.evidence.words[words[o.name]] for o in right}
    checked = {key: found for key, found in stated.items() if key[1] != "grid"}

    assert checked == {key: key[1] for key in checked}


@pytest.mark.slow
def test_slow_kernels_are_classified_except_for_documented_misses() -> None:
    cases: list[Case] = [case for case in FIRST + HELD_OUT + UNSEEN if case.kernel not in QUICK]

    outcomes = list(classify_all(cases))

    assert {kernel for kernel, _, _ in wrong(outcomes)} == {case.kernel for case in cases if case.miss}
    assert_names(outcomes)
