"""Cross-entropy of rows in NumPy."""

import numpy as np


def loss(logits, labels, **_):
    """Losses, shape (rows,)."""
    x = logits.astype(np.float64)
    with np.errstate(all="ignore"):
        top = x.max(axis=1)
        return np.log(np.exp(x - top[:, None]).sum(axis=1)) + top - x[np.arange(len(x)), labels]
