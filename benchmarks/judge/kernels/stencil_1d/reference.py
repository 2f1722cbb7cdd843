"""Moving weighted sum in NumPy."""

import numpy as np


def output(input, weights, **_):
    """Weighted sum of the nine neighbours of each element, zero outside."""
    padded = np.pad(input, 4)
    return sum(weights[i] * padded[i : i + len(input)] for i in range(9))
