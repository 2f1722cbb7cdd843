"""Group normalisation in NumPy."""

import numpy as np


def normalised(input, gamma, beta, epsilon, **_):
    """Normalised groups in double precision."""
    x = np.asarray(input, np.float64)
    mean, variance = x.mean(axis=(2, 3), keepdims=True), x.var(axis=(2, 3), keepdims=True)
    return {"output": (x - mean) / np.sqrt(variance + epsilon) * gamma[None, :, :, None] + beta[None, :, :, None]}
