"""Encoding of configurations as inputs of a model, from their parameters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space

_WIDE = 4
"""Ratio of largest to smallest value from which a parameter is encoded by its logarithm."""
_FINE = 16
"""Value from which the number of factors of two is encoded (waves, banks, cache lines)."""
_MOST_FACTORS = 6


def encode(space: Space, *, factors: bool = True, without: str | None = None) -> Column:
    """Return one row per configuration, with columns between 0 and 1, and none for the parameter `without`.

    Numbers over a wide range are encoded by their logarithm; parameters with text have one column per value. With `factors`,
    integers that are not all powers of two have a column for their factors of two, and numeric derived values are columns too.
    """
    columns: list[Column] = []
    for position, (name, values) in enumerate(space.values.items()):
        if name == without:
            continue
        present = np.unique(space.codes[:, position])
        if len(present) < 2:
            continue
        used = [values[code] for code in present]
        for feature in _features(used, factors=factors):
            by_code = np.zeros(len(values))
            by_code[present] = feature
            columns.append(by_code[space.codes[:, position]])
    if factors:
        columns += [column for values in _derived(space) for column in _numbers(values)]
    return np.column_stack(columns) if columns else np.zeros((len(space), 1))


class FixedEncoding:
    """Encoding that does not depend on which configurations are encoded: columns and scales are those of a sample.

    Args:
        sample: Configurations that represent the space.
    """

    def __init__(self, sample: Space) -> None:
        self._tables = [
            (position, _features(values, factors=True))
            for position, values in enumerate(sample.values.values())
            if len(values) > 1
        ]
        self._derived: list[tuple[str, float, float, bool]] = []
        for name in sample.derived:
            column = sample.derived_column(name)
            if column.dtype.kind not in "iufb" or np.ptp(column) == 0:
                continue
            low, high = float(column.min()), float(column.max())
            wide = low >= 0 and high >= _WIDE * max(low, 1.0)
            self._derived.append((name, *((np.log2(1 + low), np.log2(1 + high)) if wide else (low, high)), wide))

    def columns(self, space: Space) -> Column:
        """Return one row per configuration of a space with the parameters of the sample."""
        found = [table[space.codes[:, position]] for position, tables in self._tables for table in tables]
        for name, low, high, wide in self._derived:
            values = space.derived_column(name).astype(float)
            values = np.log2(1 + np.maximum(values, 0)) if wide else values
            found.append(np.clip((values - low) / (high - low), -0.5, 1.5))
        return np.column_stack(found) if found else np.zeros((len(space), 1))


def _features(values: Sequence[Any], *, factors: bool) -> list[Column]:
    if any(isinstance(value, str) for value in values):
        if len(values) == 2:
            return [np.array([0.0, 1.0])]
        return list(np.eye(len(values)))
    numbers = np.array(values, float)
    positive = numbers.min() > 0
    logarithmic = positive and numbers.max() / numbers.min() >= _WIDE
    features = [np.log2(numbers) if logarithmic else numbers]
    whole = bool((numbers == np.round(numbers)).all()) and numbers.max() < 2**53
    if factors and positive and whole and len(values) > 2:
        features += _factors_of_two(numbers.astype(np.int64))
    return [(feature - feature.min()) / np.ptp(feature) for feature in features if np.ptp(feature) > 0]


def _derived(space: Space) -> list[Column]:
    columns = [space.derived_column(name) for name in space.derived]
    return [column.astype(float) for column in columns if column.dtype.kind in "iufb"]


def _numbers(values: Column) -> list[Column]:
    """Return one column for numbers, on a logarithmic scale if they span a wide range."""
    smallest = values.min()
    if smallest >= 0 and values.max() >= _WIDE * max(smallest, 1.0):
        values = np.log2(values + (smallest == 0))
    return [(values - values.min()) / np.ptp(values)] if np.ptp(values) > 0 else []


def _factors_of_two(numbers: Column) -> list[Column]:
    power = numbers & -numbers
    odd = (power != numbers).astype(float)
    if not 0 < odd.mean() < 1:
        return []
    fine = numbers.max() >= _FINE and len(numbers) > 4
    return [odd, np.minimum(np.log2(power), _MOST_FACTORS)] if fine else [odd]
