"""`autotune.prior=emulated`: cheap emulated runs of the kernel at a reduced size, before the first measurement.

They are a second fidelity of the objective. How far the search relies on them is learned from its measurements, as for every
prior: see :class:`rocm_perf_lab.autotune.prior.Trust`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.candidate import KernelBuilder
from rocm_perf_lab.autotune.cutoff import Cutoff
from rocm_perf_lab.autotune.kernel_objective import KernelObjective
from rocm_perf_lab.autotune.prior import FEWEST, PriorError
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.trial_cache import TrialCache
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.emulator.fingerprint import emulator_fingerprint
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.autotune.trials import TrialRecord
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.jobs.lab import Lab

EMULATED = "emulated"
"""Value of `autotune.prior`."""
_WHERE = "autotune.emulated.params"


def emulated_trials(lab: Lab, space: Space) -> list[TrialRecord]:
    """Search the space on the emulator, with the kernel parameters of `autotune.emulated.params`, and return the trials.

    Raises:
        PriorError: The emulator has no times for the target, the parameters are not those of the kernel or are in the space, the
            search itself is emulated at the same size, or too few configurations ran.
    """
    import optuna

    settings = lab.config.autotune
    smaller = {name: value for name, value in (settings.emulated.params or {}).items() if name in space.fixed}
    space = replace(space, fixed={**space.fixed, **smaller})
    objective = _objective(lab, space)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=RegressionSampler(space, seed=settings.seed), study_name=EMULATED)
    budget = min(settings.emulated.budget, len(space))
    with lab.console.status("emulating") as status:

        def told(trial: FrozenTrial) -> bool:
            status.update(f"prior: emulated {trial.number + 1:,} of {budget:,}")
            return False

        search(study, space, objective, budget, told=told)
    trials = records(study, space)
    failures = [trial for trial in trials if trial.runtime_ms is None]
    if (ran := len(trials) - len(failures)) < FEWEST:
        reason = f"; trial {failures[0].number}: {failures[0].reason}" if failures else ""
        raise PriorError(
            f"{ran} of {len(trials)} emulated configurations ran, {FEWEST} are needed{reason}",
            where="autotune.prior=emulated",
            hint=f"raise autotune.emulated.budget, choose other sizes in {_WHERE}, or remove the prior",
        )
    return trials


def reduced_size(config: LabConfig) -> str:
    """Return the origin of the emulated times for people: `the emulator at m=256, n=256`."""
    params = config.autotune.emulated.params or {}
    return "the emulator" + (f" at {', '.join(f'{name}={value}' for name, value in params.items())}" if params else "")


def _objective(lab: Lab, space: Space) -> KernelObjective:
    config, settings, target = lab.config, lab.config.autotune, lab.config.target
    params = settings.emulated.params or {}
    known = config.kernel.params
    if target.timing is None:
        raise PriorError(NO_EMULATED_TIME, where=f"target={target.name}", hint="remove autotune.prior=emulated")
    if config.job.arguments.get("command"):
        raise PriorError("a command has no kernel to emulate", where="autotune.prior=emulated", hint="remove it")
    if unknown := [name for name in params if name not in known]:
        hint = f"parameters of the kernel (kernel.params): {', '.join(known) or 'none'}"
        raise PriorError(f"kernel {config.kernel.name} has no parameter {unknown[0]!r}", where=_WHERE, hint=hint)
    if searched := [name for name in params if name in space.names]:
        raise PriorError(f"the space varies {searched[0]!r}", where=_WHERE, hint="give sizes of the problem only")
    device = lab.device if isinstance(lab.device, EmulatorDevice) else None
    if device is not None and all(known[name] == value for name, value in params.items()):
        raise PriorError(
            "the search itself is emulated at this size",
            where="autotune.prior=emulated",
            hint=f"give a smaller size in {_WHERE}, or measure on a GPU (device=rocm)",
        )
    builder = KernelBuilder(
        config.kernel.model_copy(update={"params": {**known, **params}}),
        target,
        config.toolchain.compilers,
        config.toolchain.optimisation,
        settings.max_spills,
    )
    builder.check(space)
    own = {} if device is None else config.device.arguments
    return KernelObjective(
        builder,
        device or EmulatorDevice(target=target),
        cache=TrialCache(cache_dir() / "trials") if settings.cache else None,
        circumstances={"emulator": emulator_fingerprint(), "settings": own},
        cutoff=Cutoff(settings.cutoff, first_s=settings.first_cutoff_s),
    )
