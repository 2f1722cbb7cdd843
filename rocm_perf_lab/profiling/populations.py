"""Populations of a kernel's dispatches: those with equal launch shape and equal code.

Dispatches of one name with different grids, workgroups or LDS, or of different code (another template or autotuner
configuration under the same name), do different work. Their times must not be pooled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.rocprof.trace import Trace, TracedKernel

    Integers = NDArray[np.int64]

Dim3 = tuple[int, int, int]

_MIN_DISPATCHES_PER_SYMBOL = 4
"""With fewer dispatches per kernel symbol of equal resources, the application loads the same code again and again."""
_SMALL_TABLE = 1 << 12
_NARROW = 1 << 15


@dataclass(frozen=True)
class Population:
    """Dispatches of one kernel with equal launch shape and code. `grid` counts workgroups, `block` work-items."""

    grid: Dim3
    block: Dim3
    lds_bytes: int
    version: int
    """Number of the code version among those of the kernel, by first use; 0 if there is one version."""
    kernel: int
    """One of its kernels in the trace; all of them have equal resources."""
    dispatches: Integers
    """Positions in the trace, in order of start."""
    total_ns: int
    median_ns: float
    share: float
    """Share of the kernel's total time, or of its dispatches if none has a duration."""

    @property
    def launch(self) -> str:
        """Launch shape as text, for example `4096x1x1 of 256x1x1`."""
        return f"{_shape(self.grid)} of {_shape(self.block)}"

    def has_shape_of(self, other: Population) -> bool:
        """Return whether grid and block are equal."""
        return (self.grid, self.block) == (other.grid, other.block)


def populations(trace: Trace, dispatches: Integers) -> tuple[Population, ...]:
    """Return the populations of one kernel's dispatches by descending total time.

    Args:
        trace: The run.
        dispatches: Positions of the dispatches of one kernel symbol, in order of start, at least one.
    """
    table = trace.dispatches
    block, items = table.workgroup[dispatches], table.grid[dispatches]
    version = _versions(trace, dispatches)
    label = _label((version, table.lds_bytes[dispatches], *items.T, *block.T))
    label = _with_equal_workgroups(label, version, table.lds_bytes[dispatches], items, block)
    # NumPy sorts small integers in linear time.
    order = np.argsort(label.astype(np.int16) if label.max() < _NARROW else label, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    duration = np.maximum(table.duration_ns[dispatches], 0)
    whole = int(duration.sum())
    found = []
    for group in groups:
        first, total = int(group[0]), int(duration[group].sum())
        found.append(
            Population(
                grid=_workgroups(items[first], block[first]),
                block=_dim3(block[first]),
                lds_bytes=int(table.lds_bytes[dispatches[first]]),
                version=int(version[first]),
                kernel=int(table.kernel[dispatches[first]]),
                dispatches=dispatches[group],
                total_ns=total,
                median_ns=float(np.median(duration[group])),
                share=total / whole if whole else len(group) / len(dispatches),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.total_ns, -len(one.dispatches), int(one.dispatches[0]))))


def dispatches_like(trace: Trace, dispatches: Integers, wanted: Population, resources: tuple[object, ...]) -> Integers:
    """Return the dispatches of a kernel in another run that have the launch shape and code of a population, in order of start.

    Args:
        trace: The other run.
        dispatches: Positions of the kernel's dispatches in it.
        wanted: Population of the first run.
        resources: Registers, LDS and scratch of its kernel, see :func:`resources_of_code`.
    """
    if len(dispatches) == 0:
        return dispatches
    found = [one for one in populations(trace, dispatches) if one.has_shape_of(wanted)]
    for alike in (
        [one for one in found if resources_of_code(trace.kernels[one.kernel]) == resources],
        [one for one in found if one.lds_bytes == wanted.lds_bytes],
        [one for one in found if one.version == wanted.version],
    ):
        found = [one for one in found if any(one is other for other in alike)] or found
    none = np.empty(0, np.int64)
    return np.sort(np.concatenate([one.dispatches for one in found])) if found else none


def describe_others(found: Sequence[Population], most: int = 3) -> tuple[str, ...]:
    """Return a note on the populations after the first one, or an empty tuple if there is one population."""
    if len(found) < 2:
        return ()
    others, all_dispatches = found[1:], sum(len(one.dispatches) for one in found)
    versions = len({one.version for one in found})
    named = "; ".join(f"{_described(one, versions)}, {one.share:.0%} of the time" for one in others[:most])
    more = f"; and {len(others) - most} more" if len(others) > most else ""
    count = len(found[0].dispatches)
    return (
        f"times are those of the {count} dispatches of {_described(found[0], versions, counted=False)}; the other "
        f"{all_dispatches - count} dispatches of the kernel have other launch shapes or code: {named}{more}",
    )


def _described(one: Population, versions: int, *, counted: bool = True) -> str:
    lds = f" with {one.lds_bytes} B of LDS" if one.lds_bytes else ""
    code = f", code version {one.version + 1} of {versions}" if versions > 1 else ""
    return f"{f'{len(one.dispatches)} x ' if counted else ''}{one.launch}{lds}{code}"


def _versions(trace: Trace, dispatches: Integers) -> Integers:
    """Return the code version of each dispatch, numbered by first use.

    Kernel symbols of one GPU of one process are different code if their resources differ, or if they were loaded separately and
    are dispatched repeatedly. The symbols of different processes and GPUs correspond in order.
    """
    table = trace.dispatches
    kernels = table.kernel[dispatches]
    if kernels.min() == kernels.max():
        return np.zeros(len(dispatches), np.int64)
    used = np.unique(kernels)
    version_of: dict[int, tuple[object, ...]] = {}
    loaded: dict[tuple[object, ...], int] = {}
    reloaded = _reloaded(trace, kernels)
    agents = table.agent[dispatches]
    for kernel in used.tolist():
        resources = resources_of_code(trace.kernels[kernel])
        # A symbol is in the code object of one GPU.
        agent = int(agents[np.argmax(kernels == kernel)])
        place = (trace.kernels[kernel].process, agent, *resources)
        number = loaded.get(place, 0)
        loaded[place] = number + 1
        version_of[kernel] = (*resources, 0 if resources in reloaded else number)
    first_use: dict[tuple[object, ...], int] = {}
    _, first = np.unique(kernels, return_index=True)
    for position in np.sort(first).tolist():
        key = version_of[int(kernels[position])]
        first_use.setdefault(key, len(first_use))
    number_of = np.zeros(int(used[-1]) + 1, np.int64)
    number_of[used] = [first_use[version_of[kernel]] for kernel in used.tolist()]
    versions: Integers = number_of[kernels]
    return versions


def _reloaded(trace: Trace, kernels: Integers) -> set[tuple[object, ...]]:
    """Return the resources of symbols with too few dispatches each to be different versions."""
    used, count = np.unique(kernels, return_counts=True)
    symbols: dict[tuple[object, ...], list[int]] = {}
    for kernel, dispatched in zip(used.tolist(), count.tolist(), strict=True):
        symbols.setdefault(resources_of_code(trace.kernels[kernel]), []).append(dispatched)
    return {key for key, counts in symbols.items() if sum(counts) < _MIN_DISPATCHES_PER_SYMBOL * len(counts)}


def resources_of_code(kernel: TracedKernel) -> tuple[object, ...]:
    """Return registers, LDS, scratch and code object of a kernel symbol; equal for equal code."""
    return (
        kernel.arch_vgpr_count,
        kernel.accum_vgpr_count,
        kernel.sgpr_count,
        kernel.static_lds_bytes,
        kernel.static_scratch_bytes,
        kernel.code_object,
    )


def _with_equal_workgroups(label: Integers, version: Integers, lds: Integers, items: Integers, block: Integers) -> Integers:
    """Join groups whose grids differ in work-items only: the last workgroup of each may be partial."""
    first = np.zeros(int(label.max()) + 1, np.int64)
    first[label[::-1]] = np.arange(len(label) - 1, -1, -1)
    number: dict[tuple[object, ...], int] = {}
    joined = [
        number.setdefault((int(version[one]), int(lds[one]), _workgroups(items[one], block[one]), _dim3(block[one])), len(number))
        for one in first.tolist()
    ]
    return label if len(number) == len(joined) else np.array(joined, np.int64)[label]


def _workgroups(items: Integers, block: Integers) -> Dim3:
    return _dim3(-(-items // np.maximum(block, 1)))


def _label(columns: Sequence[Integers]) -> Integers:
    """Return a number per row, dense from 0; equal rows have equal numbers."""
    label = np.zeros(len(columns[0]), np.int64)
    size = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if low == high:
            continue
        code, count = _dense(column - low, high - low + 1)
        label, size = _dense(label * count + code, size * count)
    return label


def _dense(numbers: Integers, size: int) -> tuple[Integers, int]:
    """Return the rank of each number among the distinct ones, which are below `size`, and how many are distinct."""
    if size > max(_SMALL_TABLE, 2 * len(numbers)):
        values, rank = np.unique(numbers, return_inverse=True)
        return rank.ravel(), len(values)
    used = np.zeros(size, bool)
    used[numbers] = True
    return (np.cumsum(used) - 1)[numbers], int(np.count_nonzero(used))


def _shape(sizes: Dim3) -> str:
    return "x".join(map(str, sizes))


def _dim3(sizes: Integers) -> Dim3:
    x, y, z = (int(size) for size in sizes)
    return x, y, z
