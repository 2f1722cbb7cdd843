"""Ranking of the kernels of a trace, and selection of the kernel to analyse.

The default is the kernel with the largest exposed time that is not a runtime helper; if only helpers ran, the largest of them.
Exposed is the time in which no other kernel ran on the same GPU: hidden time cannot be gained by a faster kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.profiling.exposure import exclusive_times, gpu_of_agents
from rocm_perf_lab.toolchain.demangle import demangle
from rocm_perf_lab.toolchain.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Trace


_NEARLY = 0.8
"""Share of the time of the chosen kernel from which another kernel is named."""
_LONGEST_NAME = 60


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
    exposed_ns: int = 0
    """Time in which no other kernel ran on the same GPU."""


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
    by_symbol = _dispatches_by_symbol(trace)
    exposed = exposed_times(trace, list(by_symbol.values()))
    for (mangled, dispatches), exposed_ns in zip(by_symbol.items(), exposed, strict=True):
        name = demangle(name_of[mangled])
        own_ns = int(duration[dispatches].sum())
        is_helper = any(pattern.search(text) for pattern in helper for text in (name, mangled))
        longest_ns = int(duration[dispatches].max())
        ranked.append(RankedKernel(name, mangled, dispatches, own_ns, longest_ns, own_ns / total, is_helper, exposed_ns))
    return tuple(sorted(ranked, key=lambda kernel: (-kernel.total_ns, kernel.mangled_name)))


def select_kernel(trace: Trace, ranked: Sequence[RankedKernel], *, symbol: str | None = None) -> RankedKernel:
    """Return the kernel with that mangled name, or the one with the largest exposed time that is not a helper.

    Raises:
        ProfileError: No kernel was dispatched, every dispatch has an impossible duration, or `symbol` was not dispatched.
    """
    if not ranked:
        what, hint = _why_nothing(trace)
        raise ProfileError(what, where=str(trace.path), hint=hint)
    if symbol is not None:
        found = [kernel for kernel in ranked if kernel.mangled_name == symbol]
        if not found:
            names = ", ".join(kernel.mangled_name for kernel in ranked[:5])
            raise ProfileError(f"kernel {symbol!r} was not dispatched", where=str(trace.path), hint=f"kernels: {names}")
        return found[0]
    return max(_candidates(ranked), key=lambda kernel: (kernel.exposed_ns, kernel.total_ns, len(kernel.dispatches)))


def other_choice(
    ranked: Sequence[RankedKernel], chosen: RankedKernel, is_unlikely: Callable[[str], bool] = lambda name: False
) -> str | None:
    """Return a note that names another kernel that may be meant, and the option that selects it; None if there is none.

    Args:
        ranked: All kernels.
        chosen: The selected kernel.
        is_unlikely: Returns whether a kernel of that name is seldom the one to optimize, for example a collective.
    """
    others = [kernel for kernel in _candidates(ranked) if kernel is not chosen and not is_unlikely(kernel.name)]
    if not others or not chosen.total_ns:
        return None
    nearest = max(others, key=lambda kernel: (kernel.exposed_ns, kernel.total_ns))
    if is_unlikely(chosen.name):
        return f"{_named(nearest)} has the largest exposed time of the other kernels: select it with --kernel"
    busiest = max(others, key=lambda kernel: kernel.total_ns)
    if busiest.total_ns > chosen.total_ns:
        hidden = 1 - busiest.exposed_ns / busiest.total_ns
        return f"{_named(busiest)} has a larger total time, {hidden:.0%} of it behind other kernels: select it with --kernel"
    if nearest.exposed_ns >= _NEARLY * chosen.exposed_ns:
        share = nearest.exposed_ns / max(chosen.exposed_ns, 1)
        return f"{_named(nearest)} takes {share:.0%} of the time of {_named(chosen)}: select it with --kernel"
    return None


def exposed_times(trace: Trace, groups: Sequence[NDArray[np.int64]]) -> list[int]:
    """Return, for each group of dispatches, the time in ns in which no dispatch of another group ran on the same GPU.

    Args:
        trace: The trace.
        groups: Disjoint positions of dispatches.
    """
    dispatches = trace.dispatches
    group_of = np.full(len(dispatches), -1, np.int64)
    for number, rows in enumerate(groups):
        group_of[rows] = number
    gpu = gpu_of_agents(trace)[dispatches.agent]
    found: list[int] = exclusive_times(gpu, dispatches.start_ns, dispatches.end_ns, group_of, len(groups)).tolist()
    return found


def _candidates(ranked: Sequence[RankedKernel]) -> Sequence[RankedKernel]:
    return [kernel for kernel in ranked if not kernel.is_helper] or ranked


def _named(kernel: RankedKernel) -> str:
    return short_name(kernel.name, _LONGEST_NAME)


def _dispatches_by_symbol(trace: Trace) -> dict[str, NDArray[np.int64]]:
    """Return the positions of the dispatches of each symbol, without those that end before they start."""
    number: dict[str, int] = {}
    symbol_of_kernel = np.array([number.setdefault(kernel.mangled_name, len(number)) for kernel in trace.kernels], np.int64)
    symbols = list(number)
    valid = np.flatnonzero(trace.dispatches.duration_ns >= 0)
    if len(valid) == 0:
        return {}
    symbol_of = symbol_of_kernel[trace.dispatches.kernel[valid]]
    # NumPy sorts small integers in linear time.
    order = np.argsort(symbol_of.astype(np.int16) if len(symbols) < 1 << 15 else symbol_of, kind="stable")
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


def _why_nothing(trace: Trace) -> tuple[str, str]:
    """Return the reason why a trace has no kernel, and a hint."""
    if len(trace.dispatches):
        return "every dispatch ends before it starts: the clocks of the trace are unreliable", "record the run again"
    return "no kernel was dispatched", "check that the application uses the GPU"
