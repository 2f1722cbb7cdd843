"""Convolution in NumPy."""

import numpy as np


def output(image, weights, **_):
    """3 x 3 correlation with zero padding."""
    height, width = image.shape[1:]
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    return sum(
        np.einsum("fc,chw->fhw", weights[:, :, y, x], padded[:, y : y + height, x : x + width])
        for y in range(3)
        for x in range(3)
    )
