"""Any sampler of Optuna on a space: nothing is proposed twice, and what violates a constraint is never measured.

Optuna's samplers know parameters one by one. :class:`ClaimingSampler` lets one propose until the proposal is new. A new
proposal that breaks constraints becomes a trial of its own, for :func:`refuse` to tell with Optuna's constraints, so that
samplers that heed them learn; after a few of these the nearest valid configuration is taken.

Several processes may share the study. Each writes what it wants into its trial (the claim) before it reads the claims of
the others, and yields where it sees its own: of two that want the same at least one reads after the other has written.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import BaseSampler
from optuna.trial import TrialState

from rocm_perf_lab.autotune.objective import SpaceExhausted
from rocm_perf_lab.autotune.trials import INTERRUPTED
from rocm_perf_lab.core.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

    from rocm_perf_lab.autotune.space import Configuration, Space

CLAIM = "claim"
"""User attribute: which value of each parameter a trial is about, as numbers."""
_DRAWS = 20
_REFUSALS_IN_A_ROW = 5
_LISTED = "listed in the space"

Key = tuple[int, ...]


class ClaimingSampler(BaseSampler):
    """Takes what `inner` proposes where nobody else has it.

    Args:
        space: The valid configurations.
        inner: Any sampler of Optuna for categorical parameters.
        seed: Of the choice between equally near configurations.
    """

    def __init__(self, space: Space, inner: BaseSampler, *, seed: int = 0) -> None:
        self._space = space
        self._inner = inner
        self._seed = seed
        self._distributions: dict[str, BaseDistribution] = dict(space.distributions())
        self._codes = {name: {value: code for code, value in enumerate(values)} for name, values in space.values.items()}

    @property
    def name(self) -> str:
        """What the sampler is called in results."""
        return type(self._inner).__name__

    def reseed_rng(self) -> None:
        """Several processes of one study must not draw the same numbers."""
        self._inner.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Let the inner sampler prepare."""
        self._inner.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Let the inner sampler learn."""
        with suppress(RuntimeError):  # GridSampler stops study.optimize at its end, and there is none: the next ask sees it
            self._inner.after_trial(study, trial, state, values)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters: a claim is about a whole configuration."""
        return self._distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """A combination of values that no other trial has.

        Raises:
            SpaceExhausted: All valid configurations are taken.
        """
        refused: set[Key] = set()
        current = study._storage.get_trial(trial._trial_id)  # with what before_trial wrote
        for draw in range(_DRAWS):
            taken, refusals = self._taken(study, trial.number)
            parameters = self._draw(study, current)
            key = self._key(parameters)
            may_be_refused = refusals < _REFUSALS_IN_A_ROW and draw < _DRAWS - 1
            if self._space.index(parameters) is None and not may_be_refused:
                key = self._nearest_free(key, taken | refused, trial.number)
            if key not in taken | refused and self._claim(study, trial, key):
                return self._parameters(key)
            refused.add(key)
        while True:
            taken, _ = self._taken(study, trial.number)
            key = self._nearest_free(key, taken | refused, trial.number)
            if self._claim(study, trial, key):
                return self._parameters(key)
            refused.add(key)

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Of a parameter that the space does not have."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def _draw(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        together = self._inner.infer_relative_search_space(study, trial)
        drawn = self._inner.sample_relative(study, trial, together)
        return {
            name: drawn[name] if name in drawn else self._inner.sample_independent(study, trial, name, distribution)
            for name, distribution in self._distributions.items()
        }

    def _claim(self, study: Study, trial: FrozenTrial, key: Key) -> bool:
        study._storage.set_trial_user_attr(trial._trial_id, CLAIM, list(key))
        return key not in self._taken(study, trial.number)[0]

    def _taken(self, study: Study, own: int) -> tuple[set[Key], int]:
        """What the other trials are about, and how many of the newest were refused one after the other."""
        taken: set[Key] = set()
        refusals = 0
        for trial in sorted(study.get_trials(deepcopy=False), key=lambda trial: trial.number):
            if trial.number == own or trial.user_attrs.get(INTERRUPTED):
                continue
            if trial.state.is_finished():
                refusals = refusals + 1 if trial.state == TrialState.PRUNED else 0
            if CLAIM in trial.user_attrs:
                taken.add(tuple(trial.user_attrs[CLAIM]))
            elif "configuration" in trial.user_attrs:  # of a sweep with the lab's own sampler
                taken.add(tuple(self._space.codes[trial.user_attrs["configuration"]].tolist()))
            elif trial.params.keys() >= self._codes.keys():
                taken.add(self._key(trial.params))
        return taken, refusals

    def _nearest_free(self, key: Key, taken: set[Key], number: int) -> Key:
        """The valid configuration with the fewest other values; among equals chance decides, the same for equal seeds."""
        rows = [row for row in (self._space.index(self._parameters(one)) for one in taken) if row is not None]
        if len(rows) >= len(self._space):
            raise SpaceExhausted(
                f"all {len(self._space)} configurations are measured", hint="lower the budget, or widen the space"
            )
        distance = (self._space.codes != np.array(key)).sum(axis=1).astype(float)
        distance += np.random.default_rng([self._seed, number]).random(len(distance)) / 2
        distance[rows] = np.inf
        return tuple(self._space.codes[int(distance.argmin())].tolist())

    def _key(self, parameters: dict[str, Any]) -> Key:
        return tuple(self._codes[name][parameters[name]] for name in self._codes)

    def _parameters(self, key: Key) -> Configuration:
        return {name: values[code] for (name, values), code in zip(self._space.values.items(), key, strict=True)}


def refuse(study: Study, trial: Trial, space: Space, parameters: Mapping[str, Any]) -> bool:
    """Tell a combination that the space excludes by its constraints, unmeasured; False where it is valid."""
    if space.index(parameters) is not None:
        return False
    try:
        violated = space.violated(parameters) or (_LISTED,)
    except ExpressionError:  # a derived value that only the excluded combinations leave without a meaning
        violated = (_LISTED,)
    for text in violated:
        trial.set_constraint(text, 1.0)
    study.tell(trial, state=TrialState.PRUNED)
    return True
