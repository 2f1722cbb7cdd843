"""Symmetric quantisation of rows in NumPy."""

import numpy as np


def outputs(input, **_):
    """Bytes, shape (rows, cols), and scales, shape (rows,)."""
    with np.errstate(all="ignore"):
        largest = np.fmax.reduce(np.abs(input), axis=1, initial=np.float32(1e-8)).astype(np.float32)
        scaled = input * (np.float32(127) / largest)[:, None]
    limited = np.clip(np.nan_to_num(np.rint(scaled), nan=0.0), -127, 127)
    return {"output": limited.astype(np.int8), "scale": (largest / np.float32(127)).astype(np.float32)}
