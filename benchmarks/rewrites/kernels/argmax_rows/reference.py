"""Row argmax in NumPy."""

import numpy as np


def position(input, **_):
    """First position of the largest element of each row; NaN is never larger."""
    return np.argmax(np.where(np.isnan(input), -np.inf, input), axis=1).astype(np.int32)
