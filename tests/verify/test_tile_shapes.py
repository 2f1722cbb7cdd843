"""Sizes around multiples of tiles, and regions of one special value."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.languages.arguments import BufferArgument, NormalInit, ScalarArgument
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.verify.regions import regions
from rocm_perf_lab.verify.shapes import Cost, ShapePlan
from rocm_perf_lab.verify.sizes import declared_sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

IMAGE = KernelDescription(
    name="image",
    source="image.hip",  # type: ignore[arg-type]
    entry="image",
    params={"channels": 3, "height": 40, "width": 50, "filters": 4},
    arguments=(
        BufferArgument(name="x", dtype="f32", shape=("channels", "height", "width"), init=NormalInit(seed=1)),
        BufferArgument(name="y", dtype="f32", shape=("filters", "height", "width"), access="out"),
        ScalarArgument(kind="scalar", name="channels", dtype="i32", value="channels"),
    ),
    grid=("ceil_div(width, 16)", "ceil_div(height, 8)", "filters"),
    block=(16, 8),
)


def plan(seed: int = 3) -> ShapePlan:
    return ShapePlan(IMAGE, declared_sizes(IMAGE), seed, Cost({}, {}, {frozenset(): 1}), 10**6)


def test_each_pair_of_distances_from_tiles_is_tried_with_inner_tiles() -> None:
    found = list(plan().tiles(10**6).all())

    near = {(v["height"] % 8, v["width"] % 16) for v in found if v["height"] > 16 and v["width"] > 32}
    assert set(product((0, 1, 7), (0, 1, 15))) <= near
    assert {2, 3, 4, 5, 6} <= {height for height, _ in near}
    assert len(found) <= 20


def test_sizes_without_tiles_are_small_at_least_once() -> None:
    found = list(plan().tiles(10**6).all())

    assert {v["filters"] for v in found} <= {1, 2, 3}
    assert any(v["channels"] <= 3 for v in found)


def test_other_tiles_are_numbers_that_no_power_of_two_covers() -> None:
    heights = {v["height"] for v in plan().tiles(10**6).around({24, 32, 5})}

    assert {0, 1, 23} == {height % 24 for height in heights}


def test_equal_seeds_give_equal_sizes() -> None:
    assert list(plan().tiles(10**6).all()) == list(plan().tiles(10**6).all())
    assert list(plan().tiles(10**6).all()) != list(plan(4).tiles(10**6).all())


def test_expensive_shapes_are_left_out() -> None:
    assert list(plan().tiles(0).all()) == []


def test_whole_windows_have_one_special_value_and_others_none() -> None:
    values = np.ones((2, 40, 50))

    found = [regions(values, np.random.default_rng(seed), [-np.inf, 0.0]) for seed in range(32)]

    def windows(array: NDArray[np.float64]) -> NDArray[np.float64]:
        largest: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(array, (3, 3), axis=(1, 2)).max(axis=(3, 4))
        return largest

    assert sum(bool((windows(array) == -np.inf).any()) for array in found) > 8
    assert sum(bool((windows(array) == 1).any()) for array in found) > 8
    assert all((array != 1).any() for array in found)
    assert set(np.unique(np.concatenate(found))) == {-np.inf, 0.0, 1.0}
