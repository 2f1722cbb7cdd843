"""Suppression masks in NumPy."""

import numpy as np


def masks(boxes, n, percent, **_):
    """One bit per pair of boxes."""
    b = np.asarray(boxes, np.int64)
    area = np.maximum(b[:, 2] - b[:, 0], 0) * np.maximum(b[:, 3] - b[:, 1], 0)
    low, high = np.maximum(b[:, None, :2], b[None, :, :2]), np.minimum(b[:, None, 2:], b[None, :, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=2)
    both = area[:, None] + area[None, :] - common
    chosen = (common * 100 > both * percent) & (np.arange(n)[None, :] > np.arange(n)[:, None])
    words = -(-n // 64)
    padded = np.zeros((n, words * 64), np.uint8)
    padded[:, :n] = chosen
    return {"mask": np.packbits(padded, axis=1, bitorder="little").view("<u8")}
