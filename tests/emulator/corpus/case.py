"""Case of the corpus: launch, arguments and expected results of a kernel.

The module of a theme has one function per kernel of its source, with the name of the kernel. It accepts a random generator
and returns a :class:`Run`. The decorator `launch` sets grid and block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from numpy.typing import NDArray

    Dim3 = tuple[int, int, int]
    Argument = NDArray[Any] | np.generic | bytes


@dataclass(frozen=True)
class Run:
    """Arguments and results of one launch.

    An array is a buffer with that content, a NumPy scalar or bytes are passed by value. `expected` is by position; buffers
    that it does not name must come back unchanged. The order of elements in `sorted_buffers` depends on the order of work-items.
    """

    arguments: tuple[Argument, ...]
    expected: Mapping[int, NDArray[Any]]
    rtol: float = 0.0
    atol: float = 0.0
    sorted_buffers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """One kernel of the source `<theme>.hip`."""

    theme: str
    kernel: str
    grid: int | Dim3
    block: int | Dim3
    lds: int
    make: Callable[[np.random.Generator], Run] = field(repr=False)
    only: tuple[str, ...] = ()
    """Architectures that have the kernel; empty for all."""

    def runs_on(self, architecture: str) -> bool:
        """Return whether an architecture has the instructions of the kernel."""
        return not self.only or architecture in self.only


def launch(
    grid: int | Dim3, block: int | Dim3, *, lds: int = 0, only: tuple[str, ...] = ()
) -> Callable[[Callable[[np.random.Generator], Run]], Case]:
    """Turn a function into the case of the kernel of the same name."""

    def decorate(make: Callable[[np.random.Generator], Run]) -> Case:
        return Case(make.__module__.rpartition(".")[2], make.__name__, grid, block, lds, make, only)

    return decorate


def cases_of(module: ModuleType) -> list[Case]:
    """Return the cases that a module defines, by name or in its list CASES."""
    named = [value for value in vars(module).values() if isinstance(value, Case)]
    return [*named, *getattr(module, "CASES", [])]


def check(result: NDArray[Any], expected: NDArray[Any], run: Run, label: str) -> None:
    """Compare a result; NaN equals NaN, and results without tolerance must be equal."""
    if run.rtol or run.atol:
        wide = np.float64 if expected.dtype.kind not in "iub" else expected.dtype
        with np.errstate(invalid="ignore"):  # signalling NaN
            numbers, wanted = result.astype(wide), expected.astype(wide)
        np.testing.assert_allclose(numbers, wanted, rtol=run.rtol, atol=run.atol, equal_nan=True, err_msg=label)
    else:
        np.testing.assert_array_equal(result, expected, err_msg=label)
