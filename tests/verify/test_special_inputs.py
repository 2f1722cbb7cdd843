"""Inputs with NaN, infinity and zeros, long rows, and scalars next to numbers: values that a rewrite may treat in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.languages.arguments import BufferArgument, IntegersInit, NormalInit, ScalarArgument
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.verify.branch_constants import rounds_to_nearest
from rocm_perf_lab.verify.inputs import NOT_FINITE, InputKind, changed_values
from rocm_perf_lab.verify.large_shapes import large_shapes
from rocm_perf_lab.verify.shapes import Cost, ShapePlan
from rocm_perf_lab.verify.sizes import declared_sizes
from rocm_perf_lab.verify.trials import next_scalars, scalar_choices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.verify.inputs import Inputs

KERNEL = KernelDescription(
    name="axpby",
    source="axpby.hip",  # type: ignore[arg-type]
    entry="axpby",
    params={"n": 5000, "alpha": 0.5, "beta": 2.0, "groups": 8},
    arguments=(
        BufferArgument(name="x", dtype="f32", shape=("n",), init=NormalInit(seed=1)),
        BufferArgument(name="y", dtype="f32", shape=("n",), access="out"),
        ScalarArgument(kind="scalar", name="alpha", dtype="f32", value="alpha"),
        ScalarArgument(kind="scalar", name="beta", dtype="f32", value="beta"),
        ScalarArgument(kind="scalar", name="n", dtype="i32", value="n"),
    ),
    grid=("groups",),
    block=(256,),
)


def values(kind: Inputs, shape: tuple[int, ...] = (64, 128), *, high: int | None = None) -> NDArray[Any]:
    """Return the changed content of a buffer with normal values, or with integers from 0 to below `high`."""
    rng = np.random.default_rng(1)
    init = NormalInit() if high is None else IntegersInit(low=0, high=high)
    data = rng.normal(size=shape).astype(np.float32) if high is None else rng.integers(0, high, shape, np.uint32)
    argument = BufferArgument(name="x", dtype="f32" if high is None else "u32", shape=shape, init=init)
    return changed_values(data, argument, InputKind(kind), np.random.default_rng(2), {})


def test_several_nan_are_in_most_rows_and_some_rows_have_none() -> None:
    counts = np.isnan(values("nan")).sum(axis=1)

    assert (counts > 1).sum() > len(counts) / 2
    assert (counts == 0).any()


def test_infinities_are_few_and_have_one_sign() -> None:
    changed = values("infinities")

    infinite = changed[np.isinf(changed)]
    assert 1 <= infinite.size <= 16  # one per 512 of 8,192 elements
    assert len(set(infinite.tolist())) == 1
    assert not np.isnan(changed).any()


def test_zeros_are_beside_a_few_elements_that_are_not_finite() -> None:
    changed = values("sparse")

    assert 0.4 < (changed == 0).mean() < 0.6
    assert 1 <= np.count_nonzero(~np.isfinite(changed)) <= 16


def test_rows_of_one_sign_have_zeros_of_both_signs() -> None:
    changed = values("signed zeros")

    zeros = changed == 0
    assert np.signbit(changed[zeros]).any() and not np.signbit(changed[zeros]).all()
    assert all(len(set(np.sign(row[row != 0]).tolist())) == 1 for row in changed)


def test_each_64_elements_cancel() -> None:
    changed = values("cancelling")

    assert (changed != 0).all()
    assert (changed.reshape(-1, 64).sum(axis=1) == 0).all()


def test_a_sum_of_256_equal_powers_of_two_wraps_around() -> None:
    changed = values("powers", (16, 256), high=100_000_000)

    assert all(len(set(row.tolist())) == 1 for row in changed)
    sums = changed.sum(axis=1, dtype=np.uint32)
    assert changed.max() == 1 << 26  # the largest power of two below the limit
    assert (sums == 0).any()


def test_close_integers_cannot_be_told_apart_in_single_precision() -> None:
    changed = values("close", high=4_000_000_000)

    assert changed.max() == 3_999_999_999
    assert len(np.unique(changed)) == 8
    assert len(np.unique(changed.astype(np.float32))) == 1


@pytest.mark.parametrize("seed", range(4))
def test_all_special_inputs_have_a_negative_zero_at_one_place(seed: int) -> None:
    data, argument = np.ones(100, np.float32), BufferArgument(name="x", dtype="f32", shape=(100,), init=NormalInit())

    special = changed_values(data, argument, InputKind("special"), np.random.default_rng(seed), {})

    assert special[50] == 0
    assert np.signbit(special[50])


def test_a_small_array_has_few_special_values() -> None:
    special = values("special", (9,))

    ordinary = np.isfinite(special) & (np.abs(special) > 1e-20) & (np.abs(special) < 1e4)
    assert np.count_nonzero(~ordinary) <= 2


@pytest.mark.parametrize("kind", sorted(NOT_FINITE))
def test_equal_seeds_give_equal_inputs(kind: Inputs) -> None:
    assert np.array_equal(values(kind), values(kind), equal_nan=True)


def test_each_float_is_also_changed_with_all_others_zero() -> None:
    alone = [dict(c.params) for c in scalar_choices(KERNEL) if set(c.params) == {"alpha", "beta"}]

    assert {"alpha": 0.0, "beta": 2.0**-24} in alone
    assert {"alpha": 1.0, "beta": 0.0} in alone
    assert all(0.0 in choice.values() for choice in alone)


def test_scalars_are_on_both_sides_of_a_number_in_a_rewrite() -> None:
    choices = next_scalars(KERNEL, [1e-6])

    assert [dict(c.params) for c in choices] == [
        {"alpha": 0.5e-6, "beta": 0.0},
        {"alpha": 2e-6, "beta": 0.0},
        {"alpha": 0.0, "beta": 0.5e-6},
        {"alpha": 0.0, "beta": 2e-6},
    ]


def test_a_workgroup_of_a_fixed_grid_has_more_elements_than_16_bits_count_and_its_work_items_more_than_8_bits() -> None:
    plan = ShapePlan(KERNEL, declared_sizes(KERNEL), 3, Cost({}, {}, {frozenset(): 1}), 10**6)

    (shape,) = plan.repeating(65_537)

    assert shape.params["n"] == 8 * 256 * 260  # 66,560 per workgroup, 260 per work-item


def test_a_small_grid_has_more_elements_per_work_item_than_16_bits_count() -> None:
    small = KERNEL.model_copy(update={"params": {**KERNEL.params, "groups": 1}, "block": (64,)})
    plan = ShapePlan(small, declared_sizes(small), 3, Cost({}, {}, {frozenset(): 1}), 10**6)

    (shape,) = plan.repeating(65_537)

    assert shape.params["n"] == 64 * 65_537


def test_halves_are_ties_after_each_row_is_scaled_by_its_maximum() -> None:
    argument = BufferArgument(name="x", dtype="f32", shape=(5, 40), init=NormalInit())
    data = np.random.default_rng(1).normal(size=(5, 40)).astype(np.float32)

    changed = changed_values(data, argument, InputKind("halves", values=(127.0,)), np.random.default_rng(2), {})

    largest = np.abs(changed).max(axis=1, keepdims=True)
    assert largest[:, 0].tolist() == [127, 254, 508, 127, 254]
    fractions = np.abs(changed / (largest / 127)) % 1
    assert (fractions == 0.5).sum(axis=1).tolist() == [39] * 5  # all but the largest one


@pytest.mark.parametrize(
    ("source", "rounds"),
    [
        ("q = rintf(x / s);", True),
        ("q = __float2int_rn(x);", True),
        ("q = __builtin_roundevenf(x);", True),
        ("libdevice.rint(x)", True),
        ("x = __fmul_rn(x, y); // rintf(x)", False),
        ("int stride = rounds(3); h = __float2half_rn(x);", False),
    ],
)
def test_a_call_that_rounds_to_integers_is_found(source: str, rounds: bool) -> None:
    assert rounds_to_nearest(source) == rounds


def test_one_size_is_just_below_the_largest_int() -> None:
    edges = [shape for shape in large_shapes(KERNEL) if shape.goal == "edge"]

    assert [shape.params["n"] for shape in edges] == [2**31 - 31]


def test_a_free_grid_grows_with_large_buffers() -> None:
    (middle,) = [shape for shape in large_shapes(KERNEL) if shape.goal == "middle"]

    assert middle.params["groups"] == -(-middle.elements // 256)  # one element per work-item
