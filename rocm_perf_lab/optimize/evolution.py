"""Evolutionary search: islands with archives of diverse sources, parents sampled by score and novelty, migration, crossover."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.archive import Archive, is_parent, speeds
from rocm_perf_lab.optimize.search import ParentSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.proposal import Verdict


@dataclass(frozen=True)
class EvolutionRules:
    """Parameters of the search.

    Args:
        islands: Number of islands, which evolve separately.
        samples: Number of parents per round, over all islands.
        capacity: Maximum number of niches per island.
        migration_interval: Rounds between migrations, in which the best source of each island is copied to the next one.
        crossover: Probability that a parent is combined with another source.
        pressure: Exponent of the speed of a source in its weight as a parent; 0 ignores speed.
        novelty: Weight of the novelty of a source compared with its speed.
        seed: Seed of all draws.
    """

    islands: int = 2
    samples: int = 4
    capacity: int = 16
    migration_interval: int = 3
    crossover: float = 0.25
    pressure: float = 2.0
    novelty: float = 0.5
    seed: int = 0


class EvolutionarySearch:
    """Samples the parents of each round from all correct sources found so far.

    A rewrite is added to the island from whose archive its parent was drawn. If several islands drew the same parent, they
    receive its rewrites in turn.
    """

    def __init__(self, rules: EvolutionRules) -> None:
        self._rules = rules
        self._random = Random(rules.seed)
        self._archives = [Archive(rules.capacity) for _ in range(rules.islands)]
        self._round = 0
        self._children: Counter[str] = Counter()
        self._islands_of: dict[str, list[int]] = {}

    @property
    def archives(self) -> tuple[Archive, ...]:
        """Archive of each island."""
        return tuple(self._archives)

    def start(self, baseline: Verdict) -> list[ParentSelection]:
        """Add the unmodified source to every island, and select it."""
        for archive in self._archives:
            archive.add(baseline)
        return self._select()

    def follow(self, round_: Sequence[Verdict], winner: Verdict | None, best_ns: float) -> list[ParentSelection]:
        """Add the correct sources of a round to the archives, migrate if due, and select the next parents."""
        turns: Counter[str] = Counter()
        for verdict in round_:
            parent = verdict.proposal.parent_id or ""
            self._children[parent] += 1
            islands = self._islands_of.get(parent)
            if islands and is_parent(verdict):
                self._archives[islands[turns[parent] % len(islands)]].add(verdict)
                turns[parent] += 1
        self._round += 1
        if self._rules.islands > 1 and self._round % self._rules.migration_interval == 0:
            self._migrate()
        return self._select()

    def _migrate(self) -> None:
        """Copy the best source of each island to the next one."""
        leaving = [archive.elites[0] for archive in self._archives]
        for island, verdict in enumerate(leaving):
            self._archives[(island + 1) % len(self._archives)].add(verdict)

    def _select(self) -> list[ParentSelection]:
        self._islands_of = {}
        selections = []
        for sample in range(self._rules.samples):
            island = (self._round * self._rules.samples + sample) % self._rules.islands
            parent = self._draw(self._archives[island])
            islands = self._islands_of.setdefault(parent.proposal.id, [])
            if island not in islands:
                islands.append(island)
            selections.append(ParentSelection(parent.proposal, self._partners(parent, island)))
        return selections

    def _draw(self, archive: Archive, without: str | None = None) -> Verdict:
        """Draw a source by speed and novelty; sources with many rewrites are drawn less often."""
        elites = [verdict for verdict in archive.elites if verdict.proposal.id != without]
        rules = self._rules
        weights = [
            (speed**rules.pressure + rules.novelty * archive.novelty(verdict)) / (1 + self._children[verdict.proposal.id])
            for verdict, speed in zip(elites, speeds(elites), strict=True)
        ]
        return self._random.choices(elites, weights)[0]

    def _partners(self, parent: Verdict, island: int) -> tuple[Verdict, ...]:
        """Return a source to combine with the parent, from the same island or the next one."""
        if self._random.random() >= self._rules.crossover:
            return ()
        for other in (island, (island + 1) % self._rules.islands):
            archive = self._archives[other]
            if any(verdict.proposal.id != parent.proposal.id for verdict in archive.elites):
                return (self._draw(archive, without=parent.proposal.id),)
        return ()
