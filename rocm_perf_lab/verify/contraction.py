"""Contractions of two arrays, such as `einsum("hmd,hnd->hmn", q, k)`, evaluated as matrix products, which are faster."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Contraction:
    """Labels of the axes of two arrays and of the result; results differ from those of `einsum` in the last place."""

    one: str
    other: str
    result: str

    @classmethod
    def of(cls, args: Sequence[Any]) -> Contraction | None:
        """Return the contraction of the arguments of `einsum`; None if it is not a matrix product of two arrays."""
        if len(args) != 3 or not isinstance(args[0], str) or not all(isinstance(a, np.ndarray) for a in args[1:]):
            return None
        left, arrow, result = args[0].replace(" ", "").partition("->")
        one, comma, other = left.partition(",")
        labels = (one, other, result)
        if not arrow or not comma or not all((part.isalpha() or not part) and len(set(part)) == len(part) for part in labels):
            return None
        if set(one) - set(other) - set(result) or set(other) - set(one) - set(result) or set(result) - set(one + other):
            return None  # an axis is summed in only one array
        ranks = (args[1].ndim, args[2].ndim)
        return cls(one, other, result) if ranks == (len(one), len(other)) else None

    def terms(self, one: NDArray[Any]) -> int:
        """Return the number of products per element of the result."""
        return prod(size for label, size in zip(self.one, one.shape, strict=True) if label not in self.result)

    def __call__(self, one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
        """Return the contraction of two arrays."""
        shared = [label for label in self.one if label in self.other]
        batch = [label for label in shared if label in self.result]
        summed = [label for label in shared if label not in self.result]
        rows = [label for label in self.one if label not in shared]
        columns = [label for label in self.other if label not in shared]
        sizes = {**dict(zip(self.other, other.shape, strict=True)), **dict(zip(self.one, one.shape, strict=True))}
        lengths = [prod(sizes[label] for label in labels) for labels in (batch, rows, summed, columns)]
        left = one.transpose([self.one.index(label) for label in (*batch, *rows, *summed)])
        right = other.transpose([self.other.index(label) for label in (*batch, *summed, *columns)])
        product = np.matmul(
            left.reshape(lengths[0], lengths[1], lengths[2]), right.reshape(lengths[0], lengths[2], lengths[3]), dtype=np.float64
        )
        order = [*batch, *rows, *columns]
        shaped = product.reshape([sizes[label] for label in order])
        result: NDArray[np.float64] = shaped.transpose([order.index(label) for label in self.result])
        return result
