"""Selection among alternatives with weights that adapt to their success, for models, temperatures and types of rewrites."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from random import Random

_PRIOR_CREDIT = 0.2
_PRIOR_USES = 2.0


class AdaptiveWeights:
    """Weights of alternatives. The weight of earlier credits decreases by the factor `decay` per use.

    Args:
        initial: Initial weight of each alternative, positive.
        decay: Factor of all earlier credits at each use, from 0 to 1.
        floor: Share of the choices that is distributed evenly, so that no alternative is abandoned.
    """

    def __init__(self, initial: Mapping[str, float], *, decay: float = 0.9, floor: float = 0.2) -> None:
        mean = sum(initial.values()) / len(initial)
        self._credit = {name: _PRIOR_CREDIT * _PRIOR_USES * weight / mean for name, weight in initial.items()}
        self._uses = dict.fromkeys(initial, _PRIOR_USES)
        self._decay = decay
        self._floor = floor

    def weights(self, without: Container[str] = ()) -> dict[str, float]:
        """Return the probability of each alternative except those in `without`, which may be empty."""
        names = [name for name in self._credit if name not in without]
        success = {name: self._credit[name] / self._uses[name] for name in names}
        total = sum(success.values())
        return {name: self._floor / len(names) + (1 - self._floor) * success[name] / total for name in names}

    def choose(self, random: Random, without: Container[str] = ()) -> str | None:
        """Return an alternative, drawn by weight; None if all are excluded. A single alternative is returned without a draw."""
        weights = self.weights(without)
        if len(weights) <= 1:
            return next(iter(weights), None)
        return random.choices(list(weights), list(weights.values()))[0]

    def reward(self, name: str, credit: float) -> None:
        """Record one use of an alternative, with a credit from 0 (useless) to 1."""
        for other in self._credit:
            self._credit[other] *= self._decay
            self._uses[other] *= self._decay
        self._credit[name] += min(max(credit, 0.0), 1.0) + (1 - self._decay) * _PRIOR_CREDIT
        self._uses[name] += 1.0
