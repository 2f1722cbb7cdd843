"""`job=autotune` with `autotune.shapes`: one search for all shapes of a workload, and its result as files for programs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from rocm_perf_lab.autotune.multitask_search import EarlierTask, MultiTaskSearch
from rocm_perf_lab.autotune.prior import PriorError
from rocm_perf_lab.autotune.recorded_shapes import is_recording, shapes_of_recording
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.shapes import SHAPE, ShapeError, read_shapes, shape_label, shapes_of
from rocm_perf_lab.autotune.shapes_document import NAME, ShapesDocument
from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
from rocm_perf_lab.autotune.storage import dashboard_command, open_storage, open_study
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.autotune.tuner import Tuner, race_of, within_limits
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.autotune.emulated_prior import EMULATED, emulated_tasks, note_if_unused, reduced_size
from rocm_perf_lab.jobs.autotune.goals import configured_goals
from rocm_perf_lab.jobs.autotune.records import TRACKING_RUN, TrialLog, probability_left
from rocm_perf_lab.jobs.autotune.samplers import stopping_rule
from rocm_perf_lab.jobs.autotune.spaces import shaped, varied_names
from rocm_perf_lab.jobs.autotune.subject import (
    CommandSettings,
    TuningSubject,
    WorkloadObjective,
    command_subject,
    kernel_subject,
)
from rocm_perf_lab.jobs.autotune.workload_report import WorkloadReport, results_of
from rocm_perf_lab.jobs.show import show_locations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from optuna import Study

    from rocm_perf_lab.autotune.goals import Goals
    from rocm_perf_lab.autotune.objective import Repeatable
    from rocm_perf_lab.autotune.shapes import WorkloadShape
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Configuration
    from rocm_perf_lab.autotune.tuner import Improbable
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.statistics.racing import RaceResult
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker

_WHERE = "autotune.shapes"
_RECORDS = ("profile.json", "analysis.json")
_NS_PER_MS = 1e6
_PERCENT = 100


def configured_shapes(config: LabConfig, *, is_kernel: bool = True) -> tuple[tuple[WorkloadShape, ...], str]:
    """Return the shapes that the configuration names, and their origin.

    Args:
        config: The configuration.
        is_kernel: False for a command, whose launches in a recording are those of no known kernel.

    Raises:
        ShapeError: They are unreadable, contradictory, or absent.
    """
    given = config.autotune.shapes
    if not isinstance(given, Path):
        return shapes_of(given or (), where=_WHERE), _WHERE
    path = next((given / name for name in _RECORDS if (given / name).is_file()), given) if given.is_dir() else given
    content = read_shapes(path)
    if is_recording(content):
        if not is_kernel:
            hint = "list the shapes, or tune the kernel instead of the command"
            raise ShapeError("a recording does not determine the shapes of a command", where=str(path), hint=hint)
        expressions = config.autotune.from_launch or {}
        return shapes_of_recording(content, config.kernel, expressions, varied_names(config), where=str(path)), str(path)
    rows = content.get("shapes") if isinstance(content, dict) else content
    return shapes_of(rows if isinstance(rows, list) else (), where=str(path)), str(path)


@dataclass(frozen=True)
class Workload:
    """The configured shapes, their joint space, and the sampler of its search.

    Args:
        config: The configuration.
        is_kernel: False for a command.
    """

    config: LabConfig
    is_kernel: bool = True

    @cached_property
    def space(self) -> ShapedSpace:
        """The joint space."""
        return self._joint[0]

    @cached_property
    def _joint(self) -> tuple[ShapedSpace, Configuration | None]:
        shapes, where = configured_shapes(self.config, is_kernel=self.is_kernel)
        return shaped(self.config, shapes, where=where)

    @cached_property
    def goals(self) -> Goals | None:
        """The objective and limits, or None for the time alone."""
        return configured_goals(self.config, self.space)

    @property
    def races(self) -> bool:
        """Return whether the fastest configurations of each shape are raced."""
        return self.goals is None or self.goals.is_time

    def sampler(
        self, space: ShapedSpace, features: Column | None = None, earlier: Sequence[EarlierTask] = ()
    ) -> RegressionSampler:
        """Return the sampler.

        Args:
            space: The joint space, without discarded configurations.
            features: Further inputs of the model, one row per row of the space.
            earlier: Earlier results; see :meth:`earlier`.
        """
        settings = self.config.autotune
        strategy = MultiTaskSearch(
            space,
            seed=settings.seed,
            most=settings.configurations,
            budget=settings.budget,
            earlier=earlier,
            start=self._joint[1],
            gpu=self.config.target.name,
            features=features,
        )
        return RegressionSampler(space, seed=settings.seed, strategy=strategy, goals=self.goals)

    def race(self, study: Study, space: ShapedSpace, objective: Repeatable) -> Iterator[tuple[str, RaceResult]]:
        """Race the fastest configurations of each shape; yield its label and the race."""
        if objective.deterministic or not self.races:
            return
        valid = within_limits(records(study, space), self.goals)
        for shape in space.shapes:
            own = [trial for trial in valid if trial.parameters[SHAPE] == shape.label]
            found = race_of(own, space, objective, self.config.autotune.max_races)
            if found is not None:
                yield shape.label, found

    def check(self) -> None:
        """Check that the settings are for several shapes.

        Raises:
            LabError: They are for one, or contradict each other.
        """
        settings, shapes = self.config.autotune, self.space.shapes
        single = {
            "autotune.sampler": settings.sampler is not None,
            "autotune.model": settings.model != "gaussian_process",
        }
        for where, given in single.items():
            if given:
                raise LabError("this setting is for the search of one shape", where=where, hint="remove it, or autotune.shapes")
        if settings.prior is not None and not self.races:
            raise LabError("earlier results are times", where="autotune.prior", hint="remove it, or autotune.objectives")
        fewest = 2 * len(shapes)
        if settings.budget is not None and settings.budget < fewest:
            raise LabError(
                f"{settings.budget} evaluations are too few for {len(shapes)} shapes",
                where="autotune.budget",
                hint=f"at least {fewest}: two for every shape",
            )

    def earlier(self, lab: Lab) -> tuple[EarlierTask, ...]:
        """Return the shapes of earlier runs, of any GPU or of the emulator, that `autotune.prior` names.

        Raises:
            LabError: Settings contradict each other, or earlier results are of another space.
        """
        self.check()
        note_if_unused(lab)
        text = self.config.autotune.prior
        if text is None:
            return ()
        if text == EMULATED:
            tasks = emulated_tasks(lab, self.space)
            known = sum(len(task.results) for task in tasks)
            lab.console.print(f"[bold]prior[/]   {known:,} configurations from {reduced_size(self.config)}", soft_wrap=True)
            return tasks
        path = Path(text) / NAME if Path(text).is_dir() else Path(text)
        hint = f"name the directory of a run with autotune.shapes, or its {NAME}"
        try:
            found = ShapesDocument.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise PriorError("not the result of a search for shapes", where=str(path), hint=hint) from error
        names = self.space.shapes[0].values.keys()
        if (
            found.shapes[0].shape.keys() != names
            or not found.configurations
            or found.configurations[0].keys() != set(self.space.tuned)
        ):
            raise PriorError(
                "the earlier results are of another space", where=str(path), hint="names of shapes and parameters differ"
            )
        gpu = found.provenance.target or found.gpu.name
        shapes = [shape.shape for shape in found.shapes]
        return tuple(EarlierTask(dict(one), gpu, tuple(results_of(found.trials, shape_label(one)))) for one in shapes)


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
        self.workload.check()  # before anything is compiled
        lab, settings, subject, space = self.lab, self.lab.config.autotune, self.subject, self._space
        sampler = self.workload.sampler(space, subject.features, self.workload.earlier(lab))
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
    def workload(self) -> Workload:
        """The configured workload."""
        return Workload(self.lab.config, is_kernel=self.command is None)

    @cached_property
    def subject(self) -> TuningSubject:
        """The kernel or the command."""
        space = self.workload.space
        return command_subject(self.lab, space, self.command) if self.command else kernel_subject(self.lab, space)

    @property
    def _space(self) -> ShapedSpace:
        """The joint space, without discarded configurations."""
        space = self.subject.space
        assert isinstance(space, ShapedSpace)
        return space

    def _search(self, study: Study, tracker: RunTracker, stop_when: Improbable | None) -> float:
        lab, settings, space = self.lab, self.lab.config.autotune, self._space
        objective = WorkloadObjective(self.subject.objective)
        races: dict[str, RaceResult] = {}
        with lab.console.status("starting") as status:
            log = TrialLog(
                tracker,
                settings.budget,
                lambda: self.subject.objective.time_kind,
                status.update,
                self.errors,
                partial(probability_left, study),
                known=records(study, space),
                goals=self.workload.goals,
            )
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
                races |= self.workload.race(study, space, objective)
            finally:
                kernel = lab.config.kernel if self.command is None else None
                report = WorkloadReport(lab, space, self.subject.origin(), kernel, self.workload.goals)
                found = report.document(study, tuner.stop_reason, races)
                report.write(found, tracker)
        report.answer(found)
        show_locations(lab, tracker)
        return (found.weighted_regret or 0.0) * _PERCENT

    def errors(self) -> TimingErrors | None:
        """Return the error bands of emulated times; None for measured ones."""
        return self.lab.config.target.timing_errors if self.subject.objective.time_kind == "emulated" else None
