"""One step of a bitonic sort in NumPy."""

import numpy as np


def keys(keys, n, distance, size, **_):
    """Keys after the exchanges, shape (n,)."""
    result = np.array(keys)
    i = np.arange(n)
    j = i ^ distance
    chosen = (j > i) & (j < n)
    i, j = i[chosen], j[chosen]
    swap = (result[i] > result[j]) == ((i & size) == 0)
    swap &= result[i] != result[j]
    result[i[swap]], result[j[swap]] = result[j[swap]], result[i[swap]]
    return result
