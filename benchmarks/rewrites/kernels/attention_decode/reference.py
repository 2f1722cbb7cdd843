"""Attention of one query per head, in NumPy."""

import numpy as np


def output(query, keys, values, **_):
    """Weighted mean of the values, shape (heads, 64)."""
    scores = np.einsum("hd,htd->ht", query.astype(np.float64), keys) * 0.125
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return {"output": np.einsum("ht,htd->hd", weights / weights.sum(axis=1, keepdims=True), values)}
