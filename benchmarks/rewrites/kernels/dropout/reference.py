"""Dropout with a counter-based generator, in NumPy."""

import numpy as np


def output(input, n, seed, keep, **_):
    """Kept elements divided by `keep`, shape (n,)."""
    x = (np.arange(n, dtype=np.uint64) * 0x9E3779B9 + np.uint64(int(seed) & 0xFFFFFFFF)) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & 0xFFFFFFFF
    x ^= x >> np.uint64(16)
    uniform = (x >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    with np.errstate(all="ignore"):
        return np.where(uniform < np.float32(keep), input / np.float32(keep), np.float32(0))
