"""`job=autotune` with `autotune.shapes`: one search for all shapes of a workload, and its result as files for programs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from rich.box import SIMPLE_HEAD
from rich.table import Table

from rocm_perf_lab.autotune.cutoff import Cutoff
from rocm_perf_lab.autotune.dispatch_tables import tables
from rocm_perf_lab.autotune.kernel_objective import KernelObjective
from rocm_perf_lab.autotune.multitask_search import EarlierTask, MultiTaskSearch
from rocm_perf_lab.autotune.prior import PriorError
from rocm_perf_lab.autotune.recorded_shapes import is_recording, shapes_of_recording
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.shapes import SHAPE, read_shapes, shapes_of
from rocm_perf_lab.autotune.shapes_document import NAME, ShapesDocument
from rocm_perf_lab.autotune.storage import dashboard_command, open_storage, open_study
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.autotune.tuner import Tuner, beyond_limits
from rocm_perf_lab.autotune.workload_result import tuned_workload
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.autotune.goals import configured_goals
from rocm_perf_lab.jobs.autotune.records import TRACKING_RUN, bands_row, failure_row, track_trial, trial_row
from rocm_perf_lab.jobs.autotune.samplers import stopping_rule
from rocm_perf_lab.jobs.autotune.spaces import shaped, varied_names
from rocm_perf_lab.jobs.autotune.subject import CommandSettings, TuningSubject, command_subject, kernel_subject
from rocm_perf_lab.jobs.show import runtime_text, show_locations, time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna import Study

    from rocm_perf_lab.autotune.command import CommandObjective
    from rocm_perf_lab.autotune.goals import Goals
    from rocm_perf_lab.autotune.objective import Infeasible, Measurement, Objective, Preempted
    from rocm_perf_lab.autotune.shaped_space import ShapedSpace
    from rocm_perf_lab.autotune.shapes import WorkloadShape
    from rocm_perf_lab.autotune.space import Configuration
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.autotune.tuner import Improbable
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker

_WHERE = "autotune.shapes"
_RECORDS = ("profile.json", "analysis.json")
_NS_PER_MS = 1e6
_US_PER_MS = 1e3
_PERCENT = 100


@dataclass
class WorkloadObjective:
    """Objective of a joint space: every shape has its own limit of wall-clock time, relative to its own best configuration."""

    objective: KernelObjective | CommandObjective
    _of_shape: dict[Any, Objective] = field(default_factory=dict)

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible | Preempted:
        """Measure one configuration for its shape."""
        return self._own(configuration[SHAPE])(configuration)

    def _own(self, shape: Any) -> Objective:
        if shape not in self._of_shape:
            given = self.objective.cutoff
            cutoff = Cutoff(given.factor, given.at_least_s, given.first_s)
            if isinstance(self.objective, KernelObjective):
                self._of_shape[shape] = replace(self.objective, cutoff=cutoff, _expected={})
            else:
                self._of_shape[shape] = replace(self.objective, cutoff=cutoff)
        return self._of_shape[shape]


def configured_shapes(lab: Lab) -> tuple[tuple[WorkloadShape, ...], str]:
    """Return the shapes that the configuration names, and their origin.

    Raises:
        ShapeError: They are unreadable, contradictory, or absent.
    """
    given = lab.config.autotune.shapes
    if not isinstance(given, Path):
        return shapes_of(given or (), where=_WHERE), _WHERE
    path = next((given / name for name in _RECORDS if (given / name).is_file()), given) if given.is_dir() else given
    content = read_shapes(path)
    if is_recording(content):
        kernel, expressions = lab.config.kernel, lab.config.autotune.from_launch or {}
        return shapes_of_recording(content, kernel, expressions, varied_names(lab.config), where=str(path)), str(path)
    rows = content.get("shapes") if isinstance(content, dict) else content
    return shapes_of(rows if isinstance(rows, list) else (), where=str(path)), str(path)


@dataclass(frozen=True)
class WorkloadSearch:
    """Search of the configured space for all configured shapes.

    Args:
        lab: Configuration, console, and the directory of the run.
        command: Settings of a command; None: the configured kernel.
        tracker: Opens the tracking run.
    """

    lab: Lab
    command: CommandSettings | None
    tracker: Callable[[Lab], RunTracker]

    def run(self) -> float:
        """Search, write the result, and return its weighted mean regret in percent.

        Raises:
            LabError: Settings contradict each other, or every configuration fails.
        """
        lab, settings, space = self.lab, self.lab.config.autotune, self._joint[0]
        self._check()
        subject = self._subject
        strategy = MultiTaskSearch(
            space,
            seed=settings.seed,
            most=settings.configurations,
            budget=settings.budget,
            earlier=self._earlier(),
            start=self._joint[1],
            gpu=lab.config.target.name,
        )
        sampler = RegressionSampler(space, seed=settings.seed, strategy=strategy, goals=self._limits)
        stop_when = stopping_rule(lab.config, sampler)
        storage = open_storage(settings.storage, directory=lab.output_dir)
        study = open_study(storage, settings.study or f"autotune-{subject.name}-shapes", space, sampler)
        shown = f"{len(space.shapes)} shapes, {len(space):,} combinations with configurations"
        lab.console.print(f"[bold]shapes[/]  {shown}; times: {subject.timing}", soft_wrap=True)
        lab.console.print(f"[bold]watch[/]   {dashboard_command(settings.storage, directory=lab.output_dir)}", soft_wrap=True)
        with self.tracker(lab) as tracker:
            if tracker.run_id is not None:
                study.set_user_attr(TRACKING_RUN, tracker.run_id)
            return self._search(study, tracker, stop_when)

    @cached_property
    def _joint(self) -> tuple[ShapedSpace, Configuration | None]:
        shapes, where = configured_shapes(self.lab)
        return shaped(self.lab.config, shapes, where=where)

    @cached_property
    def _subject(self) -> TuningSubject:
        space = self._joint[0]
        return command_subject(self.lab, space, self.command) if self.command else kernel_subject(self.lab, space)

    @cached_property
    def _limits(self) -> Goals | None:
        return configured_goals(self.lab.config, self._joint[0])

    def _check(self) -> None:
        settings, shapes = self.lab.config.autotune, self._joint[0].shapes
        single = {
            "autotune.features": "compiled" in settings.features,
            "autotune.sampler": settings.sampler is not None,
            "autotune.model": settings.model != "gaussian_process",
        }
        for where, given in single.items():
            if given:
                raise LabError("this setting is for the search of one shape", where=where, hint="remove it, or autotune.shapes")
        fewest = 2 * len(shapes)
        if settings.budget is not None and settings.budget < fewest:
            raise LabError(
                f"{settings.budget} evaluations are too few for {len(shapes)} shapes",
                where="autotune.budget",
                hint=f"at least {fewest}: two for every shape",
            )

    def _earlier(self) -> tuple[EarlierTask, ...]:
        """Return the shapes of earlier runs, of any GPU, that `autotune.prior` names."""
        text = self.lab.config.autotune.prior
        if text is None:
            return ()
        path = Path(text) / NAME if Path(text).is_dir() else Path(text)
        hint = f"name the directory of a run with autotune.shapes, or its {NAME}"
        try:
            found = ShapesDocument.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise PriorError("not the result of a search for shapes", where=str(path), hint=hint) from error
        space = self._joint[0]
        names = space.shapes[0].values.keys()
        if (
            found.shapes[0].shape.keys() != names
            or not found.configurations
            or found.configurations[0].keys() != set(space.tuned)
        ):
            raise PriorError(
                "the earlier results are of another space", where=str(path), hint="names of shapes and parameters differ"
            )
        labels = [",".join(f"{name}={value}" for name, value in shape.shape.items()) for shape in found.shapes]
        gpu = found.provenance.target or found.gpu.name
        return tuple(
            EarlierTask(dict(shape.shape), gpu, tuple(_results(found, label)))
            for shape, label in zip(found.shapes, labels, strict=True)
        )

    def _search(self, study: Study, tracker: RunTracker, stop_when: Improbable | None) -> float:
        lab, settings, space = self.lab, self.lab.config.autotune, self._joint[0]
        objective = WorkloadObjective(self._subject.objective)
        with lab.console.status("starting") as status:
            log = _WorkloadLog(self, tracker, status.update)
            tuner = Tuner(
                study,
                space,
                objective,
                settings.budget,
                log.told,
                exclusive=settings.storage is None,
                stop_when=stop_when,
            )
            try:
                tuner.run()
            finally:
                found = self._document(study, tuner.stop_reason)
                path = self._write(found, tracker)
        if not found.configurations:
            raise beyond_limits(len(found.trials), path)
        self._show(found)
        show_locations(lab, tracker)
        regret = found.weighted_regret or 0.0
        lab.answer(path, runtime_text(sum(s.runtime_ms or 0.0 for s in found.shapes) * _NS_PER_MS, found.time_kind))
        return regret * _PERCENT

    def errors(self) -> TimingErrors | None:
        """Return the error bands of emulated times; None for measured ones."""
        return self.lab.config.target.timing_errors if self._subject.objective.time_kind == "emulated" else None

    def _document(self, study: Study, stop_reason: str) -> ShapesDocument:
        space, config, origin = self._joint[0], self.lab.config, self._subject.origin()
        trials = records(study, space)
        tuned = tuned_workload(space, trials, config.autotune.configurations, self._limits)
        assessed = study.sampler.assess(study) if isinstance(study.sampler, RegressionSampler) else None
        phases: dict[str, int] = {}
        for trial in trials:
            phases[trial.phase] = phases.get(trial.phase, 0) + 1
        content = {
            "kernel": {"name": origin.name},
            "gpu": {"name": config.target.product_name, "architecture": config.target.architecture},
            "time_kind": origin.word,
            "timing": origin.timing,
            "configurations": tuned.configurations,
            "shapes": [
                {
                    "shape": one.shape.values,
                    "weight": one.weight,
                    "evaluated": one.evaluated,
                    "configuration": one.configuration,
                    "runtime_ms": one.runtime_ms,
                    "regret": one.regret,
                    "best_ms": one.best.runtime_ms if one.best is not None else None,
                    "best_parameters": _without_shape(one.best.parameters) if one.best is not None else None,
                    "first_ms": one.first_ms,
                }
                for one in tuned.shapes
            ],
            "weighted_regret": tuned.weighted_regret,
            "search_space_size": len(space),
            "evaluated_configs": len(trials),
            "infeasible_configs": sum(trial.runtime_ms is None for trial in trials),
            "stop_reason": stop_reason,
            "model": {"name": assessed.name, "r2": assessed.r2, "residual_std": assessed.residual_std} if assessed else None,
            "phases": phases,
            "error_bands": bands_row(self.errors()),
            "failures": [failure_row(trial) for trial in trials if trial.runtime_ms is None],
            "trials": [trial_row(trial) for trial in trials],
            "provenance": dict(origin.provenance),
        }
        return ShapesDocument.model_validate(content)

    def _write(self, found: ShapesDocument, tracker: RunTracker) -> Path:
        path = self.lab.output_dir / NAME
        self._write_file(NAME, found.model_dump_json(indent=2) + "\n", tracker)
        if found.configurations:
            for name, text in tables(found, self.lab.config.kernel if self.command is None else None).items():
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

    def _show(self, found: ShapesDocument) -> None:
        console, errors = self.lab.console, self.errors()
        title = f"{len(found.configurations)} configurations for {len(found.shapes)} shapes of {found.kernel.name}"
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left")
        for name, right in (("shape", False), ("weight", True), (f"us {found.time_kind}", True), ("regret", True), ("of", True)):
            table.add_column(name, justify="right" if right else "left", overflow="fold")
        table.add_column("configuration", overflow="fold")
        for shape in found.shapes:
            known = shape.runtime_ms is not None and shape.regret is not None
            table.add_row(
                _text(shape.shape),
                f"{shape.weight:.0%}",
                f"{(shape.runtime_ms or 0) * _US_PER_MS:.4g}" if known else "-",
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
        if errors is not None:
            factor = errors.decisive.factor
            console.print(f"[bold]error[/]   emulated times within a factor of {factor:.2f} are ties on a GPU", soft_wrap=True)


@dataclass
class _WorkloadLog:
    """Log of finished trials: a child run in the store, and a line on the console with the mean gain over first measurements."""

    search: WorkloadSearch
    tracker: RunTracker
    say: Callable[[str], None]
    first: dict[Any, float] = field(default_factory=dict)
    best: dict[Any, float] = field(default_factory=dict)
    trials: int = 0

    def told(self, trial: TrialRecord) -> None:
        """Log one trial."""
        self.trials += 1
        shape, time = trial.parameters[SHAPE], trial.runtime_ms
        if time is not None:
            self.first.setdefault(shape, time)
            self.best[shape] = min(time, self.best.get(shape, time))
        gains = [self.first[name] / best for name, best in self.best.items()]
        budget = self.search.lab.config.autotune.budget
        of = f" of {budget}" if budget is not None else ""
        word, errors = (
            self.search.lab.measuring_device.identity.time_word if self.search.command is None else "",
            self.search.errors(),
        )
        took = (
            time_text(time * _NS_PER_MS, word, errors) if time is not None and word else "ran" if time is not None else "failed"
        )
        gain = f", mean gain {sum(gains) / len(gains):.2f}x over the first" if gains else ""
        self.say(f"trial {self.trials}{of} ({trial.phase}, {shape}): {took}{gain}")
        track_trial(self.tracker, trial, self.search._subject.objective.time_kind, errors)
        if gains:
            metrics = {"mean_gain": sum(gains) / len(gains), "evaluations": float(self.trials)}
            self.tracker.log_metrics(metrics, self.trials)


def _results(found: ShapesDocument, label: str) -> Any:
    for trial in found.trials:
        if trial.parameters.get(SHAPE) == label and trial.runtime_ms is not None:
            yield _without_shape(trial.parameters), trial.runtime_ms


def _without_shape(parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != SHAPE}


def _text(values: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
