"""What is kept of a search: autotune.json, and in MLflow one child run per trial."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.files import write_text
from rocm_perf_lab.jobs.show import time_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.autotune.tuner import Tuned
    from rocm_perf_lab.device.protocol import DeviceIdentity
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.tracking.store import RunTracker

RESULT = "autotune.json"
_NS_PER_MS = 1e6


@dataclass
class TrialLog:
    """Told of every trial: a child run in the store, a line on the console."""

    tracker: RunTracker
    space: Space
    budget: int | None
    word: str
    say: Callable[[str], None]
    trials: int = 0
    best_ms: float | None = None

    def told(self, trial: TrialRecord) -> None:
        """Keep one trial."""
        self.trials += 1
        if trial.runtime_ms is not None and (self.best_ms is None or trial.runtime_ms < self.best_ms):
            self.best_ms = trial.runtime_ms
        best = f", best {time_text(self.best_ms * _NS_PER_MS, self.word)}" if self.best_ms is not None else ""
        of = f" of {self.budget}" if self.budget is not None else ""
        self.say(f"trial {self.trials}{of} ({trial.phase}){best}")
        self._keep(trial)

    def _keep(self, trial: TrialRecord) -> None:
        child = self.tracker.child(f"trial {trial.number}", {"phase": trial.phase, "trial": str(trial.number)})
        child.log_params(trial.parameters)
        metrics = {name: float(value) for name, value in trial.details.items() if _is_number(value)}
        if trial.runtime_ms is not None:
            metrics[f"{self.word}_runtime_ms"] = trial.runtime_ms
        if trial.predicted_ms is not None:
            metrics["predicted_ms"] = trial.predicted_ms
        child.log_metrics(metrics)
        if trial.reason is not None:
            child.set_tags({"failed": trial.stage or "", "reason": trial.reason})
        child.close("FINISHED" if trial.runtime_ms is not None else "FAILED")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def write_result(lab: Lab, tracker: RunTracker, tuned: Tuned, identity: DeviceIdentity) -> Path:
    """`autotune.json` into the run's folder and the store."""
    path, word = lab.output_dir / RESULT, identity.time_word
    write_text(path, json.dumps(document(lab, tuned, identity), indent=2) + "\n")
    tracker.log_artifact(path)
    metrics = {"evaluated_configs": float(len(tuned.trials)), "pruned_configs": float(tuned.pruned)}
    metrics |= {f"phase.{name}": float(count) for name, count in tuned.phases.items()}
    if tuned.best is not None and tuned.best.runtime_ms is not None:
        metrics[f"{word}_best_runtime_ms"] = tuned.best.runtime_ms
        tracker.log_params({f"best.{name}": value for name, value in tuned.best.parameters.items()})
    tracker.log_metrics(metrics)
    tracker.set_tags({"job": lab.job_name, "time_kind": word, "stop_reason": tuned.stop_reason, "warning": tuned.warning or ""})
    return path


def document(lab: Lab, tuned: Tuned, identity: DeviceIdentity) -> dict[str, Any]:
    """The result of a search, for machines."""
    best = tuned.best
    return {
        "schema_version": "1.0",
        "kernel": {"name": lab.config.kernel.name},
        "gpu": {"name": lab.config.target.product_name, "architecture": lab.config.target.architecture},
        "time_kind": identity.time_word,
        "search_space_size": tuned.space_size,
        "evaluated_configs": len(tuned.trials),
        "infeasible_configs": len(tuned.failures),
        "pruned_configs": tuned.pruned,
        "best_config": {"parameters": best.parameters, "runtime_ms": best.runtime_ms} if best is not None else None,
        "model": tuned.model,
        "phases": tuned.phases,
        "warning": tuned.warning,
        "stop_reason": tuned.stop_reason,
        "parameter_importances": tuned.importances,
        "failures": [
            {"trial": t.number, "parameters": t.parameters, "stage": t.stage, "reason": t.reason} for t in tuned.failures
        ],
        "trials": [_trial(trial) for trial in tuned.trials],
        "provenance": {
            "device": identity.name,
            "note": f"{identity.name}: {identity.reason}",
            "emulated": identity.emulated,
            "versions": dict(identity.versions),
        },
    }


def _trial(trial: TrialRecord) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "phase": trial.phase,
        "parameters": trial.parameters,
        "runtime_ms": trial.runtime_ms,
        "predicted_ms": trial.predicted_ms,
        "details": {name: value for name, value in trial.details.items() if name != "times_ms"},
    }
