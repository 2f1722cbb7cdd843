"""Ranking of the kernels of a trace, and selection of the kernel to analyse.

The default is the kernel of the longest dispatch that is not a runtime helper; if only helpers ran, the longest of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Trace


class ProfileError(LabError):
    """A trace from which no profile can be built."""


@dataclass(frozen=True)
class RankedKernel:
    """All dispatches of one kernel symbol, over all processes of the trace."""

    name: str
    mangled_name: str
    dispatches: NDArray[np.int64]
    """Positions in the trace, in order of start, without those of an impossible duration."""
    total_ns: int
    longest_ns: int
    share: float
    """Share of the total time of all kernels."""
    is_helper: bool


def rank_kernels(trace: Trace, helper_patterns: Sequence[str] = ()) -> tuple[RankedKernel, ...]:
    """Return the kernels by descending total time.

    Raises:
        ProfileError: A pattern is not a regular expression.
    """
    helper = _compile(helper_patterns)
    duration = trace.dispatches.duration_ns
    total = int(duration[duration > 0].sum()) or 1
    name_of = {kernel.mangled_name: kernel.name for kernel in reversed(trace.kernels)}
    ranked = []
    for mangled, dispatches in _dispatches_by_symbol(trace).items():
        name = demangle(name_of[mangled])
        own_ns = int(duration[dispatches].sum())
        is_helper = any(pattern.search(text) for pattern in helper for text in (name, mangled))
        longest_ns = int(duration[dispatches].max())
        ranked.append(RankedKernel(name, mangled, dispatches, own_ns, longest_ns, own_ns / total, is_helper))
    return tuple(sorted(ranked, key=lambda kernel: (-kernel.total_ns, kernel.mangled_name)))


def select_kernel(trace: Trace, ranked: Sequence[RankedKernel], *, symbol: str | None = None) -> RankedKernel:
    """Return the kernel with that mangled name, or the one with the longest dispatch that is not a helper.

    Raises:
        ProfileError: No kernel was dispatched, every dispatch has an impossible duration, or `symbol` was not dispatched.
    """
    if not ranked:
        raise ProfileError(_why_nothing(trace), where=str(trace.path), hint="check that the application uses the GPU")
    if symbol is not None:
        found = [kernel for kernel in ranked if kernel.mangled_name == symbol]
        if not found:
            names = ", ".join(kernel.mangled_name for kernel in ranked[:5])
            raise ProfileError(f"kernel {symbol!r} was not dispatched", where=str(trace.path), hint=f"kernels: {names}")
        return found[0]
    candidates = [kernel for kernel in ranked if not kernel.is_helper] or ranked
    return max(candidates, key=lambda kernel: kernel.longest_ns)


def _dispatches_by_symbol(trace: Trace) -> dict[str, NDArray[np.int64]]:
    """Return the positions of the dispatches of each symbol, without those that end before they start."""
    number: dict[str, int] = {}
    symbol_of_kernel = np.array([number.setdefault(kernel.mangled_name, len(number)) for kernel in trace.kernels], np.int64)
    symbols = list(number)
    valid = np.flatnonzero(trace.dispatches.duration_ns >= 0)
    if len(valid) == 0:
        return {}
    symbol_of = symbol_of_kernel[trace.dispatches.kernel[valid]]
    order = np.argsort(symbol_of, kind="stable")
    starts = np.flatnonzero(np.diff(symbol_of[order], prepend=-1))
    groups = np.split(valid[order], starts[1:])
    return {symbols[symbol_of[order[start]]]: group for start, group in zip(starts, groups, strict=True)}


def _compile(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise ProfileError(f"{pattern!r} is not a regular expression: {error}", where="passes.helper_kernels") from error
    return compiled


def _why_nothing(trace: Trace) -> str:
    if len(trace.dispatches):
        return "every dispatch ends before it starts: the clocks of the trace are unreliable"
    return "no kernel was dispatched"
