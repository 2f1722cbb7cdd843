"""Search over the sweep overrides of any Hydra application: `x=1,2,3`, `y=range(1,9)`, `z=interval(0,1)`.

Jobs run through the launcher of the application, in batches. The value that a job returns is optimised.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import optuna
    from hydra.core.override_parser.types import Override
    from hydra.core.utils import JobReturn
    from hydra.plugins.launcher import Launcher
    from optuna.distributions import BaseDistribution

_log = logging.getLogger(__name__)
_MOST = 200_000
"""Largest number of combinations that are searched as a finite space."""
_TRIALS = 50
RESULTS = "optimization_results.yaml"
"""Name of the result file of Hydra's sweepers."""


@dataclass(frozen=True)
class PlainSweep:
    """Search over sweep overrides.

    Args:
        swept: Overrides with several values.
        fixed: All other overrides, as on the command line.
        launcher: Launcher of the jobs.
        trials: Number of jobs; None: all combinations up to 50.
        jobs: Number of jobs in a batch.
        maximise: Optimise for the largest value instead of the smallest.
        seed: Equal seeds and values give equal trials.
        storage: Optuna storage URL; None keeps the study in memory.
        study_name: Name of the study; None: `sweep`.
    """

    swept: Sequence[Override]
    fixed: Sequence[str]
    launcher: Launcher
    trials: int | None = None
    jobs: int = 1
    maximise: bool = False
    seed: int = 0
    storage: str | None = None
    study_name: str | None = None

    def run(self, study: optuna.Study, directory: Path) -> float:
        """Search, write :data:`RESULTS`, and return the best value.

        Raises:
            LabError: Every job failed.
        """
        import optuna
        import yaml

        from rocm_perf_lab.core.errors import LabError
        from rocm_perf_lab.core.files import write_text

        distributions = self.distributions()
        done = 0
        while done < self._count(distributions):
            asked = _ask(study, distributions, min(self.jobs, self._count(distributions) - done))
            if not asked:
                break
            lines = [[*self.fixed, *(f"{key}={_text(value)}" for key, value in trial.params.items())] for trial in asked]
            for trial, job in zip(asked, self.launcher.launch(lines, initial_job_idx=done), strict=True):
                _tell(study, trial, job)
            done += len(asked)
        finished = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
        if not finished:
            raise LabError(
                f"all {len(study.trials)} jobs of the sweep failed",
                where=str(directory),
                hint="read the output of one job; the function must return a number",
            )
        content = {
            "name": "rocm_perf_lab",
            "best_params": study.best_params,
            "best_value": study.best_value,
            "trials": len(study.trials),
        }
        write_text(directory / RESULTS, yaml.safe_dump(content, sort_keys=False))
        _log.info(f"best value {study.best_value:g} with {study.best_params}, {len(study.trials)} trials")
        return float(study.best_value)

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the distribution of each key.

        Raises:
            LabError: A setting is not positive, or a range is empty or has no logarithm.
        """
        from rocm_perf_lab.core.errors import LabError

        for name, value in (("n_trials", self.trials), ("n_jobs", self.jobs)):
            if value is not None and value < 1:
                raise LabError(f"{name} is {value}", where=f"hydra.sweeper.{name}", hint="use 1 or more")
        found = {}
        for override in self.swept:
            try:
                found[override.get_key_element()] = _distribution(override)
            except ValueError as error:
                hint = "for example interval(0.1,1); a logarithmic one begins above 0"
                raise LabError(str(error), where=f"the override {override.input_line!r}", hint=hint) from error
        return found

    def study(self) -> optuna.Study:
        """Return the new or continued study.

        Raises:
            LabError: As of :meth:`distributions`, or the storage cannot be used.
        """
        import optuna

        from rocm_perf_lab.autotune.storage import open_storage, storage_errors

        name, distributions = self.study_name or "sweep", self.distributions()
        storage = open_storage(self.storage, directory=Path.cwd()) if self.storage is not None else None
        with storage_errors(f"study {name}"):
            return optuna.create_study(
                storage=storage,
                study_name=name,
                sampler=_sampler(distributions, self.seed),
                direction="maximize" if self.maximise else "minimize",
                load_if_exists=True,
            )

    def _count(self, distributions: dict[str, BaseDistribution]) -> int:
        most = self.trials if self.trials is not None else _TRIALS
        return int(min(most, _combinations(distributions)))


def _distribution(override: Override) -> BaseDistribution:
    """Return the distribution of a sweep override. Choices are numbers, or texts in the grammar of overrides."""
    from hydra.core.override_parser.types import IntervalSweep, Transformer
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    if isinstance(value, IntervalSweep):
        assert value.start is not None and value.end is not None
        log = "log" in value.tags
        if isinstance(value.start, int) and isinstance(value.end, int):
            return IntDistribution(value.start, value.end, log=log)
        return FloatDistribution(value.start, value.end, log=log)
    values = list(override.sweep_iterator(transformer=Transformer.identity))
    texts = list(override.sweep_iterator(transformer=Transformer.encode))
    choices = [value if isinstance(value, bool | int | float) else str(text) for value, text in zip(values, texts, strict=True)]
    return CategoricalDistribution(tuple(dict.fromkeys(choices)))


def _combinations(distributions: dict[str, BaseDistribution]) -> float:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    count = 1.0
    for distribution in distributions.values():
        if isinstance(distribution, CategoricalDistribution):
            count *= len(distribution.choices)
        elif isinstance(distribution, IntDistribution):
            count *= distribution.high - distribution.low + 1
        elif isinstance(distribution, FloatDistribution):
            return math.inf
    return count


def _sampler(distributions: dict[str, BaseDistribution], seed: int) -> optuna.samplers.BaseSampler:
    """Return the sampler of a finite space, which repeats nothing, or that of any objective."""
    from optuna.distributions import CategoricalDistribution

    from rocm_perf_lab.autotune.sampler import RegressionSampler
    from rocm_perf_lab.autotune.space import all_combinations
    from rocm_perf_lab.autotune.study_sampler import StudySampler

    choices = {
        name: tuple(choice for choice in d.choices if choice is not None)
        for name, d in distributions.items()
        if isinstance(d, CategoricalDistribution)
    }
    if len(choices) == len(distributions) and _combinations(distributions) <= _MOST:
        return RegressionSampler(all_combinations(choices), seed=seed)
    return StudySampler(seed=seed)


def _ask(study: optuna.Study, distributions: dict[str, BaseDistribution], count: int) -> list[optuna.Trial]:
    from rocm_perf_lab.autotune.objective import SpaceExhausted

    asked = []
    for _ in range(count):
        try:
            asked.append(study.ask(distributions))
        except SpaceExhausted:
            break
    return asked


def _tell(study: optuna.Study, trial: optuna.Trial, job: JobReturn) -> None:
    """End a trial with the value of its job; a job that raised or returned no number is a failed trial."""
    from hydra.core.utils import JobStatus
    from optuna.trial import TrialState

    if job.status != JobStatus.COMPLETED:
        _log.warning(f"trial {trial.number} failed: {job._return_value}")
        study.tell(trial, state=TrialState.FAIL)
        return
    try:
        value = float(job.return_value)
    except (TypeError, ValueError):
        _log.warning(f"trial {trial.number} returned {job.return_value!r} instead of a number")
        study.tell(trial, state=TrialState.FAIL)
        return
    study.tell(trial, value if math.isfinite(value) else None, state=None if math.isfinite(value) else TrialState.FAIL)


def _text(value: Any) -> str:
    """Return a value of a trial in the grammar of Hydra's overrides."""
    return str(value).lower() if isinstance(value, bool) else str(value)
