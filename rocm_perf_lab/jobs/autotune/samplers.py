"""Which sampler a configuration means: the lab's own, or any of Optuna's for categorical parameters, kept to the space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.claims import ClaimingSampler
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.core.components import accepted_arguments, build, resolve

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from rocm_perf_lab.autotune.formula import Column
    from rocm_perf_lab.autotune.prior import Prior
    from rocm_perf_lab.autotune.space import Space
    from rocm_perf_lab.config.lab import LabConfig


def configured_sampler(
    config: LabConfig, space: Space, *, seed: int | None = None, prior: Prior | None = None, features: Column | None = None
) -> BaseSampler:
    """The sampler of a search.

    Args:
        config: Says which.
        space: What is searched.
        seed: In place of the configured one: who joins a study must not draw again what its starter drew. The lab's own
            sampler sees what others have taken, and keeps the configured one.
        prior, features: For the lab's own sampler.
    """
    settings = config.autotune
    if settings.sampler is None:
        return RegressionSampler(space, seed=settings.seed, model=settings.model, prior=prior, features=features)
    chosen = settings.seed if seed is None else seed
    context: dict[str, Any] = {"seed": chosen}
    if "search_space" in accepted_arguments(resolve(settings.sampler, where="autotune.sampler")):
        context["search_space"] = {name: list(values) for name, values in space.values.items()}  # of the grid sampler
    inner: BaseSampler = build(settings.sampler, where="autotune.sampler", **context)
    return ClaimingSampler(space, inner, seed=chosen)
