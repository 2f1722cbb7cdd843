"""Sparse product in NumPy."""

import numpy as np


def y(values, columns, lengths, x, **_):
    """Sum of the first `length` products of each row."""
    used = np.arange(values.shape[1])[None, :] < lengths[:, None]
    return np.where(used, values * x[np.where(used, columns, 0)], 0.0).sum(axis=1)
