"""Cumulative maximum with positions in NumPy."""

import numpy as np


def scanned(input, **_):
    """Maxima and positions, column by column."""
    maxima, positions = np.empty_like(input), np.empty(input.shape, np.int32)
    best, place = np.full(len(input), -np.inf, input.dtype), np.zeros(len(input), np.int32)
    for i in range(input.shape[1]):
        value = input[:, i]
        taken = np.isnan(value) | (value >= best)
        best, place = np.where(taken, value, best), np.where(taken, i, place)
        maxima[:, i], positions[:, i] = best, place
    return {"maxima": maxima, "positions": positions}
