"""Quantisation of rows in NumPy."""

import numpy as np


def quantized(input, **_):
    """Quantised rows and their scales, with the kernel's arithmetic in single precision."""
    values = input.astype(np.float32)
    largest = np.fmax.reduce(np.abs(values), axis=1)
    scales = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        rounded = np.rint(values / scales[:, None])
        return {"output": np.fmin(np.fmax(rounded, -127), 127).astype(np.int8), "scales": scales}
