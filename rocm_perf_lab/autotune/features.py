"""What is known of every configuration before anything runs: registers, LDS, spills, occupancy and instruction mix.

Code objects are compiled without a GPU, in several processes, and kept in the build cache. A feature comes from the code
object and the launch's geometry alone; nothing that only a run could tell (achieved occupancy, counters) is among them.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.discarded import Discarded
from rocm_perf_lab.autotune.objective import Infeasible
from rocm_perf_lab.autotune.space import SpaceError
from rocm_perf_lab.autotune.trial_cache import digest
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.languages.registry import find_language

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rocm_perf_lab.autotune.candidate import Candidate, KernelBuilder
    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.space import Configuration, Space

_FORMAT = 1
_SAME = 0.999
"""Columns with this correlation say the same."""
_MIX = ("valu", "mfma", "salu", "smem", "vmem", "lds", "branch", "waitcnt", "barrier")

Facts = dict[str, float]
"""Feature -> its value, for one configuration."""


@dataclass(frozen=True)
class CompiledSpace:
    """A space of which every configuration has been compiled.

    Args:
        space: The configurations that can run.
        facts: Of each of them.
        discarded: The others, by their row in the space as it was.
    """

    space: Space
    facts: tuple[Facts, ...]
    discarded: Discarded

    @property
    def names(self) -> tuple[str, ...]:
        """Features, in the order of `facts`."""
        return tuple(self.facts[0])

    def columns(self) -> Column:
        """For a model, `(configurations, features)`: logarithms between 0 and 1, without what is constant or said twice."""
        values = np.log2(1 + np.array([list(facts.values()) for facts in self.facts]))
        kept: list[Column] = []
        for column in values.T:
            spread = float(np.ptp(column))
            if spread == 0 or any(abs(np.corrcoef(column, other)[0, 1]) > _SAME for other in kept):
                continue
            kept.append((column - column.min()) / spread)
        return np.column_stack(kept) if kept else np.zeros((len(self.facts), 0))


def compile_space(
    space: Space, builder: KernelBuilder, *, workers: int | None = None, told: Callable[[int, int], None] = lambda done, of: None
) -> CompiledSpace:
    """Compile every configuration.

    Args:
        space: What is searched.
        builder: Of the kernel.
        workers: Processes; None: one per core.
        told: Called with how many are compiled, and how many there are.

    Raises:
        SpaceError: No configuration can run.
        LabError: No compiler, or a kernel that is not in the source.
    """
    configurations = [space.complete(space.configuration(row)) for row in range(len(space))]
    found: list[Facts | Infeasible] = []
    for facts in _compiled(builder, configurations, workers or os.cpu_count() or 1):
        found.append(facts)
        told(len(found), len(configurations))
    reasons = {row: facts for row, facts in enumerate(found) if isinstance(facts, Infeasible)}
    if len(reasons) == len(space):
        first = next(iter(reasons.values()))
        raise SpaceError(
            f"no configuration of the space can run: {first.reason}",
            where=space.where,
            hint="lower tile sizes, or raise autotune.max_spills",
        )
    discarded = Discarded(reasons, {row: space.configuration(row) for row in reasons})
    keep = np.array([row not in reasons for row in range(len(space))])
    defaults = space.defaults if space.defaults is None or keep[space.index(space.defaults)] else None
    facts_kept = tuple(facts for facts in found if not isinstance(facts, Infeasible))
    return CompiledSpace(replace(space, codes=space.codes[keep], defaults=defaults), facts_kept, discarded)


def _compiled(builder: KernelBuilder, configurations: Sequence[Configuration], workers: int) -> Iterator[Facts | Infeasible]:
    if workers == 1 or len(configurations) < 2:
        yield from map(_Worker(builder), configurations)
        return
    # Spawned: a forked process would inherit locks of threads that it does not have.
    with ProcessPoolExecutor(min(workers, len(configurations)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_Worker(builder), configurations, chunksize=4)


@dataclass(frozen=True)
class _Worker:
    builder: KernelBuilder

    def __call__(self, configuration: Configuration) -> Facts | Infeasible:
        candidate = self.builder.build(configuration)
        return candidate if isinstance(candidate, Infeasible) else cached_facts(candidate)


def cached_facts(candidate: Candidate) -> Facts:
    """The features of a compiled configuration; disassembling takes longer than everything else, so they are kept."""
    geometry = candidate.geometry
    launch = [geometry.work_items, geometry.block, geometry.dynamic_lds_bytes, candidate.occupancy.waves_per_simd]
    path = cache_dir() / "features" / digest([_FORMAT, candidate.build.code_object.sha256, candidate.kernel.symbol, launch])
    stored = read_sealed(path)
    if stored is not None:
        known: Facts = json.loads(stored)
        return known
    facts = facts_of(candidate)
    write_sealed(path, json.dumps(facts).encode())
    return facts


def facts_of(candidate: Candidate) -> Facts:
    """Registers, bytes, occupancy and geometry, and the share of each class of instructions in the code."""
    kernel, occupancy, geometry = candidate.kernel, candidate.occupancy, candidate.geometry
    facts: Facts = {
        "vgpr": kernel.vgpr_count - kernel.agpr_count,
        "agpr": kernel.agpr_count,
        "sgpr": kernel.sgpr_count,
        "lds_bytes": candidate.lds_bytes,
        "scratch_bytes": kernel.scratch_bytes,
        "vgpr_spills": kernel.vgpr_spill_count,
        "sgpr_spills": kernel.sgpr_spill_count,
        "waves_per_simd": occupancy.waves_per_simd,
        "workgroups_per_cu": occupancy.workgroups_per_cu,
        "workgroups": prod(geometry.grid),
        "work_items": prod(geometry.block),
    }
    try:
        static = find_language(candidate.description.language).static_features(candidate.build, kernel)
    except LabError:  # no disassembler here for this GPU: the metadata is known all the same
        return facts
    facts["instructions"] = static.instructions
    facts |= {f"{kind}_share": getattr(static, kind) / max(static.instructions, 1) for kind in _MIX}
    return facts
