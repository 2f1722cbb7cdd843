"""Packing of counters into profiling passes that fit the hardware's counter slots.

First fit, in the requested order. Counters of a ratio of cycles stay in one pass; a shared counter is collected twice if
necessary.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import architectures, find_architecture
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocm_perf_lab.arch.model import CounterBlock

_EVERYWHERE = frozenset({"SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_INSTS_FLAT", "SQ_INSTS_LDS", "SQ_INSTS_VMEM"})
"""Counters of the instruction mix that all architectures have, including those without a metric for them."""

_LEVELS = frozenset({"SQ_INST_LEVEL_VMEM", "SQ_INST_LEVEL_LDS", "SQ_INST_LEVEL_SMEM", "SQ_IFETCH_LEVEL", "SQ_LEVEL_WAVES"})
"""Counters of operations in flight, whose integral over time is in the accumulator."""
_ACCUMULATOR = "SQ_ACCUM_PREV_HIRES"


class CounterPassError(LabError):
    """A counter that no block of the architecture has."""


class UnknownSlotsError(CounterPassError):
    """An architecture with unknown counter slots."""


def plan_passes(architecture: str, counters: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the counters of each pass; no pass exceeds the slots of a block.

    Raises:
        UnknownSlotsError: The architecture is unknown.
        CounterPassError: A counter is not in a known block.
    """
    blocks = _blocks_of(architecture)
    wanted = counters_for(architecture, counters)
    block_of = {name: _block_of(name, blocks, architecture) for name in wanted}
    passes: list[dict[str, None]] = []
    for group in (*_ratios(architecture, wanted), *((name,) for name in wanted)):
        if len(group) == 1 and any(group[0] in one for one in passes):
            continue
        fitting = (one for one in passes if _fits({**one, **dict.fromkeys(group)}, blocks, block_of))
        chosen = next(fitting, None)
        if chosen is None:
            chosen = {}
            passes.append(chosen)
        chosen.update(dict.fromkeys(group))
    return tuple(_with_accumulator(one) for one in passes)


def _with_accumulator(names: Iterable[str]) -> tuple[str, ...]:
    """Return the counters of a pass with the accumulator after its level counter: rocprofv3 fills the slots in this order."""
    ordered = []
    for name in names:
        ordered.append(name)
        if name in _LEVELS and _ACCUMULATOR not in names:
            ordered.append(_ACCUMULATOR)
    return tuple(ordered)


def counters_for(architecture: str, counters: Sequence[str]) -> tuple[str, ...]:
    """Return this architecture's counters for the metrics that `counters` provide on another architecture.

    A list is written for one architecture: DRAM reads are TCC_EA0_RDREQ_sum on gfx942, TCC_EA_RDREQ_sum on gfx90a and
    GL2C_EA_RDREQ_128B_sum on gfx1030. A counter without a metric on any architecture stays unchanged.
    """
    wanted = dict.fromkeys(counters)
    others = [other for other in metrics.architectures() if other != architecture]
    known = metrics.counter_names(architecture)
    foreign = {name for other in others for name in metrics.counter_names(other)} - known - _EVERYWHERE
    if not known or foreign.isdisjoint(wanted):
        return tuple(wanted)
    here = metrics.load_metrics(architecture)
    elsewhere = _prefixes_of_others(architecture)
    foreign |= {counter for counter in wanted if counter.partition("_")[0] in elsewhere}
    given = {
        name
        for other in others
        for name, metric in metrics.load_metrics(other).items()
        if foreign.intersection(metric.counters) and set(metric.counters) - set(metric.assume_zero) <= wanted.keys()
    }
    instead = [counter for name, metric in here.items() if name in given for counter in metric.counters]
    return tuple(dict.fromkeys([*(counter for counter in wanted if counter not in foreign), *instead]))


def architectures_of(counters: Iterable[str]) -> tuple[str, ...]:
    """Return the known architectures that have all these counters and their blocks; all if no counter distinguishes them.

    gfx90a has TCC_EA_RDREQ, gfx942 has TCC_EA0_RDREQ, and only RDNA has the block GL2C.
    """
    names = tuple(counters)
    prefixes = {name.partition("_")[0] for name in names}
    blocks = {name: _prefixes(architecture.counter_blocks) for name, architecture in architectures().items()}
    known = prefixes & set().union(*blocks.values())
    return tuple(one for one in metrics.architectures_of(names) if known <= blocks[one])


def _prefixes_of_others(architecture: str) -> set[str]:
    """Return the name prefixes of counter blocks that only other architectures have."""
    own = _prefixes(_blocks_of(architecture))
    return set().union(*(_prefixes(one.counter_blocks) for one in architectures().values())) - own


def _prefixes(blocks: Mapping[str, CounterBlock]) -> set[str]:
    return {prefix for block in blocks.values() for prefix in block.prefixes}


def _ratios(architecture: str, wanted: Sequence[str]) -> list[tuple[str, ...]]:
    """Return sets of counters that a metric divides by each other and that vary between passes, largest first."""
    sets = {
        metric.counters
        for metric in metrics.load_metrics(architecture).values()
        if metric.kind == "cycles" and len(metric.counters) > 1 and set(metric.counters) <= set(wanted)
    }
    return sorted(sets, key=lambda names: (-len(names), names))


def _fits(names: Iterable[str], blocks: Mapping[str, CounterBlock], block_of: Mapping[str, str]) -> bool:
    used: Counter[str] = Counter()
    levels = 0
    for name in names:
        # An in-flight counter needs its accumulator in the next slot, and there is one accumulator.
        is_level = block_of[name] == "SQ" and "_LEVEL" in name
        levels += is_level
        used[block_of[name]] += 2 if is_level else 1
    return levels <= 1 and all(count <= blocks[block].slots for block, count in used.items())


def _block_of(counter: str, blocks: Mapping[str, CounterBlock], architecture: str) -> str:
    prefix = counter.partition("_")[0]
    for name, block in blocks.items():
        if prefix in block.prefixes:
            return name
    raise CounterPassError(
        f"{architecture} has no counter block for {counter}",
        where="passes.counters",
        hint=f"blocks: {', '.join(blocks)}; a counter's name begins with its block",
    )


def _blocks_of(architecture: str) -> Mapping[str, CounterBlock]:
    described = find_architecture(architecture)
    if described is None:
        raise UnknownSlotsError(
            f"counter slots of {architecture} are unknown", hint=f"known architectures: {', '.join(architectures())}"
        )
    return described.counter_blocks
