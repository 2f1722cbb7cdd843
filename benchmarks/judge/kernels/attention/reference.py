"""Attention of one query in NumPy."""

import numpy as np


def output(query, keys, values, scale, **_):
    """Weighted mean of the values of each head."""
    scores = np.einsum("hd,hld->hl", query * scale, keys)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.einsum("hl,hld->hd", weights / weights.sum(axis=1, keepdims=True), values)
