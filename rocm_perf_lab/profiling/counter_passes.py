"""Packs counters into profiling passes, so that every pass fits the hardware's counter slots.

Takes the wanted counters of one architecture, gives the counters of each pass. First fit, in the order of the request;
counters of one ratio of times are kept in one pass, where need be by collecting a shared counter twice.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import load_yaml
from rocm_perf_lab.rocprof import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_EVERYWHERE = frozenset({"SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_INSTS_FLAT", "SQ_INSTS_LDS", "SQ_INSTS_VMEM"})
"""Counters of the instruction mix that all architectures have, though not all have a metric of them."""
_FILE = Path(metrics.__file__).with_name("counter_blocks.yaml")


class CounterPassError(LabError):
    """A counter that no block of the architecture has."""


class UnknownSlotsError(CounterPassError):
    """An architecture whose counter slots are not known: nothing can be planned for it."""


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    slots: int
    prefixes: tuple[str, ...]


def plan_passes(architecture: str, counters: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The counters of each pass; no pass exceeds the slots of a block.

    Raises:
        UnknownSlotsError: An unknown architecture.
        CounterPassError: A counter of an unknown block.
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
    return tuple(tuple(one) for one in passes)


def counters_for(architecture: str, counters: Sequence[str]) -> tuple[str, ...]:
    """The counters with which this architecture gives the metrics that `counters` give on another.

    A list is written for one architecture: reads of DRAM are TCC_EA0_RDREQ_sum on gfx942, TCC_EA_RDREQ_sum on gfx90a and
    GL2C_EA_RDREQ_128B_sum on gfx1030. A counter that no metric of any architecture knows stays as it is.
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
    """Those that have all these counters and their blocks, of those that the lab knows; all where no counter tells them apart.

    gfx90a has TCC_EA_RDREQ where gfx942 has TCC_EA0_RDREQ, and only RDNA has a block GL2C.
    """
    names = tuple(counters)
    prefixes = {name.partition("_")[0] for name in names}
    of_table = {key: {prefix for block in table.values() for prefix in block.prefixes} for key, table in _tables().items()}
    known = prefixes & set().union(*of_table.values())
    with_blocks = {one for key, own in of_table.items() if known <= own for one in key.split()}
    return tuple(one for one in metrics.architectures_of(names) if one in with_blocks)


def _prefixes_of_others(architecture: str) -> set[str]:
    """What the names of counters begin with whose block other architectures alone have."""
    own = {prefix for block in _blocks_of(architecture).values() for prefix in block.prefixes}
    return {prefix for blocks in _tables().values() for block in blocks.values() for prefix in block.prefixes} - own


def _ratios(architecture: str, wanted: Sequence[str]) -> list[tuple[str, ...]]:
    """Counter sets that a metric divides by each other and that differ from pass to pass, largest first."""
    sets = {
        metric.counters
        for metric in metrics.load_metrics(architecture).values()
        if metric.kind == "cycles" and len(metric.counters) > 1 and set(metric.counters) <= set(wanted)
    }
    return sorted(sets, key=lambda names: (-len(names), names))


def _fits(names: Iterable[str], blocks: Mapping[str, _Block], block_of: Mapping[str, str]) -> bool:
    used: Counter[str] = Counter()
    levels = 0
    for name in names:
        # An in-flight counter needs its accumulator in the next slot, and there is one accumulator.
        is_level = block_of[name] == "SQ" and "_LEVEL" in name
        levels += is_level
        used[block_of[name]] += 2 if is_level else 1
    return levels <= 1 and all(count <= blocks[block].slots for block, count in used.items())


def _block_of(counter: str, blocks: Mapping[str, _Block], architecture: str) -> str:
    prefix = counter.partition("_")[0]
    for name, block in blocks.items():
        if prefix in block.prefixes:
            return name
    raise CounterPassError(
        f"no counter block of {architecture} has {counter}",
        where="passes.counters",
        hint=f"blocks: {', '.join(blocks)}; a counter's name begins with its block",
    )


def _blocks_of(architecture: str) -> Mapping[str, _Block]:
    tables = _tables()
    for architectures, blocks in tables.items():
        if architecture in architectures.split():
            return blocks
    known = " ".join(tables)
    raise UnknownSlotsError(
        f"counter slots of {architecture} are unknown", where=_FILE.name, hint=f"known architectures: {known}"
    )


@cache
def _tables() -> Mapping[str, Mapping[str, _Block]]:
    """The blocks of each table, by the architectures that it is for."""
    return {
        architectures: {name: _Block.model_validate(row) for name, row in table.items()}
        for architectures, table in load_yaml(_FILE.read_text()).items()
    }
