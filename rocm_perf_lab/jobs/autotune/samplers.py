"""The sampler and the stopping rule that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.goals import GoalError
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.strategy import Strategy
from rocm_perf_lab.autotune.tuner import Improbable
from rocm_perf_lab.autotune.wrapped_sampler import WrappedSampler
from rocm_perf_lab.core.components import accepted_arguments, build, resolve
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.autotune.goals import configured_goals

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from rocm_perf_lab.autotune.prior import Prior
    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Space
    from rocm_perf_lab.config.lab import LabConfig


def configured_sampler(
    config: LabConfig,
    space: Space,
    *,
    seed: int | None = None,
    prior: Prior | None = None,
    features: Column | None = None,
    slack: float = 1.0,
) -> BaseSampler:
    """Return the sampler of a search.

    `autotune.sampler` names an Optuna sampler or a :class:`.strategy.Strategy`. Its constructor receives `seed`, `space` and
    `search_space` (parameter -> list of values) if it accepts them.

    Args:
        config: Configuration that names the sampler.
        space: The search space.
        seed: In place of the configured seed, for a process that joins a study and must not repeat the draws of the first one.
            The default sampler sees the trials of the others and keeps the configured seed.
        prior, features, slack: For the default sampler; see :class:`.RegressionSampler`.

    Raises:
        GoalError: An Optuna sampler, which sees times alone, is combined with objectives or limits.
        LabError: The sampler cannot be created.
    """
    from optuna.samplers import BaseSampler

    settings, goals = config.autotune, configured_goals(config, space)
    if settings.sampler is None:
        model, first = settings.model, settings.seed
        return RegressionSampler(space, seed=first, model=model, prior=prior, features=features, slack=slack, goals=goals)
    chosen = settings.seed if seed is None else seed
    context: dict[str, Any] = {"seed": chosen}
    accepted = accepted_arguments(resolve(settings.sampler, where="autotune.sampler"))
    if "search_space" in accepted:
        context["search_space"] = {name: list(values) for name, values in space.values.items()}
    if "space" in accepted:
        context["space"] = space
    made = build(settings.sampler, where="autotune.sampler", **context)
    if isinstance(made, BaseSampler):
        if goals is not None:
            raise GoalError(
                "a sampler of Optuna optimises the time alone",
                where="autotune.sampler",
                hint="remove it, or objectives and limits",
            )
        return WrappedSampler(space, made, seed=chosen)
    if not isinstance(made, Strategy):
        raise LabError(
            f"{settings.sampler.target} is neither a sampler of Optuna nor a search strategy",
            where="autotune.sampler",
            hint="for example 'autotune.sampler={_target_: optuna.samplers.TPESampler}'",
        )
    return RegressionSampler(space, seed=chosen, strategy=made, goals=goals)


def stopping_rule(config: LabConfig, sampler: BaseSampler) -> Improbable | None:
    """Return the configured condition that ends a search early, or None.

    Raises:
        LabError: The sampler does not estimate what is left.
    """
    rule = config.autotune.stop_when
    if rule is None:
        return None
    if not isinstance(sampler, RegressionSampler) or not sampler.knows_what_is_left:
        raise LabError(
            "this search does not estimate the probability that something better is left",
            where="autotune.stop_when",
            hint="use the default sampler and model, and a space of at most two million combinations; or remove stop_when",
        )
    return Improbable(rule.better_than, rule.probability)
