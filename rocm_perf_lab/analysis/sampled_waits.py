"""Operations that are outstanding at each `s_waitcnt` of a sampled kernel, from its code.

The code is followed in address order, and every loop twice, so that a wait at the start of a loop finds the operations of the
previous iteration. Without the whole code, the counters of the wait only determine the kind of operation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.rocprof.att.effects import Counter, row_effects
from rocm_perf_lab.rocprof.att.waits import Follower
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocm_perf_lab.rocprof.pc_samples import SampledInstruction

PendingKind = Literal["load", "store", "atomic", "scratch", "scalar", "lds"]
"""Kind of an outstanding operation."""

_SLOWEST_FIRST: tuple[PendingKind, ...] = ("scratch", "atomic", "load", "store", "scalar", "lds")
_BRANCH = re.compile(r"^s_c?branch\w*\s+(?P<distance>0x[0-9a-f]+|-?\d+)\b")
_DISTANCE_WRAP = 1 << 16
_LARGEST_FORWARD = 1 << 15
_WORD = 4
_MOST_REPEATED = 4
"""Upper bound of the followed instructions, in multiples of the code."""
_KINDS_OF_COUNTER: dict[Counter, tuple[PendingKind, ...]] = {
    Counter.VECTOR: ("load",),
    Counter.LOAD_GFX12: ("load",),
    Counter.SAMPLE: ("load",),
    Counter.STORE: ("store",),
    Counter.STORE_GFX12: ("store",),
    Counter.SCALAR: ("scalar",),
    Counter.LDS: ("lds",),
    Counter.SCALAR_AND_LDS: ("scalar", "lds"),
}


@dataclass(frozen=True)
class Pending:
    """Operation for which a wait waits: its kind, and the instruction if the code is known."""

    kind: PendingKind
    instruction: SampledInstruction | None
    is_certain: bool
    """False if operations of other kinds are also outstanding; the slowest kind is then assumed."""


def is_whole_code(instructions: Sequence[SampledInstruction]) -> bool:
    """Return True if the list also contains the instructions without samples, in code order."""
    return any(not one.samples for one in instructions) and all(one.address is not None for one in instructions)


def pending_operations(instructions: Sequence[SampledInstruction], gfxip: int | None) -> dict[int, Pending]:
    """Return the operation for which each wait waits, by position; waits with an unknown operation are omitted.

    Args:
        instructions: The sampled instructions of a kernel, in code order if it is its whole code.
        gfxip: GFX generation.
    """
    waits = {n: one for n, one in enumerate(instructions) if instruction_class(one.mnemonic) == "waitcnt"}
    if not is_whole_code(instructions):
        present = {kind for one in instructions if (kind := operation_kind(one)) is not None}
        return {n: found for n, one in waits.items() if (found := _by_counter(one, present, gfxip)) is not None}
    linked: dict[int, set[int]] = {}
    for victim, cause in _links(instructions, gfxip):
        linked.setdefault(victim, set()).add(cause)
    return {n: found for n in waits if (found := _slowest(instructions, sorted(linked.get(n, ())))) is not None}


def operation_kind(one: SampledInstruction) -> PendingKind | None:
    """Return the kind of a memory operation; None for other instructions."""
    name = one.mnemonic
    kind = instruction_class(name)
    if kind == "lds":
        return "lds"
    if kind == "smem":
        return "scalar"
    if kind != "vmem":
        return None
    if name.startswith("scratch_") or (name.startswith("buffer_") and " off, s[0:3]" in one.text):
        return "scratch"
    if "atomic" in name:
        return "atomic"
    return "store" if "_store" in name else "load"


def _slowest(instructions: Sequence[SampledInstruction], causes: Sequence[int]) -> Pending | None:
    """Return the youngest operation of the slowest kind."""
    kinds = {cause: operation_kind(instructions[cause]) for cause in causes}
    for kind in _SLOWEST_FIRST:
        own = [cause for cause in causes if kinds[cause] == kind]
        if own:
            return Pending(kind, instructions[own[-1]], len(set(kinds.values()) - {None}) == 1)
    return None


def _by_counter(wait: SampledInstruction, present: set[PendingKind], gfxip: int | None) -> Pending | None:
    """Return the kind that the counters of a wait name; None if several kinds of the kernel use the counter."""
    kinds = [kind for counter in row_effects(wait.text, gfxip).waits for kind in _KINDS_OF_COUNTER.get(counter, ())]
    possible = [kind for kind in kinds if kind in present] or kinds
    if not possible or set(possible) == {"scalar", "lds"}:
        return None
    slowest = min(possible, key=_SLOWEST_FIRST.index)
    return Pending(slowest, None, False)


def _links(instructions: Sequence[SampledInstruction], gfxip: int | None) -> Iterator[tuple[int, int]]:
    follower = Follower({n: row_effects(one.text, gfxip) for n, one in enumerate(instructions)}, gfxip)
    rows = np.array(_followed(instructions), np.int64)
    links = follower.counter_links(rows)
    pairs = (
        np.unique(np.stack([rows[links.victims], rows[links.causes]]), axis=1) if len(links.victims) else np.zeros((2, 0), int)
    )
    yield from zip(*pairs.tolist(), strict=True)


def _followed(instructions: Sequence[SampledInstruction]) -> list[int]:
    """Return positions in the order in which they are followed: each loop twice, inner loops within outer ones once more."""
    at = {(one.code_object, one.address): n for n, one in enumerate(instructions)}
    order: list[int] = []
    for n, one in enumerate(instructions):
        order.append(n)
        start = _loop_start(one, at)
        if start is not None and start <= n and len(order) + n + 1 - start <= _MOST_REPEATED * len(instructions):
            order.extend(range(start, n + 1))
    return order


def _loop_start(one: SampledInstruction, at: Mapping[tuple[int | None, int | None], int]) -> int | None:
    match = _BRANCH.match(one.text)
    if match is None or one.address is None:
        return None
    distance = int(match["distance"], 0) % _DISTANCE_WRAP
    if distance < _LARGEST_FORWARD:
        return None
    return at.get((one.code_object, one.address + _WORD + _WORD * (distance - _DISTANCE_WRAP)))
