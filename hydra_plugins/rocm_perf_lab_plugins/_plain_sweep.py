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
    from collections.abc import Mapping, Sequence

    import optuna
    from hydra.core.override_parser.types import Override
    from hydra.core.utils import JobReturn
    from hydra.plugins.launcher import Launcher
    from optuna.distributions import BaseDistribution

_log = logging.getLogger(__name__)
_MOST = 200_000
"""Largest number of combinations that are searched as a finite space."""
_TRIALS = 50
_CHECKED = 200
"""Largest number of choices of a key that are composed before the first job."""
_TEXTS = 3
"""Number of jobs without a number as value after which the sweep ends, if no other job has one."""
_SHOWN = 200
_IS_TEXT = "returned_text"
RESULTS = "optimization_results.yaml"
"""Name of the result file of Hydra's sweepers."""


@dataclass(frozen=True)
class PlainSweep:
    """Search over sweep overrides.

    Args:
        distributions: Distribution of each key; see :func:`distributions`.
        fixed: All other overrides, as on the command line.
        launcher: Launcher of the jobs.
        trials: Number of jobs; None: all combinations up to 50.
        jobs: Number of jobs in a batch.
        maximise: Optimise for the largest value instead of the smallest.
        seed: Equal seeds and values give equal trials.
        storage: Optuna storage URL; None keeps the study in memory.
        study_name: Name of the study; None: `sweep`.
    """

    distributions: Mapping[str, BaseDistribution]
    fixed: Sequence[str]
    launcher: Launcher
    trials: int | None = None
    jobs: int = 1
    maximise: bool = False
    seed: int = 0
    storage: str | None = None
    study_name: str | None = None

    def __post_init__(self) -> None:
        """Refuse numbers of jobs below 1.

        Raises:
            LabError: A number of jobs is below 1.
        """
        from rocm_perf_lab.core.errors import LabError

        for name, value in (("n_trials", self.trials), ("n_jobs", self.jobs)):
            if value is not None and value < 1:
                raise LabError(f"{name} is {value}", where=f"hydra.sweeper.{name}", hint="use 1 or more")

    def run(self, study: optuna.Study, directory: Path) -> float:
        """Search, write :data:`RESULTS` after each batch, and return the best value.

        If the sweep ends early, finished trials are kept in the storage, and combinations of running ones are free again.

        Raises:
            LabError: Every job failed, the first jobs returned no number, the storage or the launcher failed.
        """
        from rocm_perf_lab.autotune.heartbeats import Heartbeats
        from rocm_perf_lab.autotune.storage import storage_errors
        from rocm_perf_lab.autotune.trials import measured
        from rocm_perf_lab.core.errors import LabError

        count = self._count()
        with storage_errors(f"study {study.study_name}"):
            earlier, done = len(study.get_trials(deepcopy=False)), 0
            with Heartbeats(study) as heartbeats:
                while done < count:
                    heartbeats.release_dead()
                    asked = _ask(study, self.distributions, min(self.jobs, count - done))
                    if not asked:
                        break
                    for trial in asked:
                        heartbeats.begin(trial)
                    self._launch(study, asked, earlier + done)
                    for trial in asked:
                        heartbeats.end(trial)
                    done += len(asked)
                    _write(study, directory)
                    _refuse_texts(study, directory)
            finished = _completed(study)
        if not finished:
            raise LabError(
                f"all {measured(study)} jobs of the sweep failed",
                where=str(directory),
                hint="read the output of one job; the function must return a number",
            )
        _write(study, directory)
        _log.info(f"best value {study.best_value:g} with {study.best_params}, {measured(study)} trials")
        return float(study.best_value)

    def _launch(self, study: optuna.Study, asked: Sequence[optuna.Trial], first: int) -> None:
        """Run a batch, the first job of which has the number `first`, and record its values."""
        from rocm_perf_lab.autotune.trials import release
        from rocm_perf_lab.core.errors import LabError

        lines = [[*self.fixed, *(f"{key}={_text(value)}" for key, value in trial.params.items())] for trial in asked]
        open_ = list(asked)
        try:
            for trial, job in zip(asked, self.launcher.launch(lines, initial_job_idx=first), strict=True):
                _tell(study, trial, job)
                open_.remove(trial)
        except SystemExit as error:
            if len(open_) > 1:
                raise  # which of the jobs it was is unknown
            _fail(study, open_.pop(), f"exited with code {error.code}")
        except (RuntimeError, OSError) as error:  # such as a worker of joblib that was killed
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            hint = "start the sweep again; with hydra.sweeper.storage, it keeps finished jobs"
            raise LabError(f"the launcher failed: {reason}", where="hydra/launcher", hint=hint) from error
        finally:
            for trial in open_:
                release(study, trial)

    def study(self) -> optuna.Study:
        """Return the new or continued study.

        Raises:
            LabError: The storage cannot be used, or the study has another direction or other values.
        """
        import optuna
        from optuna.distributions import check_distribution_compatibility
        from optuna.study import StudyDirection

        from rocm_perf_lab.autotune.storage import open_storage, storage_errors
        from rocm_perf_lab.core.errors import LabError

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        name = self.study_name or "sweep"
        direction = StudyDirection.MAXIMIZE if self.maximise else StudyDirection.MINIMIZE
        storage = open_storage(self.storage, directory=Path.cwd()) if self.storage is not None else None
        with storage_errors(f"study {name}"):
            study = optuna.create_study(
                storage=storage,
                study_name=name,
                sampler=_sampler(self.distributions, self.seed),
                direction=direction,
                load_if_exists=True,
            )
            trials = study.get_trials(deepcopy=False)
        hint = "use another name: hydra.sweeper.study_name=NAME"
        if study.directions != [direction]:
            raise LabError(f"the study does not {direction.name.lower()} one value", where=f"study {name}", hint=hint)
        for trial in trials:
            for key in trial.distributions.keys() & self.distributions.keys():
                try:
                    check_distribution_compatibility(trial.distributions[key], self.distributions[key])
                except ValueError as error:
                    raise LabError(f"{key} has other values in the study", where=f"study {name}", hint=hint) from error
        return study

    def _count(self) -> int:
        most = self.trials if self.trials is not None else _TRIALS
        return int(min(most, _combinations(self.distributions)))


def distributions(swept: Sequence[Override]) -> dict[str, BaseDistribution]:
    """Return the distribution of each key of some sweep overrides.

    Raises:
        LabError: A range is empty, or has no logarithm.
    """
    from rocm_perf_lab.core.errors import LabError

    found = {}
    for override in swept:
        try:
            found[override.get_key_element()] = _distribution(override)
        except ValueError as error:
            hint = "for example interval(0.1,1); a logarithmic one begins above 0"
            raise LabError(str(error), where=f"the override {override.input_line!r}", hint=hint) from error
    return found


def examples(distributions: Mapping[str, BaseDistribution]) -> list[list[str]]:
    """Return overrides of jobs in which each choice occurs once at least, for at most 200 choices of one key."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    values: dict[str, list[Any]] = {}
    for key, distribution in distributions.items():
        if isinstance(distribution, CategoricalDistribution):
            values[key] = list(distribution.choices[:_CHECKED])
        else:
            assert isinstance(distribution, FloatDistribution | IntDistribution)
            values[key] = [distribution.low]
    most = max(map(len, values.values()))
    return [[f"{key}={_text(each[min(i, len(each) - 1)])}" for key, each in values.items()] for i in range(most)]


def _distribution(override: Override) -> BaseDistribution:
    """Return the distribution of a sweep override. Choices are numbers, or texts in the grammar of overrides.

    They are texts if some that differ as texts are equal in Python: 1, 1.0 and true. The order of shuffled ones has no meaning.
    """
    from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, RangeSweep, Transformer
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    if isinstance(value, IntervalSweep):
        assert value.start is not None and value.end is not None
        log = "log" in value.tags
        if isinstance(value.start, int) and isinstance(value.end, int):
            return IntDistribution(value.start, value.end, log=log)
        return FloatDistribution(value.start, value.end, log=log)
    if isinstance(value, ChoiceSweep | RangeSweep):
        value.shuffle = False
    values = list(override.sweep_iterator(transformer=Transformer.identity))
    texts = [_text(text) for text in override.sweep_iterator(transformer=Transformer.encode)]
    if not texts:
        raise ValueError("it has no values")
    plain = [value if isinstance(value, bool | int | float) else text for value, text in zip(values, texts, strict=True)]
    choices = plain if len(set(plain)) == len(set(texts)) and not any(value != value for value in plain) else texts
    return CategoricalDistribution(tuple(dict.fromkeys(choices)))


def _combinations(distributions: Mapping[str, BaseDistribution]) -> float:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    count = 1.0
    for distribution in distributions.values():
        if isinstance(distribution, CategoricalDistribution):
            count *= len(distribution.choices)
        elif isinstance(distribution, IntDistribution):
            count *= distribution.high - distribution.low + 1
        elif isinstance(distribution, FloatDistribution) and not distribution.single():
            return math.inf
    return count


def _is_finite(distributions: Mapping[str, BaseDistribution]) -> bool:
    """Return whether all keys have choices, in a number of combinations that can be listed."""
    from optuna.distributions import CategoricalDistribution

    lists = all(isinstance(distribution, CategoricalDistribution) for distribution in distributions.values())
    return lists and _combinations(distributions) <= _MOST


def _sampler(distributions: Mapping[str, BaseDistribution], seed: int) -> optuna.samplers.BaseSampler:
    """Return the sampler of a finite space, which does not repeat trials, or that of any objective."""
    from optuna.distributions import CategoricalDistribution

    from rocm_perf_lab.autotune.sampler import RegressionSampler
    from rocm_perf_lab.autotune.spaces.space import all_combinations
    from rocm_perf_lab.autotune.study_sampler import StudySampler

    choices = {
        name: tuple(choice for choice in d.choices if choice is not None)  # for mypy: null is a text
        for name, d in distributions.items()
        if isinstance(d, CategoricalDistribution)
    }
    if _is_finite(distributions):
        return RegressionSampler(all_combinations(choices), seed=seed)
    return StudySampler(seed=seed)


def _ask(study: optuna.Study, distributions: Mapping[str, BaseDistribution], count: int) -> list[optuna.Trial]:
    from rocm_perf_lab.autotune.objective import SpaceExhausted
    from rocm_perf_lab.autotune.trials import measured, release

    asked: list[optuna.Trial] = []
    while len(asked) < count and not (_is_finite(distributions) and measured(study) >= _combinations(distributions)):
        trial = study.ask()
        try:
            for name, distribution in distributions.items():
                _suggest(trial, name, distribution)
        except SpaceExhausted:
            release(study, trial)
            break
        except BaseException:
            for one in (*asked, trial):
                release(study, one)
            raise
        asked.append(trial)
    return asked


def _suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> None:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(distribution, CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
    elif isinstance(distribution, IntDistribution):
        trial.suggest_int(name, distribution.low, distribution.high, log=distribution.log)
    elif isinstance(distribution, FloatDistribution):
        trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log)


def _tell(study: optuna.Study, trial: optuna.Trial, job: JobReturn) -> None:
    """End a trial with the value of its job; a job that raised or returned no number is a failed trial."""
    from hydra.core.utils import JobStatus

    reason, is_text = "", False
    if job.status != JobStatus.COMPLETED:
        reason = f"failed: {job._return_value}"
    else:
        try:
            value = float(job.return_value)
            reason = "" if math.isfinite(value) else f"returned {value}"
        except (TypeError, ValueError):
            reason, is_text = f"returned {repr(job.return_value)[:_SHOWN]} instead of a number", True
    if not reason:
        study.tell(trial, value)
        return
    trial.set_user_attr(_IS_TEXT, is_text)
    _fail(study, trial, reason)


def _fail(study: optuna.Study, trial: optuna.Trial, reason: str) -> None:
    from optuna.trial import TrialState

    from rocm_perf_lab.autotune.trials import REASON

    _log.warning(f"trial {trial.number} {reason}")
    trial.set_user_attr(REASON, reason)
    study.tell(trial, state=TrialState.FAIL)


def _completed(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def _refuse_texts(study: optuna.Study, directory: Path) -> None:
    """End a sweep whose first jobs returned no number, since the others would neither.

    Raises:
        LabError: There are no numbers, and three jobs that returned something else.
    """
    from rocm_perf_lab.autotune.trials import REASON
    from rocm_perf_lab.core.errors import LabError

    texts = [trial for trial in study.get_trials(deepcopy=False) if trial.user_attrs.get(_IS_TEXT)]
    if len(texts) >= _TEXTS and not _completed(study):
        reason = texts[-1].user_attrs[REASON]
        raise LabError(f"trial {texts[-1].number} {reason}", where=str(directory), hint="return the value to optimise")


def _write(study: optuna.Study, directory: Path) -> None:
    """Write the best result so far."""
    import yaml

    from rocm_perf_lab.autotune.trials import measured
    from rocm_perf_lab.core.files import write_text

    if not _completed(study):
        return
    content = {
        "name": "rocm_perf_lab",
        "best_params": study.best_params,
        "best_value": study.best_value,
        "trials": measured(study),
    }
    write_text(directory / RESULTS, yaml.safe_dump(content, sort_keys=False))


def _text(value: Any) -> str:
    """Return a value of a trial in the grammar of Hydra's overrides."""
    return str(value).lower() if isinstance(value, bool) else str(value)
