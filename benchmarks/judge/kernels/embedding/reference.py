"""Table lookup in NumPy."""

import numpy as np


def output(table, ids, **_):
    """Rows of the table, zeros for negative numbers."""
    return np.where(ids[:, None] < 0, 0.0, table[np.maximum(ids, 0)])
