"""Single-threaded BLAS for small matrices: with a few hundred rows, BLAS threads spend more time waiting than computing."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the BLAS of NumPy and SciPy to one thread; restore the previous limits afterwards."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 -- its separate BLAS is found only once it is loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
