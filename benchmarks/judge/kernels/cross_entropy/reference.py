"""Cross-entropy in NumPy."""

import numpy as np


def losses(logits, labels, **_):
    """Loss and logarithm of the sum of exponentials of each row, in double precision."""
    x = np.asarray(logits, np.float64)
    largest = np.fmax.reduce(x, axis=1)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    log_sums = np.log(np.exp(x - shift[:, None]).sum(axis=1)) + shift
    chosen = x[np.arange(len(x)), np.maximum(labels, 0)]
    return {"loss": np.where(labels < 0, 0.0, log_sums - chosen), "log_sums": log_sums}
