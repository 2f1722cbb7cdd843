"""Five-point mean in NumPy; the border stays."""

import numpy as np


def output(input, **_):
    """Means, shape (height, width)."""
    result = input.astype(np.float64)
    if min(input.shape) > 2:
        x = input.astype(np.float64)
        result[1:-1, 1:-1] = 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return {"output": result}
