"""Mean of seven neighbours in NumPy, with zeros outside."""

import numpy as np


def output(input, **_):
    """Means, shape (n,)."""
    padded = np.pad(input.astype(np.float64), 3)
    return {"output": sum(padded[i : i + input.size] for i in range(7)) / 7}
