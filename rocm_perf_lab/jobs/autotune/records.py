"""Records of a search: autotune.json, report.html, and a tracking run with a child run per trial."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.discarded import Discarded
from rocm_perf_lab.autotune.document import NAME, AutotuneDocument
from rocm_perf_lab.autotune.tuner import CHOICE
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.show import time_text
from rocm_perf_lab.report.autotune_page import write_autotune_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.autotune.tuner import TuningResult
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import DeviceIdentity
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.statistics.error_bands import RatioBand
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker

_NS_PER_MS = 1e6


@dataclass
class TrialLog:
    """Log of finished trials: a child run in the store, and a line on the console."""

    tracker: RunTracker
    budget: int | None
    word: Callable[[], str]
    say: Callable[[str], None]
    errors: Callable[[], TimingErrors | None] = lambda: None
    trials: int = 0
    best_ms: float | None = None

    def told(self, trial: TrialRecord) -> None:
        """Log one trial."""
        self.trials += 1
        if trial.runtime_ms is not None and (self.best_ms is None or trial.runtime_ms < self.best_ms):
            self.best_ms = trial.runtime_ms
        best = f", best {time_text(self.best_ms * _NS_PER_MS, self.word(), self.errors())}" if self.best_ms is not None else ""
        of = f" of {self.budget}" if self.budget is not None else ""
        self.say(f"trial {self.trials}{of} ({trial.phase}){best}")
        self._track(trial)

    def _track(self, trial: TrialRecord) -> None:
        child = self.tracker.child(f"trial {trial.number}", {"phase": trial.phase, "trial": str(trial.number)})
        child.log_params(trial.parameters)
        metrics = {name: float(value) for name, value in trial.details.items() if _is_number(value)}
        if trial.runtime_ms is not None:
            metrics[f"{self.word()}_runtime_ms"] = trial.runtime_ms
            metrics |= expected_metrics(trial.runtime_ms, self.errors())
        if trial.predicted_ms is not None:
            metrics["predicted_ms"] = trial.predicted_ms
        child.log_metrics(metrics)
        if trial.reason is not None:
            child.set_tags({"failed": trial.stage or "", "reason": trial.reason})
        child.close("FINISHED" if trial.runtime_ms is not None else "FAILED")


def decisive_band(errors: TimingErrors | None) -> RatioBand | None:
    """Return the band within which two emulated times are indistinguishable; None for measured times."""
    return errors.decisive if errors is not None else None


def expected_metrics(runtime_ms: float, errors: TimingErrors | None) -> dict[str, float]:
    """Return the bounds of an emulated time in ms; empty for a measured one."""
    if errors is None:
        return {}
    low, high = errors.around(runtime_ms)
    return {"emulated_runtime_low_ms": low, "emulated_runtime_high_ms": high}


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
    page = write_autotune_report(lab.output_dir, json.loads(text))  # numbers that JSON does not have (infinity) are null in both
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
    metrics |= {f"phase.{name}": float(count) for name, count in tuned.phases.items()}
    metrics |= {f"importance.{name}": share for name, share in tuned.importances.items()}
    if tuned.model is not None:
        metrics |= {f"model.{name}": tuned.model[name] for name in ("r2", "residual_std") if tuned.model[name] is not None}
    if tuned.best is not None and tuned.best.runtime_ms is not None:
        metrics[f"{word}_best_runtime_ms"] = tuned.best.runtime_ms
        metrics |= expected_metrics(tuned.best.runtime_ms, errors)
    if errors is not None:
        metrics |= {"emulated_ratio_band": errors.decisive.factor, "indistinguishable_configs": float(len(tuned.tied))}
    best = tuned.best.parameters if tuned.best is not None else {}
    tracker.log_metrics(metrics)
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
    best, errors = tuned.best, origin.errors(config)
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
        "error_bands": errors.model_dump(mode="json", include={"status", "source", "time", "ratio"}) if errors else None,
        "model": tuned.model,
        "phases": tuned.phases,
        "warning": tuned.warning,
        "stop_reason": tuned.stop_reason,
        "race": tuned.race,
        "parameter_importances": tuned.importances,
        "failures": [
            {"trial": t.number, "parameters": t.parameters, "stage": t.stage, "reason": t.reason} for t in tuned.failures
        ],
        "discarded": origin.discarded.as_json(),
        "pruned_region": pruned_region(tuned, space),
        "trials": [_trial(trial) for trial in tuned.trials],
        "provenance": dict(origin.provenance),
    }
    return AutotuneDocument.model_validate(content)


def _best(best: TrialRecord, errors: TimingErrors | None) -> dict[str, Any]:
    expected = errors.around(best.runtime_ms) if errors is not None and best.runtime_ms is not None else None
    return {"parameters": best.parameters, "runtime_ms": best.runtime_ms, "expected_ms": expected}


def pruned_region(tuned: TuningResult, space: Space) -> list[dict[str, Any]]:
    """For each value of each parameter: configurations, how many are evaluated and pruned, and the best time."""
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


def _trial(trial: TrialRecord) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "phase": trial.phase,
        "parameters": trial.parameters,
        "runtime_ms": trial.runtime_ms,
        "predicted_ms": trial.predicted_ms,
        "decision": trial.decision,
        "details": {name: value for name, value in trial.details.items() if name != "times_ms"},
    }
