"""Base class of samplers that claim configurations: no two trials of a study measure the same one.

Several processes may share a study. :func:`.ask_tell.ask` lets the sampler claim a configuration for each trial: the sampler
writes the claim into the trial's user attributes, then reads the claims of all other trials. If another trial has the same claim,
it claims again. Of two processes that want the same configuration, at least one reads after the other has written.

Only Optuna's public interface is used. A trial asked for by other means (`study.optimize`) is claimed within this process; other
processes see its parameters as soon as Optuna has stored them.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optuna.samplers import BaseSampler
from optuna.trial import TrialState

from rocm_perf_lab.autotune.trials import CLAIM, is_interrupted, trial_by_number
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

    from rocm_perf_lab.autotune.spaces.space import Configuration, Space

Key = tuple[int, ...]
"""Index of the value of each parameter."""


class ClaimError(LabError):
    """Trial whose parameters are not those of the space."""


@dataclass(frozen=True)
class ClaimProposal:
    """Combination of values that a sampler proposes, and user attributes that explain why."""

    key: Key
    attributes: Mapping[str, Any] = field(default_factory=dict)


class ClaimingSampler(BaseSampler):
    """Base class of samplers that claim one combination of values per trial.

    A subclass implements :meth:`propose`.

    Args:
        space: The valid configurations.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._distributions: dict[str, BaseDistribution] = dict(space.distributions())
        self._codes = {name: {value: code for code, value in enumerate(values)} for name, values in space.values.items()}
        self._unwritten: dict[int, Key] = {}
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """Name of the sampler in results."""
        return type(self).__name__

    @abstractmethod
    def propose(self, study: Study, number: int, refused: Collection[Key]) -> ClaimProposal:
        """Return a combination of values for trial `number` that no other trial has, and that is not among `refused`.

        Raises:
            SpaceExhausted: Every combination worth measuring has a trial.
        """

    def claim(self, study: Study, trial: Trial) -> None:
        """Choose the configuration of a trial, before its parameters are suggested.

        Raises:
            SpaceExhausted: Every combination worth measuring has a trial.
            ClaimError: The trial was enqueued with a value that the space does not have.
        """
        fixed = trial_by_number(study, trial.number).system_attrs.get("fixed_params", {})
        for name in fixed.keys() & self._codes.keys():
            if fixed[name] not in self._codes[name]:
                raise ClaimError(
                    f"trial {trial.number} was enqueued with {name} = {fixed[name]!r}, which is not in the space",
                    where=f"study {study.study_name}",
                    hint=f"values of {name}: {', '.join(map(str, self._codes[name]))}",
                )
        if fixed.keys() >= self._codes.keys():  # enqueued
            trial.set_user_attr(CLAIM, list(self.key(fixed)))
            return
        refused: set[Key] = set()
        while True:
            with self._lock:
                proposal = self.propose(study, trial.number, refused)
            trial.set_user_attr(CLAIM, list(proposal.key))
            if proposal.key not in self.claimed(study, trial.number):
                break
            refused.add(proposal.key)
        for name, value in proposal.attributes.items():
            trial.set_user_attr(name, value)

    def claimed(self, study: Study, own: int) -> set[Key]:
        """Return the combinations of all trials but `own`; those of interrupted trials are free again."""
        trials = [trial for trial in study.get_trials(deepcopy=False) if trial.number != own and not is_interrupted(trial)]
        return {key for key in map(self.claim_of, trials) if key is not None}

    def claim_of(self, trial: FrozenTrial) -> Key | None:
        """Return the combination of a trial; None before it has one, or if it belongs to another space."""
        parameters = trial.params or trial.system_attrs.get("fixed_params", {})
        if CLAIM in trial.user_attrs:
            return tuple(trial.user_attrs[CLAIM])
        known = all(name in parameters and parameters[name] in codes for name, codes in self._codes.items())
        return self.key(parameters) if known else None

    def key(self, parameters: Mapping[str, Any]) -> Key:
        """Return the indices of the values of a configuration."""
        return tuple(self._codes[name][parameters[name]] for name in self._codes)

    def parameters(self, key: Key) -> Configuration:
        """Return the values of a key."""
        return {name: values[code] for (name, values), code in zip(self._space.values.items(), key, strict=True)}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return all parameters, since a claim is a whole configuration."""
        return self._distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """Return the claimed configuration.

        Raises:
            SpaceExhausted: Every combination worth measuring has a trial.
        """
        claimed = trial.user_attrs.get(CLAIM)
        if claimed is None:
            with self._lock:
                claimed = self.propose(study, trial.number, set(self._unwritten.values())).key
                self._unwritten[trial.number] = claimed
        return self.parameters(tuple(claimed))

    def after_trial(self, study: Study, trial: FrozenTrial, state: Any, values: Any) -> None:
        """Discard the claim of a trial that has ended: its parameters are stored.

        Raises:
            ClaimError: The objective did not suggest every parameter of the space.
        """
        self._unwritten.pop(trial.number, None)
        absent = [name for name in self._codes if name not in trial.params]
        if absent and state == TrialState.COMPLETE:
            raise ClaimError(
                f"the objective did not suggest {', '.join(absent)}",
                where=f"study {study.study_name}, trial {trial.number}",
                hint="suggest every parameter of the space, or use StudySampler",
            )
