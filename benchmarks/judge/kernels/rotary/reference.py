"""Rotary position embedding in NumPy."""

import numpy as np


def rotated(x, position, cosines, sines, **_):
    """Both halves of each head, rotated in double precision."""
    c = np.asarray(cosines, np.float64)[position][:, None, :]
    s = np.asarray(sines, np.float64)[position][:, None, :]
    first, second = np.asarray(x[:, :, 0], np.float64), np.asarray(x[:, :, 1], np.float64)
    return {"out": np.stack([first * c - second * s, second * c + first * s], axis=2)}
