"""Any Optuna sampler on a space with constraints.

Optuna's samplers know parameters one by one. :class:`WrappedSampler` lets one propose until the proposal is new. A new proposal
that violates constraints is not measured: :func:`refuse` ends its trial and reports the constraints to Optuna, so that samplers
that support constraints learn from it. After five of these in a row, the nearest valid configuration is proposed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState

from rocm_perf_lab.autotune.claims import ClaimingSampler, ClaimProposal
from rocm_perf_lab.autotune.objective import SpaceExhausted
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.trials import is_interrupted, trial_by_number
from rocm_perf_lab.core.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

    from rocm_perf_lab.autotune.claims import Key
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space

_DRAWS = 20
_REFUSALS_IN_A_ROW = 5
_PAIRS = 60
_LISTED = "listed in the space"


class WrappedSampler(ClaimingSampler):
    """Sampler that proposes what `inner` draws, if no other trial has it.

    Args:
        space: The valid configurations.
        inner: Any Optuna sampler for categorical parameters.
        seed: Seed of the choice between equally near configurations.
    """

    def __init__(self, space: Space, inner: BaseSampler, *, seed: int = 0) -> None:
        super().__init__(space)
        self._inner = inner
        self._seed = seed

    @property
    def name(self) -> str:
        """Name of the inner sampler."""
        return type(self._inner).__name__

    def reseed_rng(self) -> None:
        """Reseed the inner sampler, so that processes that share a study draw different numbers."""
        self._inner.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Forward to the inner sampler."""
        self._inner.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Forward to the inner sampler."""
        super().after_trial(study, trial, state, values)
        with suppress(RuntimeError):  # GridSampler calls study.stop() after its last point, outside of study.optimize
            self._inner.after_trial(study, trial, state, values)

    def propose(self, study: Study, number: int, refused: Collection[Key]) -> ClaimProposal:
        """Draw until a combination is free; see :class:`ClaimingSampler`."""
        current = trial_by_number(study, number)  # with system attributes of before_trial
        taken = self.claimed(study, number) | set(refused)
        may_refuse = _refusals_in_a_row(study, number) < _REFUSALS_IN_A_ROW
        for draw in range(_DRAWS):
            drawn = self._draw(study, current)
            key = self.key(drawn)
            if self._space.index(drawn) is None and not (may_refuse and draw < _DRAWS - 1):
                key = self._nearest_free(key, taken, number)
            if key not in taken:
                return ClaimProposal(key)
            taken.add(key)
        return ClaimProposal(self._nearest_free(key, taken, number))

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Sample a parameter that the space does not have."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def _draw(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        relative = self._inner.infer_relative_search_space(study, trial)
        drawn = self._inner.sample_relative(study, trial, relative)
        return {
            name: drawn[name] if name in drawn else self._inner.sample_independent(study, trial, name, distribution)
            for name, distribution in self._distributions.items()
        }

    def _nearest_free(self, key: Key, taken: Collection[Key], number: int) -> Key:
        """Return a free valid configuration with the fewest differing values; ties are broken by the seed.

        Of a space that is not enumerated, one near these is returned.
        """
        random = np.random.default_rng([self._seed, number])
        codes = self._space.codes
        if isinstance(self._space, LazySpace):
            codes = np.vstack([codes, *_towards(self._space, np.array(key), random)])
        distance = (codes != np.array(key)).sum(axis=1) + random.random(len(codes)) / 2
        known = set(taken)
        for row in np.argsort(distance, kind="stable").tolist():
            found = tuple(codes[row].tolist())
            if found not in known:
                return found
        raise SpaceExhausted(f"all {len(self._space)} configurations are measured", hint="lower the budget, or widen the space")


def _towards(space: LazySpace, key: Column, random: np.random.Generator) -> list[Column]:
    """Return valid configurations ever nearer to a combination of values, and those around them."""
    present = space.codes[np.argmin((space.codes != key).sum(axis=1))]
    found: list[Column] = []
    while len(found) < len(key):
        near = space.near(present[None], random, _PAIRS)
        if not len(near):
            break
        found.append(near)
        distances = (near != key).sum(axis=1)
        if distances.min() >= (present != key).sum():
            break
        present = near[np.argmin(distances)]
    return found


def _refusals_in_a_row(study: Study, own: int) -> int:
    """Return how many of the latest finished trials violated constraints, without interruption."""
    refusals = 0
    for trial in sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number):
        if trial.number != own and trial.state.is_finished() and not is_interrupted(trial):
            refusals = refusals + 1 if trial.state == TrialState.PRUNED else 0
    return refusals


def refuse(study: Study, trial: Trial, space: Space, parameters: Mapping[str, Any]) -> bool:
    """End a trial that violates constraints without measuring it; return False for a valid configuration."""
    if space.index(parameters) is not None:
        return False
    try:
        violated = space.violated(parameters) or (_LISTED,)
    except ExpressionError:  # a derived value that is defined for valid combinations only
        violated = (_LISTED,)
    for text in violated:
        trial.set_constraint(text, 1.0)
    study.tell(trial, state=TrialState.PRUNED)
    return True
