"""Records of a search: autotune.json, report.html, and a tracking run with a child run per trial."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.discarded import Discarded
from rocm_perf_lab.autotune.document import NAME, AutotuneDocument
from rocm_perf_lab.autotune.goals import RUNTIME
from rocm_perf_lab.autotune.remaining import FEWEST
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.shapes import SHAPE
from rocm_perf_lab.autotune.spaces.lazy_space import LazySpace
from rocm_perf_lab.autotune.tuner import CHOICE
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.autotune.goals import configured_goals
from rocm_perf_lab.jobs.show import time_text
from rocm_perf_lab.report.page import write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import optuna

    from rocm_perf_lab.autotune.goals import FrontMember, Goals
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.autotune.tuner import TuningResult
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import DeviceIdentity
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.statistics.error_bands import RatioBand
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker

TRACKING_RUN = "tracking_run"
"""User attribute of a study: the tracking run that a resumed search continues."""
_NS_PER_MS = 1e6
_US_PER_MS = 1e3
_MARGIN = 0.02
_LOOK_EVERY = 5
"""Trials after which the probability that something better is left is computed again: that is slow."""


@dataclass
class BestValues:
    """Best values so far of the first objective, of each shape; the key is None in a search of one shape."""

    values: dict[Any, float] = field(default_factory=dict)

    def improves(self, trial: TrialRecord, goals: Goals | None) -> bool:
        """Return whether a trial is the best of its shape so far, and keep its value."""
        found = goals.values(trial) if goals is not None else None
        value = found[0] if found is not None else trial.runtime_ms
        shape = trial.parameters.get(SHAPE)
        if value is None or (goals is not None and found is None):
            return False
        sign = -1 if goals is not None and goals.goals[0].maximise else 1
        if shape in self.values and sign * value >= sign * self.values[shape]:
            return False
        self.values[shape] = value
        return True

    def metrics(self, goals: Goals | None) -> dict[str, float]:
        """Return the best value of a search of one shape by the name of its metric, if the objective is not the time."""
        if goals is None or goals.goals[0].metric == RUNTIME or None not in self.values:
            return {}
        metric = re.sub(r"[^\w .:/-]", "_", goals.goals[0].metric)  # other characters are refused by MLflow
        return {f"best {metric}": self.values[None]}


@dataclass
class TrialLog:
    """Log of finished trials: a child run in the store, and a line on the console.

    Args:
        tracker: The run.
        budget: Number of trials, or None.
        word: Returns `measured` or `emulated`.
        say: Shows the line.
        errors: Returns the error bands of emulated times, or None.
        remaining: Returns the probability that something 2 % faster is left, or None.
        known: Trials of a search that is continued.
        goals: Objectives and limits; the first objective decides about the best trial. None: the time.
    """

    tracker: RunTracker
    budget: int | None
    word: Callable[[], str]
    say: Callable[[str], None]
    errors: Callable[[], TimingErrors | None] = lambda: None
    remaining: Callable[[], float | None] = lambda: None
    known: Sequence[TrialRecord] = ()
    goals: Goals | None = None
    trials: int = field(default=0, init=False)
    first_ms: dict[Any, float] = field(default_factory=dict, init=False)
    """Shape, or None for a search of one -> its first time."""
    best_ms: dict[Any, float] = field(default_factory=dict, init=False)
    best: BestValues = field(default_factory=BestValues, init=False)
    _left: float | None = None
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Count the known trials."""
        for trial in self.known:
            self._count(trial)

    def told(self, trial: TrialRecord) -> None:
        """Log one trial."""
        self._count(trial)
        of = f" of {self.budget}" if self.budget is not None else ""
        shape = trial.parameters.get(SHAPE)
        step = trial.phase if shape is None else f"{trial.phase}, {shape}"
        self.say(f"trial {self.trials}{of} ({step}){self._best}{self._outlook()}")
        self._track(trial)

    def _count(self, trial: TrialRecord) -> None:
        self.trials += 1
        shape, time_ms = trial.parameters.get(SHAPE), trial.runtime_ms
        if time_ms is not None and self.best.improves(trial, self.goals):
            self.best_ms[shape] = time_ms
            self.first_ms.setdefault(shape, time_ms)

    @property
    def _best(self) -> str:
        """The best time, or the value of another objective, of a search for one shape, as text."""
        if self.goals is not None and self._has_other_objective:
            value = self.best.values.get(None)
            return f", best {self.goals.goals[0].metric} {value:.4g}" if value is not None else ""
        best_ms = self.best_ms.get(None)
        return f", best {time_text(best_ms * _NS_PER_MS, self.word(), self.errors())}" if best_ms is not None else ""

    @property
    def _has_other_objective(self) -> bool:
        return self.goals is not None and self.goals.goals[0].metric != RUNTIME

    @property
    def _gain(self) -> float:
        """Mean over the shapes of the first time over the best."""
        return sum(self.first_ms[shape] / best_ms for shape, best_ms in self.best_ms.items()) / len(self.best_ms)

    def _outlook(self) -> str:
        """Return the gain over the first time, the probability of something better, and the time until the budget is used up."""
        if not self.best_ms:
            return ""
        if self.trials >= FEWEST and self.trials % _LOOK_EVERY == 0:
            self._left = self.remaining()
        mean = "" if None in self.best_ms else "mean "
        gain = f", {mean}{self._gain:.2f}x the first" if self._gain > 1 and not self._has_other_objective else ""
        chance = f", {self._left:.0%} that 2% are left" if self._left is not None else ""
        if self.budget is None or self.budget <= self.trials:
            return gain + chance
        own = self.trials - len(self.known)
        seconds = (time.monotonic() - self._started) / own * (self.budget - self.trials)
        return f"{gain}{chance}, {_duration(seconds)} left"

    def _track(self, trial: TrialRecord) -> None:
        track_trial(self.tracker, trial, self.word(), self.errors())
        if not self.best_ms:
            return
        metrics = {"runtime_us": sum(self.best_ms.values()) * _US_PER_MS, "evaluations": float(self.trials)}
        if None not in self.best_ms:
            metrics["mean_gain"] = self._gain
        self.tracker.log_metrics(metrics | self.best.metrics(self.goals), self.trials)


def probability_left(study: optuna.Study) -> float | None:
    """Return the probability that something 2 % faster is left; None without a model of it."""
    sampler = study.sampler
    if not isinstance(sampler, RegressionSampler):
        return None
    outlook = sampler.assess(study).outlook
    return outlook.probability(_MARGIN) if outlook is not None else None


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def track_trial(tracker: RunTracker, trial: TrialRecord, word: str, errors: TimingErrors | None) -> None:
    """Log a trial as a child run."""
    child = tracker.child(f"trial {trial.number}", {"phase": trial.phase, "trial": str(trial.number), "time_kind": word})
    child.log_params(trial.parameters)
    metrics = {name: float(value) for name, value in trial.details.items() if _is_number(value)}
    if trial.runtime_ms is not None:
        metrics["runtime_us"] = trial.runtime_ms * _US_PER_MS
        metrics |= expected_metrics(trial.runtime_ms, errors)
    if trial.predicted_ms is not None:
        metrics["predicted_us"] = trial.predicted_ms * _US_PER_MS
    child.log_metrics(metrics)
    if trial.reason is not None:
        child.set_tags({"failed": trial.stage or "", "reason": trial.reason})
    child.close("FINISHED" if trial.runtime_ms is not None else "FAILED")


def decisive_band(errors: TimingErrors | None) -> RatioBand | None:
    """Return the band within which two emulated times are indistinguishable; None for measured times."""
    return errors.decisive if errors is not None else None


def expected_metrics(runtime_ms: float, errors: TimingErrors | None) -> dict[str, float]:
    """Return the bounds of an emulated time in us; empty for a measured one."""
    if errors is None:
        return {}
    low, high = errors.around(runtime_ms * _US_PER_MS)
    return {"runtime_low_us": low, "runtime_high_us": high}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Origin:
    """Provenance of the times of a search.

    Args:
        name: Name of the kernel or the program.
        timing: Description of the times.
        word: `measured` or `emulated`.
        provenance: Device and versions as plain data.
        discarded: Configurations discarded before the first measurement.
    """

    name: str
    timing: str
    word: str
    provenance: Mapping[str, Any]
    discarded: Discarded = field(default_factory=Discarded)

    def errors(self, config: LabConfig) -> TimingErrors | None:
        """Return the error bands of emulated times; None for measured ones."""
        return config.target.timing_errors if self.word == "emulated" else None

    @classmethod
    def of_kernel(cls, config: LabConfig, identity: DeviceIdentity, discarded: Discarded | None = None) -> Origin:
        """Return the provenance of the configured kernel on a device."""
        provenance = {
            "device": identity.name,
            "note": f"{identity.name}: {identity.reason}",
            "emulated": identity.emulated,
            "versions": dict(identity.versions),
            "target": config.target.name,
        }
        timing = f"median of the dispatches of {config.kernel.entry}, {identity.time_word} on {identity.name}"
        return cls(config.kernel.name, timing, identity.time_word, provenance, discarded or Discarded())


def write_result(lab: Lab, tracker: RunTracker, tuned: TuningResult, space: Space, origin: Origin) -> Path:
    """Write `autotune.json` and `report.html`, and track the result; return the path of `autotune.json`."""
    path = lab.output_dir / NAME
    text = result_document(lab.config, tuned, space, origin).model_dump_json(indent=2)
    write_text(path, text + "\n")
    page = write_report(lab.output_dir, documents=lab.output_dir, title=f"Search for {origin.name}")
    for file in (path, page, lab.output_dir / "config.json"):
        tracker.log_artifact(file)
    _log_outcome(lab, tracker, tuned, origin)
    return path


def _log_outcome(lab: Lab, tracker: RunTracker, tuned: TuningResult, origin: Origin) -> None:
    word, errors = origin.word, origin.errors(lab.config)
    metrics = {
        "search_space_size": float(tuned.space_size),
        "evaluated_configs": float(len(tuned.trials)),
        "infeasible_configs": float(len(tuned.failures)),
        "pruned_configs": float(tuned.pruned),
    }
    metrics |= {f"remaining.{margin:.0%}".replace("%", "_percent"): share for margin, share in tuned.remaining.items()}
    metrics |= {f"phase.{name}": float(count) for name, count in tuned.phases.items()}
    metrics |= {f"importance.{name}": share for name, share in tuned.importances.items()}
    if tuned.model is not None:
        metrics |= {f"model.{name}": tuned.model[name] for name in ("r2", "residual_std") if tuned.model[name] is not None}
    if tuned.best is not None and tuned.best.runtime_ms is not None:
        metrics["runtime_us"] = tuned.best.runtime_ms * _US_PER_MS
        metrics |= expected_metrics(tuned.best.runtime_ms, errors)
    if errors is not None:
        metrics |= {"ratio_band": errors.decisive.factor, "indistinguishable_configs": float(len(tuned.tied))}
    best = tuned.best.parameters if tuned.best is not None else {}
    tracker.log_metrics(metrics, step=len(tuned.trials))
    tracker.set_tags(  # tags, since parameters of a resumed run cannot change
        {
            **{f"best.{name}": str(value) for name, value in best.items()},
            "job": lab.job_name,
            "time_kind": word,
            "stop_reason": tuned.stop_reason,
            "warning": tuned.warning or "",
            "model": tuned.model["name"] if tuned.model is not None else "none",
            "phases": json.dumps(tuned.phases),
        }
    )


def result_document(config: LabConfig, tuned: TuningResult, space: Space, origin: Origin) -> AutotuneDocument:
    """Return the result of a search as a document.

    Args:
        config: Configuration, for the GPU.
        tuned: Result of the search.
        space: The search space, without discarded configurations.
        origin: Provenance of the times.
    """
    best, errors, goals = tuned.best, origin.errors(config), configured_goals(config, space)
    content = {
        "kernel": {"name": origin.name},
        "gpu": {"name": config.target.product_name, "architecture": config.target.architecture},
        "time_kind": origin.word,
        "timing": origin.timing,
        "search_space_size": tuned.space_size + origin.discarded.total,
        "evaluated_configs": len(tuned.trials),
        "infeasible_configs": len(tuned.failures),
        "discarded_configs": origin.discarded.total,
        "pruned_configs": tuned.pruned,
        "best_config": _best(best, errors) if best is not None else None,
        "indistinguishable": [
            {"trial": trial.number, "parameters": trial.parameters, "runtime_ms": trial.runtime_ms} for trial in tuned.tied
        ],
        "choice": CHOICE if tuned.tied else None,
        "error_bands": bands_row(errors),
        "remaining": [{"better_than": margin, "probability": share} for margin, share in tuned.remaining.items()],
        "objectives": [str(goal) for goal in goals.goals] if goals is not None else [],
        "front": front_rows(tuned.front, goals),
        "model": tuned.model,
        "phases": tuned.phases,
        "warning": tuned.warning,
        "stop_reason": tuned.stop_reason,
        "race": tuned.race,
        "parameter_importances": tuned.importances,
        "failures": [failure_row(trial) for trial in tuned.failures],
        "discarded": origin.discarded.as_json(),
        "pruned_region": pruned_region(tuned, space),
        "trials": [trial_row(trial) for trial in tuned.trials],
        "provenance": dict(origin.provenance),
    }
    return AutotuneDocument.model_validate(content)


def front_rows(front: Sequence[FrontMember], goals: Goals | None) -> list[dict[str, Any]]:
    """Return the configurations that no other beats in all objectives as rows of a document; none for the time alone."""
    if goals is None:
        return []
    return [
        {
            "trial": member.trial.number,
            "parameters": member.trial.parameters,
            "values": {goal.metric: value for goal, value in zip(goals.goals, member.values, strict=True)},
        }
        for member in front
    ]


def _best(best: TrialRecord, errors: TimingErrors | None) -> dict[str, Any]:
    expected = errors.around(best.runtime_ms) if errors is not None and best.runtime_ms is not None else None
    return {"parameters": best.parameters, "runtime_ms": best.runtime_ms, "expected_ms": expected}


def pruned_region(tuned: TuningResult, space: Space) -> list[dict[str, Any]]:
    """For each value of each parameter: configurations, how many are evaluated and pruned, and the best time.

    Empty for a space that is not enumerated.
    """
    if isinstance(space, LazySpace):
        return []
    pruned = np.zeros(len(space), bool)
    pruned[list(tuned.pruned_rows)] = True
    region = []
    for position, (name, values) in enumerate(space.values.items()):
        codes = space.codes[:, position]
        for code, value in enumerate(values):
            has = codes == code
            if not has.any():
                continue
            trials = [trial for trial in tuned.trials if trial.parameters[name] == value]
            times = [trial.runtime_ms for trial in trials if trial.runtime_ms is not None]
            counts = {"configurations": int(has.sum()), "evaluated": len(trials), "pruned": int((has & pruned).sum())}
            region.append({"parameter": name, "value": value, **counts, "best_ms": min(times, default=None)})
    return region


def bands_row(errors: TimingErrors | None) -> dict[str, Any] | None:
    """Return error bands as in the documents of searches."""
    return errors.model_dump(mode="json", include={"status", "source", "time", "ratio"}) if errors else None


def failure_row(trial: TrialRecord) -> dict[str, Any]:
    """Return a failed trial as in the documents of searches."""
    return {"trial": trial.number, "parameters": trial.parameters, "stage": trial.stage, "reason": trial.reason}


def trial_row(trial: TrialRecord) -> dict[str, Any]:
    """Return a trial as in the documents of searches."""
    return {
        "trial": trial.number,
        "phase": trial.phase,
        "parameters": trial.parameters,
        "runtime_ms": trial.runtime_ms,
        "predicted_ms": trial.predicted_ms,
        "decision": trial.decision,
        "details": {name: value for name, value in trial.details.items() if name != "times_ms"},
    }
