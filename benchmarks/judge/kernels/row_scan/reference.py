"""Prefix sums in NumPy."""

import numpy as np


def output(input, **_):
    """Inclusive prefix sums of each row modulo 2^32."""
    return np.cumsum(input, axis=1, dtype=np.uint32)
