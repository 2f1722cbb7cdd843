"""Scalar products of chunks in NumPy."""

import numpy as np


def sums(a, b, chunk, **_):
    """Sum of products of each chunk."""
    products = a * b
    padded = np.concatenate([products, np.zeros(-len(products) % chunk)])
    return padded.reshape(-1, chunk).sum(axis=1)
