"""Fixed-point filter in NumPy."""

import numpy as np


def filtered(samples, taps, n, **_):
    """Exact sums, rounded and saturated."""
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(samples, np.int64), len(taps))[:n]
    sums = windows @ np.asarray(taps, np.int64)
    return {"output": np.clip((sums + 16384) >> 15, -32768, 32767).astype(np.int16)}
