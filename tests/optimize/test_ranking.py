"""Ranking of kernels by share of the critical path and headroom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.optimize.ranking import KernelShare, rank, rank_by_measuring, reason_to_stop

kernels = st.builds(
    KernelShare,
    name=st.text("abc", min_size=1, max_size=3),
    critical_share=st.floats(0, 1),
    headroom=st.none() | st.floats(0.1, 1000),
)


@pytest.mark.parametrize(
    ("share", "headroom", "gain"),
    [
        (0.8, 4.0, 0.6),  # a quarter of 0.8 remains
        (1.0, 2.0, 0.5),
        (0.5, 1.0, 0.0),  # at the roofline
        (0.5, 0.5, 0.0),  # faster than the roofline: no known headroom
        (0.5, None, 0.5),  # without a roof the whole share may be gained
        (0.0, 100.0, 0.0),
    ],
)
def test_the_possible_gain_follows_amdahls_law(share: float, headroom: float | None, gain: float) -> None:
    assert KernelShare("k", share, headroom).possible_gain == pytest.approx(gain)


def test_a_small_kernel_far_below_the_roofline_may_rank_first() -> None:
    large = KernelShare("large", critical_share=0.7, headroom=1.25)  # 0.14
    small = KernelShare("small", critical_share=0.3, headroom=10.0)  # 0.27

    assert rank([large, small]) == [small, large]


def test_equal_gains_are_ranked_by_name() -> None:
    a, b = KernelShare("a", 0.5, 2.0), KernelShare("b", 0.25, None)

    assert rank([b, a]) == [a, b]


@given(st.lists(kernels, unique_by=lambda k: k.name))
def test_the_ranking_does_not_depend_on_the_order_of_kernels(shares: list[KernelShare]) -> None:
    assert rank(shares) == rank(shares[::-1])


@given(kernels)
def test_the_possible_gain_is_at_most_the_share(kernel: KernelShare) -> None:
    assert 0 <= kernel.possible_gain <= kernel.critical_share


def test_a_kernel_with_too_small_a_gain_is_skipped() -> None:
    reason = reason_to_stop(KernelShare("tiny", 0.02, 2.0), min_improvement=0.02)

    assert reason == "tiny can save at most 1.0% of the total time, less than optimizer.min_improvement (2.0%)"


def test_a_kernel_with_exactly_the_required_gain_is_rewritten() -> None:
    assert reason_to_stop(KernelShare("k", 0.5, 2.0), min_improvement=0.25) is None


def test_only_kernels_that_can_still_rank_first_are_measured() -> None:
    headrooms = {"near the roof": 1.25, "far from it": 5.0, "small": 100.0}
    shares = [KernelShare("near the roof", 0.6, None), KernelShare("far from it", 0.3, None), KernelShare("small", 0.1, None)]
    looked: list[str] = []

    def look(kernel: KernelShare) -> KernelShare:
        looked.append(kernel.name)
        return KernelShare(kernel.name, kernel.critical_share, headrooms[kernel.name])

    ranking = rank_by_measuring(shares, look)

    assert looked == ["near the roof", "far from it"]  # 0.12, then 0.24: the small kernel cannot gain more
    assert [k.name for k in ranking] == ["far from it", "near the roof", "small"]
    assert ranking[2].headroom is None


@given(st.lists(kernels, min_size=1, unique_by=lambda k: k.name))
def test_measuring_few_kernels_finds_the_largest_gain(shares: list[KernelShare]) -> None:
    known = {k.name: k for k in shares}

    ranking = rank_by_measuring([KernelShare(k.name, k.critical_share, None) for k in shares], lambda k: known[k.name])

    assert sorted(k.name for k in ranking) == sorted(known)
    assert known[ranking[0].name].possible_gain == max(k.possible_gain for k in shares)
