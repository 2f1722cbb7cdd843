"""Inputs in which rows, columns, tiles, planes or the whole array have one special value.

A wrong initial value of a maximum, a wrong default position or a division by an empty sum is visible only if all elements of a
window, a tile or a row have a special value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_HEIGHTS = (1, 4, 8, 16)
_WIDTHS = (4, 16, 64, 256)
_PROBABILITIES = (0.3, 0.2, 0.3, 0.1, 0.1)
"""Probability of rows, columns, tiles, planes, and the whole array."""
_SHARE = 0.5
_SHARE_OF_ONE_VALUE = 0.5


def regions(values: NDArray[Any], rng: np.random.Generator, special: Sequence[float]) -> NDArray[Any]:
    """Return a copy of an array in which about half of the regions are filled with a special value.

    Args:
        values: Array; the other regions keep its values.
        rng: Generator for the type, size, position and value of the regions.
        special: Special values; in half of the calls, all regions have the same one.
    """
    planes = values.reshape(-1, *(values.shape[-2:] if values.ndim > 1 else (1, values.size)))
    height, width, depth = _size(planes.shape, rng)
    counts = [-(-length // size) for length, size in zip(planes.shape, (depth, height, width), strict=True)]
    chosen = rng.integers(0, len(special), (*counts[:2], 1))  # equal along a row of regions
    if rng.random() < _SHARE_OF_ONE_VALUE:
        chosen = np.full_like(chosen, chosen.flat[0])
    is_special = rng.random(counts) < _SHARE
    is_special.flat[int(rng.integers(0, is_special.size))] = True
    places = np.ix_(*(np.arange(length) // size for length, size in zip(planes.shape, (depth, height, width), strict=True)))
    wanted = np.array(special).astype(values.dtype)[np.broadcast_to(chosen, counts)]
    result: NDArray[Any] = np.where(is_special[places], wanted[places], planes)
    return result.reshape(values.shape)


def _size(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, int, int]:
    """Return height, width and depth of the regions of an array (planes, rows, columns)."""
    depth, height, width = shape
    high, wide = int(rng.choice(_HEIGHTS)), int(rng.choice(_WIDTHS))
    kind = int(rng.choice(len(_PROBABILITIES), p=_PROBABILITIES))
    if height == 1 and kind < 4:  # one-dimensional array
        return 1, min(wide, width), 1
    return ((high, width, 1), (height, wide, 1), (high, wide, 1), (height, width, 1), (height, width, depth))[kind]
