"""The truth of kernel.py, in float64."""

import numpy as np


def attention(q_ptr, k_ptr, v_ptr, scale, causal, length, **_):
    """softmax(q k^T * scale) v for every head."""
    scores = np.einsum("hmd,hnd->hmn", q_ptr, k_ptr) * scale
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.einsum("hmn,hnd->hmd", weights / weights.sum(axis=2, keepdims=True), v_ptr)
