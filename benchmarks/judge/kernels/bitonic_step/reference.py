"""One step of a bitonic sort in NumPy."""

import numpy as np


def keys(keys, log_stride, log_size, **_):
    """Keys after the step. Equal keys may be swapped without effect."""
    stride = 1 << log_stride
    pairs = keys.reshape(-1, 2, stride)
    small, large = pairs.min(axis=1), pairs.max(axis=1)
    low = np.arange(keys.size).reshape(-1, 2, stride)[:, 0, :]
    ascending = (low >> log_size) & 1 == 0
    return np.stack([np.where(ascending, small, large), np.where(ascending, large, small)], axis=1).reshape(-1)
