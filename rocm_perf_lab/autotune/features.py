"""Features of compiled configurations: registers, LDS, spills, occupancy and instruction mix.

Configurations are compiled without a GPU, in several processes, with the build cache. Features depend on the code object and
the launch geometry only, not on a run.
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
from rocm_perf_lab.autotune.spaces.space import SpaceError
from rocm_perf_lab.autotune.trial_cache import digest
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.languages.registry import find_language

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rocm_perf_lab.autotune.candidate import Candidate, KernelBuilder
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space

_FORMAT = 1
_SAME = 0.999
"""Correlation above which a column is redundant."""
_MIX = ("valu", "mfma", "salu", "smem", "vmem", "lds", "branch", "waitcnt", "barrier")

Facts = dict[str, float]
"""Feature -> value, for one configuration."""


@dataclass(frozen=True)
class CompiledSpace:
    """Space whose configurations are all compiled.

    Args:
        space: The configurations that can run.
        facts: Features of each of them.
        discarded: The other configurations, by row in the original space.
    """

    space: Space
    facts: tuple[Facts, ...]
    discarded: Discarded

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, in the order of `facts`."""
        return tuple(self.facts[0])

    def columns(self) -> Column:
        """Return the inputs of a model (configurations, features): logarithms scaled to 0..1, without redundant columns."""
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
        space: The search space.
        builder: Compiler of the kernel.
        workers: Number of processes; None: one per core.
        told: Called with the number of compiled configurations and their total.

    Raises:
        SpaceError: No configuration can run.
        LabError: There is no compiler, or the source does not define the kernel.
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
    # Spawn: a forked process would inherit locks held by threads that it does not have.
    with ProcessPoolExecutor(min(workers, len(configurations)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_Worker(builder), configurations, chunksize=4)


@dataclass(frozen=True)
class _Worker:
    builder: KernelBuilder

    def __call__(self, configuration: Configuration) -> Facts | Infeasible:
        candidate = self.builder.build(configuration)
        return candidate if isinstance(candidate, Infeasible) else cached_facts(candidate)


def cached_facts(candidate: Candidate) -> Facts:
    """Return the features of a compiled configuration, cached because disassembly is slow."""
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
    """Return registers, bytes, occupancy and geometry, and the share of each class of instructions."""
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
    except LabError:  # no disassembler for this GPU: use the metadata alone
        return facts
    facts["instructions"] = static.instructions
    facts |= {f"{kind}_share": getattr(static, kind) / max(static.instructions, 1) for kind in _MIX}
    return facts
