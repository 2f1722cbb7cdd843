"""`job=autotune`: search a space for the fastest configuration with correct results."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.storage import dashboard_command, open_storage, open_study
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.autotune.tuner import Tuner, beyond_limits, goals_of
from rocm_perf_lab.jobs.autotune.goals import configured_goals
from rocm_perf_lab.jobs.autotune.priors import configured_prior
from rocm_perf_lab.jobs.autotune.records import TRACKING_RUN, TrialLog, decisive_band, probability_left, write_result
from rocm_perf_lab.jobs.autotune.samplers import configured_sampler, stopping_rule
from rocm_perf_lab.jobs.autotune.show import show_result
from rocm_perf_lab.jobs.autotune.spaces import configured_space
from rocm_perf_lab.jobs.autotune.subject import CommandSettings, TuningSubject, command_subject, kernel_subject
from rocm_perf_lab.jobs.autotune.workload import WorkloadSearch
from rocm_perf_lab.jobs.show import runtime_text, show_locations
from rocm_perf_lab.tracking.failsafe import FailsafeTracker, StoreWatch
from rocm_perf_lab.tracking.run import NullTracker, TrackingError

if TYPE_CHECKING:
    import optuna

    from rocm_perf_lab.autotune.tuner import Improbable
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker

STUDY_FILE = "study.db"


class AutotuneJob:
    """Job that searches the configured space and stores every trial as soon as it ends.

    Args:
        command: A command line with placeholders (`./kernel --bm {BLOCK_M}`); None: the configured kernel.
        timing, time_regex, time_unit, kernel, runs, timeout_s, device, root: Settings of a command; see :class:`CommandSettings`.
    """

    def __init__(
        self,
        *,
        command: str | None = None,
        timing: str = "auto",
        time_regex: str | None = None,
        time_unit: str = "ms",
        kernel: str | None = None,
        runs: int | None = None,
        timeout_s: float = 600.0,
        device: str = "auto",
        root: str | None = None,
    ) -> None:
        self._command = (
            CommandSettings(command, timing, time_regex, time_unit, kernel, runs, timeout_s, device, root)
            if command is not None
            else None
        )

    def run(self, lab: Lab) -> float:
        """Search, and return the best time in ms.

        Raises:
            LabError: The space is contradictory, the kernel or template does not match it, or every configuration fails.
        """
        settings = lab.config.autotune
        if settings.shapes is not None:
            return WorkloadSearch(lab, self._command, _tracker).run()
        whole = configured_space(lab.config)
        subject = command_subject(lab, whole, self._command) if self._command else kernel_subject(lab, whole)
        prior = configured_prior(lab, subject.space, configured_goals(lab.config, subject.space))
        slack = lab.timing_errors.decisive.factor if self._command is None and lab.timing_errors is not None else 1.0
        sampler = configured_sampler(lab.config, subject.space, prior=prior, features=subject.features, slack=slack)
        stop_when = stopping_rule(lab.config, sampler)
        storage = open_storage(settings.storage, directory=lab.output_dir)
        study = open_study(storage, settings.study or f"autotune-{subject.name}", subject.space, sampler)
        lab.console.print(f"[bold]times[/]   {subject.timing}", soft_wrap=True)
        if prior is not None:
            lab.console.print(f"[bold]prior[/]   {prior.known:,} configurations from {prior.source}", soft_wrap=True)
        lab.console.print(f"[bold]watch[/]   {dashboard_command(settings.storage, directory=lab.output_dir)}", soft_wrap=True)
        with _tracker(lab) as tracker:
            if tracker.run_id is not None:
                study.set_user_attr(TRACKING_RUN, tracker.run_id)
            if not lab.resumed:
                tracker.log_params(_parameters(lab, study))
                tracker.set_tags({"device": str(subject.origin().provenance.get("device", "unknown"))})
            return _search(lab, tracker, study, subject, stop_when)


def _parameters(lab: Lab, study: optuna.Study) -> dict[str, object]:
    """Return the parameters of the tracking run: kernel, GPU, search, and the kernel's own parameters before the search."""
    config, settings = lab.config, lab.config.autotune
    search = {"sampler": type(study.sampler).__name__, "seed": settings.seed, "budget": settings.budget}
    own = {f"kernel.{name}": value for name, value in config.kernel.params.items()}
    return {"kernel": config.kernel.name, "target": config.target.name, **search, **own}


def _tracker(lab: Lab) -> RunTracker:
    """Return a tracker. A new search requires its store; a resumed one continues without, as after a failure of the store."""

    def warn(error: TrackingError) -> None:
        message = f"{error.what} ({error.where}); the search continues without tracking, and keeps its study and files"
        logging.getLogger(__name__).warning(message)

    try:
        return FailsafeTracker(lab.tracker, StoreWatch(warn))
    except TrackingError as error:
        if not lab.resumed:
            raise
        warn(error)
        return NullTracker()


def _search(lab: Lab, tracker: RunTracker, study: optuna.Study, subject: TuningSubject, stop_when: Improbable | None) -> float:
    settings, space = lab.config.autotune, subject.space
    budget, goals = settings.budget, configured_goals(lab.config)
    if budget is not None and budget > len(space):
        lab.console.print(f"[bold]note[/]    the budget of {budget} exceeds the space: all {len(space)} are evaluated")
    with lab.console.status("starting") as status:
        errors = partial(_errors, lab, subject)
        log = TrialLog(
            tracker,
            budget,
            lambda: subject.objective.time_kind,
            status.update,
            errors,
            partial(probability_left, study),
            known=records(study, space),
            goals=goals_of(study),
        )
        tuner = Tuner(
            study,
            space,
            subject.objective,
            budget,
            log.told,
            max_races=settings.max_races if goals is None or goals.is_time else 0,
            exclusive=settings.storage is None,
            band=lambda: decisive_band(errors()),
            stop_when=stop_when,
        )
        try:
            tuner.run()
        finally:
            tuned = tuner.result()
            path = write_result(lab, tracker, tuned, space, subject.origin())
    if tuned.best is None or tuned.best.runtime_ms is None:
        raise beyond_limits(len(tuned.trials), path)
    word = subject.objective.time_kind
    show_result(lab.console, tuned, word, subject.name, errors())
    show_locations(lab, tracker)
    lab.answer(path, runtime_text(tuned.best.runtime_ms * 1e6, word))
    return tuned.best.runtime_ms


def _errors(lab: Lab, subject: TuningSubject) -> TimingErrors | None:
    """Return the error bands of emulated times; None for measured ones. Of a command, the kind is known after its first run."""
    return lab.config.target.timing_errors if subject.objective.time_kind == "emulated" else None
