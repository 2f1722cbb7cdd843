"""Two largest elements in NumPy."""

import numpy as np


def output(input, **_):
    """Largest and second largest element of each row; -infinity if there is none, NaN is ignored."""
    values = np.where(np.isnan(input), -np.inf, input)
    padded = np.concatenate([values, np.full((len(values), 2), -np.inf)], axis=1)
    return np.sort(padded, axis=1)[:, :-3:-1]
