"""Encoding of configurations, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.autotune.spaces.encoding import encode
from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.space_description import describe

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.spaces.space import Space


def space(parameters: dict[str, Any], **more: Any) -> Space:
    return build_space(describe({"parameters": parameters, **more}, where="test"))


def test_only_wide_ranges_are_encoded_by_their_logarithm() -> None:
    assert encode(space({"x": [1, 2, 4, 16]}))[:, 0].tolist() == [0, 0.25, 0.5, 1]
    assert encode(space({"x": [2, 3, 4]}), factors=False)[:, 0].tolist() == [0, 0.5, 1]


def test_text_has_a_column_per_value_and_a_single_value_has_none() -> None:
    assert encode(space({"a": ["p", "q", "r"], "b": [7]})).tolist() == np.eye(3).tolist()


def test_mixtures_of_powers_of_two_and_other_numbers_have_columns_for_factors() -> None:
    columns = encode(space({"x": [16, 24, 32, 48, 64]}))

    assert columns[:, 1].tolist() == [0, 1, 0, 1, 0]  # no power of two
    assert columns[:, 2].tolist() == pytest.approx([1 / 3, 0, 2 / 3, 1 / 3, 1])  # 16 8 32 16 64 divide them


def test_derived_values_are_columns() -> None:
    a = space(
        {"x": [1, 2, 4], "deep": [False, True]},
        fixed={"size": 4},
        derived={"bytes": "size * x", "twice": "2 * bytes * (1 + deep)"},
    )
    row = a.index({"x": 2, "deep": True})

    assert a.derived_column("bytes")[row] == 8 and a.derived_column("twice")[row] == 32
    assert encode(a)[row, -2:].tolist() == pytest.approx([1 / 2, 2 / 3])  # 8 in 4..16, 32 in 8..64
