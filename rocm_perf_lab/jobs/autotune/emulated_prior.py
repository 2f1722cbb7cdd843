"""`autotune.prior=emulated`: cheap emulated runs of the kernel at a reduced size, before the first measurement.

They are a second fidelity of the objective. How far the search relies on them is learned from its measurements, as for every
prior: see :class:`rocm_perf_lab.autotune.prior.Trust`, and for several shapes the model of
:mod:`rocm_perf_lab.autotune.multitask_search`, to which the emulator is a further GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.multitask_search import EarlierTask, MultiTaskSearch
from rocm_perf_lab.autotune.prior import FEWEST, PriorError
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.shapes import SHAPE, WorkloadShape, shape_label
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.jobs.autotune.spaces import shaped
from rocm_perf_lab.jobs.autotune.subject import WorkloadObjective, kernel_objective
from rocm_perf_lab.jobs.autotune.workload_report import results_of
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from rocm_perf_lab.autotune.kernel_objective import KernelObjective
    from rocm_perf_lab.autotune.spaces.shaped_space import ShapedSpace
    from rocm_perf_lab.autotune.spaces.space import Space
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
    params = _sizes(lab.config, space.names)
    known = lab.config.kernel.params
    if all(known[name] == value for name, value in params.items()):
        _refuse_equal_size(lab)
    smaller = {name: value for name, value in params.items() if name in space.fixed}
    space = replace(space, fixed={**space.fixed, **smaller})
    sampler = RegressionSampler(space, seed=lab.config.autotune.seed)
    return _emulated(lab, space, _objective(lab, space, params), sampler)


def emulated_tasks(lab: Lab, space: ShapedSpace) -> tuple[EarlierTask, ...]:
    """Search the shapes of a workload on the emulator, with the sizes of `autotune.emulated.params` in place of theirs.

    Shapes that are equal then are emulated once.

    Raises:
        LabError: As :func:`emulated_trials`, or the space is empty for a reduced shape.
    """
    config, params = lab.config, _sizes(lab.config, space.tuned)
    names = space.shapes[0].values.keys()
    smaller = {name: value for name, value in params.items() if name in names}
    others = {name: value for name, value in params.items() if name not in names}
    sizes = {shape_label(values): values for values in ({**shape.values, **smaller} for shape in space.shapes)}
    if sizes.keys() <= set(space.values[SHAPE]) and all(config.kernel.params[name] == value for name, value in others.items()):
        _refuse_equal_size(lab)
    joint, _ = shaped(config, [WorkloadShape(values) for values in sizes.values()], where=_WHERE)
    joint = replace(joint, fixed={**joint.fixed, **{name: value for name, value in others.items() if name in joint.fixed}})
    gpu = config.target.name if _own(lab) is not None else f"emulated {config.target.name}"
    strategy = MultiTaskSearch(joint, seed=config.autotune.seed, gpu=gpu)
    sampler = RegressionSampler(joint, seed=config.autotune.seed, strategy=strategy)
    trials = _emulated(lab, joint, WorkloadObjective(_objective(lab, joint, others)), sampler)
    return tuple(EarlierTask(values, gpu, tuple(results_of(trials, label))) for label, values in sizes.items())


def reduced_size(config: LabConfig) -> str:
    """Return the origin of the emulated times for people: `the emulator at m=256, n=256`."""
    params = config.autotune.emulated.params or {}
    return "the emulator" + (f" at {', '.join(f'{name}={value}' for name, value in params.items())}" if params else "")


def note_if_unused(lab: Lab) -> None:
    """Print a note if sizes of emulated runs are configured, and `autotune.prior` does not ask for these runs."""
    settings = lab.config.autotune
    if settings.emulated.params and settings.prior != EMULATED:
        lab.console.print("[bold]note[/]    autotune.emulated has no effect without autotune.prior=emulated", soft_wrap=True)


def _emulated(
    lab: Lab, space: Space, objective: KernelObjective | WorkloadObjective, sampler: RegressionSampler
) -> list[TrialRecord]:
    """Search on the emulator, and return the trials.

    Raises:
        PriorError: Too few configurations ran.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=sampler, study_name=EMULATED)
    budget = min(lab.config.autotune.emulated.budget, len(space))
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


def _sizes(config: LabConfig, searched: tuple[str, ...]) -> dict[str, Any]:
    """Return the checked sizes of `autotune.emulated.params`; `searched` are the parameters of the space."""
    target, params, known = config.target, config.autotune.emulated.params or {}, config.kernel.params
    if target.timing is None:
        raise PriorError(NO_EMULATED_TIME, where=f"target={target.name}", hint="remove autotune.prior=emulated")
    if config.job.arguments.get("command"):
        raise PriorError("a command has no kernel to emulate", where="autotune.prior=emulated", hint="remove it")
    if unknown := [name for name in params if name not in known]:
        hint = f"parameters of the kernel (kernel.params): {', '.join(known) or 'none'}"
        raise PriorError(f"kernel {config.kernel.name} has no parameter {unknown[0]!r}", where=_WHERE, hint=hint)
    if varied := [name for name in params if name in searched]:
        raise PriorError(f"the space varies {varied[0]!r}", where=_WHERE, hint="give sizes of the problem only")
    return dict(params)


def _own(lab: Lab) -> EmulatorDevice | None:
    """Return the device of the search if that is the emulator."""
    return lab.device if isinstance(lab.device, EmulatorDevice) else None


def _refuse_equal_size(lab: Lab) -> None:
    """Raise an error if the search itself is emulated, so that its prior would have the same times."""
    if _own(lab) is not None:
        raise PriorError(
            "the search itself is emulated at this size",
            where="autotune.prior=emulated",
            hint=f"give a smaller size in {_WHERE}, or measure on a GPU (device=rocm)",
        )


def _objective(lab: Lab, space: Space, params: dict[str, Any]) -> KernelObjective:
    """Return the objective of the kernel with other parameters, on the emulator."""
    kernel = lab.config.kernel
    smaller = kernel.model_copy(update={"params": {**kernel.params, **params}})
    return kernel_objective(lab, space, smaller, _own(lab) or EmulatorDevice(target=lab.config.target))
