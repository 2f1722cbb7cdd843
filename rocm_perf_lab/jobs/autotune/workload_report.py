"""Result of a search for several shapes: its document, the files for programs, and a table on the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from rocm_perf_lab.autotune.dispatch_tables import tables
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.shapes import SHAPE
from rocm_perf_lab.autotune.shapes_document import NAME, ShapesDocument
from rocm_perf_lab.autotune.spaces.constraint_code import ShapeConstraints
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.autotune.tuner import beyond_limits
from rocm_perf_lab.autotune.workload_result import tuned_workload
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.autotune.records import bands_row, failure_row, front_rows, trial_row
from rocm_perf_lab.jobs.show import count_text, runtime_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from optuna import Study

    from rocm_perf_lab.autotune.document import TrialPart
    from rocm_perf_lab.autotune.goals import Goals
    from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.autotune.workload_result import TunedShape
    from rocm_perf_lab.jobs.autotune.records import Origin
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.statistics.racing import RaceResult
    from rocm_perf_lab.tracking.run import RunTracker

_NS_PER_MS = 1e6
_US_PER_MS = 1e3


@dataclass(frozen=True)
class WorkloadReport:
    """Writer of the result of a search for several shapes.

    Args:
        lab: Configuration, console, and the directory of the run.
        space: The joint space.
        origin: Provenance of the times.
        kernel: The kernel; None for a command.
        goals: The objective and limits; None: the time alone.
    """

    lab: Lab
    space: ShapedSpace
    origin: Origin
    kernel: KernelDescription | None
    goals: Goals | None

    def document(self, study: Study, stop_reason: str, races: Mapping[str, RaceResult]) -> ShapesDocument:
        """Return the result of a study so far."""
        config, origin = self.lab.config, self.origin
        trials = records(study, self.space)
        tuned = tuned_workload(self.space, trials, config.autotune.configurations, self.goals, races)
        assessed = study.sampler.assess(study) if isinstance(study.sampler, RegressionSampler) else None
        phases: dict[str, int] = {}
        for trial in trials:
            phases[trial.phase] = phases.get(trial.phase, 0) + 1
        content = {
            "kernel": {"name": origin.name},
            "gpu": {"name": config.target.product_name, "architecture": config.target.architecture},
            "time_kind": origin.word,
            "timing": origin.timing,
            "objective": self._objective,
            "configurations": tuned.configurations,
            "shapes": [self._shape_row(one, races.get(one.shape.label)) for one in tuned.shapes],
            "weighted_regret": tuned.weighted_regret,
            "search_space_size": len(self.space) + origin.discarded.total,
            "evaluated_configs": len(trials),
            "infeasible_configs": sum(trial.runtime_ms is None for trial in trials),
            "stop_reason": stop_reason,
            "model": {"name": assessed.name, "r2": assessed.r2, "residual_std": assessed.residual_std} if assessed else None,
            "phases": phases,
            "error_bands": bands_row(origin.errors(config)),
            "failures": [failure_row(trial) for trial in trials if trial.runtime_ms is None],
            "trials": [trial_row(trial) for trial in trials],
            "provenance": dict(origin.provenance),
        }
        return ShapesDocument.model_validate(content)

    @property
    def _objective(self) -> str | None:
        return None if self.goals is None or self.goals.is_time else str(self.goals.goals[0])

    def _shape_row(self, one: TunedShape, race: RaceResult | None) -> dict[str, Any]:
        chosen, best = one.chosen, one.best
        values = {} if self._objective is None else {"value": chosen and chosen.value, "best_value": best and best.value}
        return {
            "shape": one.shape.values,
            "weight": one.weight,
            "evaluated": one.evaluated,
            "configuration": one.configuration,
            "runtime_ms": chosen.trial.runtime_ms if chosen is not None else None,
            "regret": one.regret,
            "best_ms": best.trial.runtime_ms if best is not None else None,
            "best_parameters": without_shape(best.trial.parameters) if best is not None else None,
            "first_ms": one.first_ms,
            "race": race.as_json() if race is not None else None,
            "front": [{**row, "parameters": without_shape(row["parameters"])} for row in front_rows(one.front, self.goals)],
            **values,
        }

    def write(self, found: ShapesDocument, tracker: RunTracker) -> Path:
        """Write `shapes.json` and the files for programs, track the result, and return the path of `shapes.json`."""
        path = self.lab.output_dir / NAME
        self._write_file(NAME, found.model_dump_json(indent=2) + "\n", tracker)
        if found.configurations:
            for name, text in tables(found, self.kernel, ShapeConstraints.of_space(self.space)).items():
                self._write_file(name, text, tracker)
        tracker.log_artifact(self.lab.output_dir / "config.json")
        metrics = {"evaluated_configs": float(found.evaluated_configs), "configurations": float(len(found.configurations))}
        if found.weighted_regret is not None:
            metrics["weighted_regret"] = found.weighted_regret
        tracker.log_metrics(metrics, step=found.evaluated_configs)
        tracker.set_tags({"job": self.lab.job_name, "time_kind": found.time_kind, "stop_reason": found.stop_reason})
        return path

    def _write_file(self, name: str, text: str, tracker: RunTracker) -> None:
        write_text(self.lab.output_dir / name, text)
        tracker.log_artifact(self.lab.output_dir / name)

    def answer(self, found: ShapesDocument) -> None:
        """Print the result.

        Raises:
            NoFeasibleTrial: No configuration runs within the limits.
        """
        path = self.lab.output_dir / NAME
        if not found.configurations:
            raise beyond_limits(len(found.trials), path)
        self._show(found)
        total = sum(shape.runtime_ms or 0.0 for shape in found.shapes)
        self.lab.answer(path, runtime_text(total * _NS_PER_MS, found.time_kind))

    def _show(self, found: ShapesDocument) -> None:
        console, errors = self.lab.console, self.origin.errors(self.lab.config)
        selected = count_text(len(found.configurations), "configuration")
        title = f"{selected} for {count_text(len(found.shapes), 'shape')} of {found.kernel.name}"
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left")
        value = f"us {found.time_kind}" if found.objective is None else found.objective
        for name, right in (("shape", False), ("weight", True), (value, True), ("regret", True), ("of", True)):
            table.add_column(name, justify="right" if right else "left", overflow="fold")
        table.add_column("configuration", overflow="fold")
        for shape in found.shapes:
            known = shape.runtime_ms is not None and shape.regret is not None
            number = (shape.runtime_ms or 0.0) * _US_PER_MS if found.objective is None else shape.value or 0.0
            table.add_row(
                _text(shape.shape),
                f"{shape.weight:.0%}",
                f"{number:.4g}" if known else "-",
                f"{shape.regret or 0:.1%}" if known else "none runs",
                str(shape.evaluated),
                _text(found.configurations[shape.configuration]) if shape.configuration is not None else "-",
            )
        console.print(table)
        if found.weighted_regret is not None:
            console.print(
                f"[bold]regret[/]  {found.weighted_regret:.1%} against the best measured of each shape; "
                f"{found.evaluated_configs} evaluated, {found.infeasible_configs} failed; stopped: {found.stop_reason}",
                soft_wrap=True,
            )
        if any(shape.front for shape in found.shapes):
            fronts = ", ".join(str(len(shape.front)) for shape in found.shapes)
            console.print(
                f"[bold]fronts[/]  {fronts} configurations that no other beats in all objectives: {NAME}", soft_wrap=True
            )
        raced = [shape.race for shape in found.shapes if shape.race is not None]
        if raced:
            console.print(f"[bold]races[/]   {sum(race.decided for race in raced)} of {len(raced)} decided", soft_wrap=True)
        if errors is not None:
            factor = errors.decisive.factor
            console.print(f"[bold]error[/]   emulated times within a factor of {factor:.2f} are ties on a GPU", soft_wrap=True)


def without_shape(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a configuration without its shape."""
    return {name: value for name, value in parameters.items() if name != SHAPE}


def results_of(trials: Iterable[TrialRecord | TrialPart], label: str) -> Iterator[tuple[Configuration, float]]:
    """Yield the configurations of a shape that ran, without the shape, with their times in ms."""
    for trial in trials:
        if trial.parameters.get(SHAPE) == label and trial.runtime_ms is not None:
            yield without_shape(trial.parameters), trial.runtime_ms


def _text(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
