"""Results that are NaN because of inputs that they do not depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.device.protocol import BufferValue, Launch
from rocm_perf_lab.toolchain.code_object import CodeObject
from rocm_perf_lab.verify.undefined import unrelated_elements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

X = [1.0, 2.0, 3.0, 4.0, 5.0]
WEIGHTS = [0.5, 2.0, 0.25]


def launch(x: list[float], weights: list[float]) -> Launch:
    """Return a launch of a stencil with three weights."""
    arguments = tuple(
        BufferValue(name, np.array(values, np.float32), written=False) for name, values in (("x", x), ("weights", weights))
    )
    return Launch(CodeObject(b"", "gfx942", "", ()), "stencil", (1, 1, 1), (64, 1, 1), 0, arguments)


def padded(changed: Launch, scale: float = 1.0) -> Mapping[str, NDArray[Any]]:
    """Return the weighted sums of neighbours, zeros outside included."""
    x, weights = (a.data for a in changed.arguments if isinstance(a, BufferValue))
    with np.errstate(invalid="ignore"):
        line = np.pad(x, 1)
        return {"y": scale * sum(weights[i] * line[i : i + x.size] for i in range(3))}


def unrelated(x: list[float], weights: list[float], scale: float = 1.0) -> list[int]:
    """Return the places of results that are not compared."""
    changed = launch(x, weights)
    found = unrelated_elements(
        padded(changed, scale), changed, launch(X, WEIGHTS), lambda other: padded(other, scale), lambda other: padded(other)
    )
    return [int(place) for place in np.flatnonzero(found["y"])] if found else []


def test_an_infinite_weight_of_the_padding_does_not_count() -> None:
    assert unrelated(X, [np.inf, 2.0, 0.25]) == [0]
    assert unrelated(X, [np.inf, 2.0, np.nan]) == [4]  # infinity without the padding; all others have the weight NaN


def test_an_infinite_input_beside_it_still_counts() -> None:
    assert unrelated([np.inf, 2.0, 3.0, 4.0, 5.0], [np.inf, 2.0, 0.25]) == [0]  # infinity without the padding
    assert unrelated([np.nan, 2.0, 3.0, 4.0, 5.0], [np.inf, 2.0, 0.25]) == []


def test_a_zero_among_the_inputs_counts() -> None:
    assert unrelated([1.0, 0.0, 3.0, 4.0, 5.0], [0.5, np.inf, 0.25]) == []
    assert unrelated([1.0, 2.0, np.inf, 4.0, 5.0], [0.5, 0.0, 0.25]) == []


def test_a_scalar_of_zero_counts() -> None:
    assert unrelated([1.0, np.inf, 3.0, 4.0, 5.0], WEIGHTS, scale=0.0) == []
