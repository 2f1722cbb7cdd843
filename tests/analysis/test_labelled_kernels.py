"""Kernels that were built to show one bottleneck each are classified as what they were built to be."""

import pytest

from benchmarks.bottleneck_cases import FIRST, HELD_OUT, UNSEEN, Case
from benchmarks.bottlenecks import Outcome, classify_all

SHARED_IN_L2 = {"small_tiles", "transpose_naive"}
"""The emulator charges DRAM for what workgroups share, and for each part of a line that L2 would write once."""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(classify_all([case for case in FIRST + HELD_OUT if not case.slow]))


def wrong(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(o.case.kernel, o.case.label, o.name) for o in outcomes if o.name != o.case.label]


def test_every_labelled_kernel_is_recognised(outcomes: list[Outcome]) -> None:
    assert wrong(outcomes) == []


def test_every_answer_carries_its_evidence(outcomes: list[Outcome]) -> None:
    assert all(any(letter.isdigit() for letter in o.reason) for o in outcomes)


def test_the_level_of_memory_and_what_limits_the_occupancy_are_named(outcomes: list[Outcome]) -> None:
    words = {"memory_bandwidth_bound": "memory_level", "under_occupied": "limiter"}
    stated = {(o.case.kernel, o.case.why.partition(":")[0]): o for o in outcomes if o.name in words and ":" in o.case.why}
    named = {(kernel, o.evidence.words[words[o.name]]) for (kernel, what), o in stated.items() if what != "grid"}

    assert {key for key in stated if key[1] != "grid" and key[0] not in SHARED_IN_L2} <= named


@pytest.mark.slow
def test_those_that_take_long_are_recognised_but_for_the_misses_that_the_documentation_explains() -> None:
    cases: list[Case] = [case for case in FIRST + HELD_OUT if case.slow] + list(UNSEEN)

    assert {kernel for kernel, _, _ in wrong(list(classify_all(cases)))} == {case.kernel for case in cases if case.miss}
