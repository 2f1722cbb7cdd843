"""One thread for small matrices: on a few hundred rows, BLAS threads wait for each other far longer than they calculate."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold NumPy and SciPy to one thread meanwhile; what was set before comes back."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 -- brings a BLAS of its own, that is only found once it is loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
