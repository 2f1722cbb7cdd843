"""`job=autotune`: search a space of configurations for the fastest one that computes the right result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.candidate import KernelBuilder
from rocm_perf_lab.autotune.kernel_objective import KernelObjective
from rocm_perf_lab.autotune.repeats import Gate
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.trial_cache import TrialCache
from rocm_perf_lab.autotune.tuner import Tuner
from rocm_perf_lab.components import build
from rocm_perf_lab.jobs.autotune_records import TrialLog, write_result
from rocm_perf_lab.jobs.autotune_show import show_result
from rocm_perf_lab.jobs.show import runtime_text, show_where
from rocm_perf_lab.jobs.spaces import configured_space
from rocm_perf_lab.resources import cache_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

    import optuna
    from optuna.samplers import BaseSampler

    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.tracking.store import RunTracker

STUDY_FILE = "study.db"
_STUDY = "autotune"


class AutotuneJob:
    """Searches the configured space on the configured kernel; everything is kept as it goes."""

    def run(self, lab: Lab) -> None:
        """Raises LabError where the space is contradictory, the kernel does not have its parameters, or nothing runs."""
        space = configured_space(lab.config)
        objective = kernel_objective(lab)
        objective.builder.check(space)
        study = open_study(lab, space)
        lab.announce_device()
        with lab.tracker as tracker:
            _search(lab, tracker, study, space, objective)


def _search(lab: Lab, tracker: RunTracker, study: optuna.Study, space: Space, objective: KernelObjective) -> None:
    settings = lab.config.autotune
    word = objective.time_kind
    with lab.console.status("starting") as status:
        log = TrialLog(tracker, space, settings.budget, word, status.update)
        tuner = Tuner(study, space, objective, settings.budget, log.told)
        try:
            tuner.run()
        finally:
            tuned = tuner.result()
            path = write_result(lab, tracker, tuned, lab.device.identity)
    assert tuned.best is not None and tuned.best.runtime_ms is not None
    show_result(lab.console, tuned, space, word, lab.config.kernel.name)
    show_where(lab)
    lab.answer(path, runtime_text(tuned.best.runtime_ms * 1e6, word))


def kernel_objective(lab: Lab) -> KernelObjective:
    """The configured kernel on the configured device."""
    config = lab.config
    settings = config.autotune
    builder = KernelBuilder(
        config.kernel, config.target, config.toolchain.compilers, config.toolchain.optimisation, settings.max_spills
    )
    return KernelObjective(
        builder,
        lab.device,
        Gate(config.passes.runs, settings.max_cv, settings.max_rounds),
        TrialCache(cache_dir() / "trials") if settings.cache else None,
        device_circumstances(lab),
    )


def device_circumstances(lab: Lab) -> Mapping[str, Any]:
    """What a device's results depend on beside its name and versions."""
    row = lab.config.device
    found: dict[str, Any] = {"device": row.target, "settings": row.arguments}
    if lab.device.identity.emulated:
        from rocm_perf_lab.emulator.fingerprint import emulator_fingerprint

        found["emulator"] = emulator_fingerprint()
    return found


def open_study(lab: Lab, space: Space) -> optuna.Study:
    """The study of the run, new or as an earlier process left it; it is written as the search goes."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings = lab.config.autotune
    storage = settings.storage or f"sqlite:///{(lab.output_dir / STUDY_FILE).absolute()}"
    return optuna.create_study(
        storage=storage, study_name=settings.study or _STUDY, sampler=make_sampler(lab, space), load_if_exists=True
    )


def make_sampler(lab: Lab, space: Space) -> BaseSampler:
    """The configured sampler: the lab's own, or any other of Optuna's."""
    settings = lab.config.autotune
    if settings.sampler is not None:
        sampler: BaseSampler = build(settings.sampler, where="autotune.sampler", seed=settings.seed, space=space)
        return sampler
    return RegressionSampler(space, seed=settings.seed, model=settings.model)
