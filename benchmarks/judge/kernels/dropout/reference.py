"""Dropout in NumPy."""

import numpy as np
from numpy.typing import NDArray


def _hashed(value: NDArray[np.uint32]) -> NDArray[np.uint32]:
    value = value ^ (value >> np.uint32(16))
    value = value * np.uint32(0x7FEB352D)
    value = value ^ (value >> np.uint32(15))
    value = value * np.uint32(0x846CA68B)
    mixed: NDArray[np.uint32] = value ^ (value >> np.uint32(16))
    return mixed


def dropped(input, factor, seed, keep, **_):
    """Scaled kept elements, and the mask."""
    drawn = _hashed(_hashed(np.arange(len(input), dtype=np.uint32)) ^ np.uint32(seed)) >> np.uint32(16)
    kept = drawn.astype(np.int64) < keep
    return {"output": np.where(kept, input * factor, 0.0), "mask": kept.astype(np.uint32)}
