"""Random order within pairs."""

from __future__ import annotations

from rocm_perf_lab.statistics.interleaving import InterleavedPairs, runs_old_first


def test_each_time_is_that_of_its_source_whatever_the_order() -> None:
    order: list[str] = []

    def timer(name: str, time: float) -> float:
        order.append(name)
        return time

    pairs = InterleavedPairs(lambda: timer("old", 2.0), lambda: timer("new", 1.0), "a b")

    assert [*pairs(30), *pairs(34)] == [(2.0, 1.0)] * 64
    first = order[::2]
    assert first == ["old" if runs_old_first("a b", n) else "new" for n in range(64)]
    assert order.count("old") == order.count("new") == 64
    assert 16 < first.count("old") < 48  # 4 standard deviations


def test_the_order_is_not_that_of_another_comparison() -> None:
    assert [runs_old_first("a b", n) for n in range(64)] != [runs_old_first("a c", n) for n in range(64)]
