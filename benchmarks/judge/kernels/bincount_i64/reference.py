"""Weighted histogram of 64-bit integers in NumPy."""

import numpy as np


def summed(bin, weights, totals, bins, **_):
    """Former totals plus the weights of each bin, modulo 2**64."""
    used = (bin >= 0) & (bin < bins)
    result = np.array(totals, np.uint64)
    np.add.at(result, bin[used], weights[used].astype(np.uint64))
    return {"totals": result}
