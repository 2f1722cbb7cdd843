"""Heaviest chains: compiled code and plain loops agree with each other and with a search of all chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.analysis import chains
from rocm_perf_lab.analysis.chains import heaviest_from, heaviest_to

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _graph(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    entries = np.arange(count)
    return (
        random.integers(0, 1000, count).astype(float),
        (random.random(count) * (entries + 1)).astype(np.int64),  # 0 (none), or an earlier entry
        (random.random(count) * (entries + 1)).astype(np.int64),
    )


def test_a_diamond() -> None:
    weight, first, second = np.array([5.0, 2, 7, 1]), np.array([0, 1, 1, 2]), np.array([0, 0, 0, 3])

    assert heaviest_to(weight, first, second).tolist() == [0, 5, 7, 12, 13]
    assert heaviest_from(weight, first, second)[1:].tolist() == [13, 3, 8, 1]


@pytest.mark.parametrize("seed", range(5))
def test_plain_loops_agree_with_the_recurrence(seed: int) -> None:
    weight, first, second = _graph(200, seed)
    to = [0.0]
    for one, two, own in zip(first, second, weight, strict=True):
        to.append(max(to[one], to[two]) + own)
    after = weight.tolist()
    for entry in range(len(weight) - 1, -1, -1):
        followers = [after[later] for later in range(entry + 1, len(weight)) if entry + 1 in (first[later], second[later])]
        after[entry] = weight[entry] + max(followers, default=0.0)

    assert heaviest_to(weight, first, second).tolist() == to
    assert heaviest_from(weight, first, second)[1:].tolist() == after


def test_compiled_code_agrees_with_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    weight, first, second = _graph(5000, 7)
    plain = heaviest_to(weight, first, second), heaviest_from(weight, first, second)[1:]

    monkeypatch.setattr(chains, "_NATIVE_FROM", 0)
    compiled = heaviest_to(weight, first, second), heaviest_from(weight, first, second)[1:]

    assert [column.tolist() for column in compiled] == [column.tolist() for column in plain]
    assert heaviest_to(weight[:0], first[:0], second[:0]).tolist() == [0]


def test_without_llvmlite_the_loops_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_NATIVE_FROM", 0)
    monkeypatch.setattr(chains, "_functions", dict)

    assert heaviest_to(np.array([1.0, 2.0]), np.array([0, 1]), np.array([0, 0])).tolist() == [0, 1, 3]
