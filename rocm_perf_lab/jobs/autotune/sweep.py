"""A search whose trials are separate, concurrent jobs: `--multirun` with a space.

The Hydra sweeper provides the slots in which jobs run. Study, budget, stopping condition and result are those of `job=autotune`.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from rocm_perf_lab.autotune.claims import ClaimingSampler
from rocm_perf_lab.autotune.cutoff import Cutoff, Cutoffs
from rocm_perf_lab.autotune.discarded import Discarded
from rocm_perf_lab.autotune.objective import SearchBroken
from rocm_perf_lab.autotune.shapes import SHAPE
from rocm_perf_lab.autotune.slots import sweep
from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
from rocm_perf_lab.autotune.storage import dashboard_command, open_storage, open_study
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.autotune.tuner import (
    EXHAUSTED,
    INTERRUPT,
    SETTLED,
    USED_UP,
    StoppingCondition,
    beyond_limits,
    forget_race,
    goals_of,
    outcome,
    require_a_result,
    store_race,
)
from rocm_perf_lab.core.components import build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.device.protocol import DeviceIdentity
from rocm_perf_lab.jobs.autotune.goals import configured_goals
from rocm_perf_lab.jobs.autotune.priors import configured_prior
from rocm_perf_lab.jobs.autotune.records import BestValues, Origin, write_result
from rocm_perf_lab.jobs.autotune.samplers import configured_sampler, stopping_rule
from rocm_perf_lab.jobs.autotune.show import show_result
from rocm_perf_lab.jobs.autotune.subject import kernel_subject
from rocm_perf_lab.jobs.autotune.workload_report import WorkloadReport
from rocm_perf_lab.jobs.show import count_text, runtime_text, time_text
from rocm_perf_lab.tracking.failsafe import FailsafeTracker, StoreWatch
from rocm_perf_lab.tracking.store import ui_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from optuna import Study
    from optuna.samplers import BaseSampler

    from rocm_perf_lab.autotune.goals import Goals
    from rocm_perf_lab.autotune.slots import RepeatedTrials, Slots, Task
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.autotune.tuner import Improbable, TuningResult
    from rocm_perf_lab.jobs.autotune.workload import Workload
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.statistics.racing import RaceResult
    from rocm_perf_lab.tracking.run import RunTracker, TrackingError

RESULTS = "optimization_results.yaml"
"""Name of the result file of Hydra's sweepers."""
_NS_PER_MS = 1e6
_US_PER_MS = 1e3


@dataclass(frozen=True)
class Sweep:
    """Sweep over a space.

    Args:
        lab: Configuration, console, and the directory of the sweep.
        space: The search space.
        slots: Returns the slots for jobs whose parent is that MLflow run.
        launcher: Description of the launcher.
        features: Further inputs of the model for each configuration of `space`.
        discarded: Configurations that are not in `space` because they cannot run.
        workload: Shapes whose joint space is `space`; None for one shape.
    """

    lab: Lab
    space: Space
    slots: Callable[[str | None], Slots]
    launcher: str
    features: Column | None = None
    discarded: Discarded = field(default_factory=Discarded)
    workload: Workload | None = None

    def compiled(self) -> Sweep:
        """With `autotune.features: [compiled]`, compile all configurations on this machine, and return the sweep of the others.

        Raises:
            LabError: No configuration can run.
        """
        if "compiled" not in self.lab.config.autotune.features:
            return self
        subject = kernel_subject(self.lab, self.space)
        return replace(self, space=subject.space, features=subject.features, discarded=subject.origin().discarded)

    def run(self) -> None:
        """Search, then write and print the result, also of an interrupted search.

        Raises:
            NoFeasibleTrial: Every configuration failed.
            StorageError: The storage cannot be used, or the study belongs to another space.
        """
        lab, settings = self.lab, self.lab.config.autotune
        goals = configured_goals(lab.config, self.space)
        if goals is not None and (goals.timed_compilation or goals.reads_energy):
            unmeasured = "energy" if goals.reads_energy else "compile times"
            raise LabError(
                f"a sweep does not measure {unmeasured}", where="autotune.objectives", hint="run job=autotune without a launcher"
            )
        name = settings.study or f"{lab.job_name}-{lab.config.kernel.name}"
        sampler = self._samplers(goals)
        first = sampler(None)
        stop_when = stopping_rule(lab.config, first)
        storage = open_storage(settings.storage, directory=lab.output_dir)
        study = open_study(storage, name, self.space, first)
        known = len(study.get_trials(deepcopy=False))
        if known:
            study.sampler = sampler(settings.seed + known)
        run_name = f"sweep {lab.job_name} {lab.config.kernel.name}"
        run: RunTracker = build(lab.config.tracking, where="tracking", run_name=run_name)
        with FailsafeTracker(run, StoreWatch(_warn)) as tracker:
            answer = self._search(study, tracker, stop_when)
        require_a_result(study, self.space)
        answer()
        lab.console.print(f"[bold]files[/]   {lab.output_dir}", soft_wrap=True)
        if tracker.uri is not None:
            lab.console.print(f"[bold]compare[/] {ui_command(tracker.uri)}", soft_wrap=True)

    def _samplers(self, goals: Goals | None) -> Callable[[int | None], BaseSampler]:
        """Return a function from a seed, or None for the configured one, to a sampler."""
        config, workload = self.lab.config, self.workload
        if workload is not None:
            space, earlier = self.space, workload.earlier(self.lab)
            assert isinstance(space, ShapedSpace)
            return lambda _: workload.sampler(space, self.features, earlier)
        prior = configured_prior(self.lab, self.space, goals)
        slack = self.lab.timing_errors.decisive.factor if self.lab.timing_errors is not None else 1.0
        made = partial(configured_sampler, config, self.space, prior=prior, features=self.features, slack=slack)
        return lambda seed: made(seed=seed)

    def _search(self, study: Study, tracker: RunTracker, stop_when: Improbable | None) -> Callable[[], None]:
        """Search, write the result, and return a function that prints it."""
        lab, settings = self.lab, self.lab.config.autotune
        slots = self.slots(tracker.run_id)
        tracker.log_params(
            {
                "kernel": lab.config.kernel.name,
                "target": lab.config.target.name,
                "sampler": _name(study),
                "seed": settings.seed,
                "launcher": self.launcher,
                "slots": slots.count,
            }
        )
        lab.console.print(
            f"[bold]sweep[/]   {self.space.size_text} configurations, {self.launcher}, {count_text(slots.count, 'slot')}"
        )
        lab.console.print(f"[bold]watch[/]   {dashboard_command(settings.storage, directory=lab.output_dir)}", soft_wrap=True)
        known = records(study, self.space)
        end = StoppingCondition(settings.budget is None, known)
        log = _TrialPrinter(
            lab,
            tracker,
            end,
            lambda: stop_when is not None and stop_when.reached(study),
            goals=goals_of(study),
        )
        for trial in known:
            log.count(trial)
        budget = settings.budget if settings.budget is not None else len(self.space)
        cutoffs = Cutoffs(Cutoff(settings.cutoff, first_s=settings.first_cutoff_s))
        races: dict[str, RaceResult] = {}
        forget_race(study)
        race = partial(self._race, study, races)
        try:
            sweep(study, self.space, slots, budget=budget, finished=log.finished, cutoffs=cutoffs, race=race)
        except (KeyboardInterrupt, SearchBroken):
            self._keep(study, tracker, INTERRUPT, races)
            raise
        finally:
            tracker.end_children("KILLED")
        reason = SETTLED if log.end.settled else EXHAUSTED if settings.budget is None else USED_UP
        return self._keep(study, tracker, str(stop_when) if log.improbable else reason, races)

    def _race(self, study: Study, races: dict[str, RaceResult], again: RepeatedTrials) -> None:
        """Race the fastest configurations if their times are measured; add the races of shapes to `races`."""
        most, goals = self.lab.config.autotune.max_races, goals_of(study)
        if most == 0 or not (goals is None or goals.is_time):
            return
        said = f"[bold]race[/]    the fastest configurations again, at most {most} rounds"
        try:
            with self.lab.console.status(said):
                if self.workload is None:
                    store_race(study, self.space, again, most)
                else:
                    assert isinstance(self.space, ShapedSpace)
                    races.update(self.workload.race(study, self.space, again))
        except SearchBroken as broken:
            message = f"the race was given up, and the trials alone decide: {broken.what}"
            logging.getLogger(__name__).warning(message)

    def _keep(self, study: Study, tracker: RunTracker, stop_reason: str, races: Mapping[str, RaceResult]) -> Callable[[], None]:
        lab = self.lab
        tuned = outcome(study, self.space, stop_reason)
        identity = _identity(lab, tuned)
        if identity.emulated:
            tuned = outcome(study, self.space, stop_reason, lab.config.target.timing_errors.decisive)
        tracker.set_tags({"device": identity.name, "device.reason": identity.reason, "study": study.study_name})
        origin, results = Origin.of_kernel(lab.config, identity, self.discarded), lab.output_dir / RESULTS
        if self.workload is not None:
            assert isinstance(self.space, ShapedSpace)
            report = WorkloadReport(lab, self.space, origin, lab.config.kernel, self.workload.goals)
            found = report.document(study, stop_reason, races)
            report.write(found, tracker)
            return partial(report.answer, found)
        write_text(results, _results(study, tuned))
        tracker.log_artifact(results)
        path = write_result(lab, tracker, tuned, self.space, origin)
        return partial(self._answer, tuned, identity.time_word, path)

    def _answer(self, tuned: TuningResult, word: str, path: Path) -> None:
        """Print the result of a search for one shape."""
        if tuned.best is None or tuned.best.runtime_ms is None:
            raise beyond_limits(len(tuned.trials), path)
        lab = self.lab
        errors = lab.config.target.timing_errors if word == "emulated" else None
        show_result(lab.console, tuned, word, lab.config.kernel.name, errors)
        lab.answer(path, runtime_text(tuned.best.runtime_ms * _NS_PER_MS, word))


@dataclass
class _TrialPrinter:
    """Log of finished trials on the console, with the conditions that end a search before its budget is used up."""

    lab: Lab
    tracker: RunTracker
    end: StoppingCondition
    nothing_better: Callable[[], bool]
    improbable: bool = False
    best_ms: dict[Any, float] = field(default_factory=dict)
    """Shape, or None for a search of one -> the time of its best trial."""
    best: BestValues = field(default_factory=BestValues)
    goals: Goals | None = None
    trials: int = 0

    def count(self, trial: TrialRecord) -> bool:
        """Count a trial, also of an earlier sweep of this study, and return whether it is the best one of its shape."""
        self.trials += 1
        shape = trial.parameters.get(SHAPE)
        if trial.runtime_ms is None or not self.best.improves(trial, self.goals):
            return False
        self.best_ms[shape] = trial.runtime_ms
        return True

    def finished(self, task: Task, trial: TrialRecord) -> bool:
        """Print a trial, and return whether it was the last."""
        better = self.count(trial)
        values = " ".join(f"{name}={value}" for name, value in trial.parameters.items())
        if trial.runtime_ms is None:
            said = f"[yellow]failed[/] {escape((trial.reason or '').splitlines()[0])}"
        else:
            word = trial.details.get("time_kind", "")
            said = time_text(trial.runtime_ms * _NS_PER_MS, word) + (" [green]best[/]" if better else "")
        self.lab.console.print(f"[bold]trial[/] {trial.number:3d}  {trial.phase:<12} {escape(values)}  {said}", soft_wrap=True)
        if self.best_ms:
            total_us = sum(self.best_ms.values()) * _US_PER_MS
            metrics = {"runtime_us": total_us, "evaluations": float(self.trials)}
            self.tracker.log_metrics(metrics | self.best.metrics(self.goals), self.trials)
        self.improbable = self.improbable or self.nothing_better()
        return self.end.reached(trial) or self.improbable


def _warn(error: TrackingError) -> None:
    message = f"{error.what} ({error.where}); the sweep continues without a tracking run, and keeps its study and files"
    logging.getLogger(__name__).warning(message)


def _name(study: Study) -> str:
    return study.sampler.name if isinstance(study.sampler, ClaimingSampler) else type(study.sampler).__name__


def _identity(lab: Lab, tuned: TuningResult) -> DeviceIdentity:
    """Return the identity of the device that measured, which may be on another machine."""
    own = lab.device.identity
    for trial in tuned.trials:
        if "time_kind" in trial.details:
            device, kind = trial.details["device"], trial.details["time_kind"]
            if (device, kind) == (own.name, own.time_word):
                break
            return DeviceIdentity(device, kind == "emulated", trial.details.get("note", ""))
    return own


def _results(study: Study, tuned: TuningResult) -> str:
    """Return the keys of Hydra's Optuna sweeper, and further ones."""
    import yaml

    best = tuned.best
    content = {
        "name": "rocm_perf_lab",
        "best_params": best.parameters if best is not None else None,
        "best_value": tuned.front[0].values[0] if tuned.front else best.runtime_ms if best is not None else None,
        "best_trial": best.number if best is not None else None,
        "study": study.study_name,
        "sampler": _name(study),
        "trials": len(tuned.trials),
        "failed": len(tuned.failures),
        "stop_reason": tuned.stop_reason,
    }
    return yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False)
