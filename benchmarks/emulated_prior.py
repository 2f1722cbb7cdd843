"""Searches of measured landscapes with emulated runs as prior: `python -m benchmarks.emulated_prior`.

A convolution (`benchmarks/kernels/convolution`) is emulated for an MI300X at a reduced size, in configurations that the search
chooses. The landscapes are a convolution with the same parameters on two other GPUs, which the emulator does not support. Each is
searched without and with the prior with the same seeds.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import landscapes
from benchmarks.figures import Publisher
from rocm_perf_lab.autotune.ask_tell import search
from rocm_perf_lab.autotune.candidate import KernelBuilder
from rocm_perf_lab.autotune.kernel_objective import KernelObjective
from rocm_perf_lab.autotune.landscape import Landscape, load_landscape
from rocm_perf_lab.autotune.prior import Prior
from rocm_perf_lab.autotune.sampler import RegressionSampler
from rocm_perf_lab.autotune.trials import records
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.replay.project.build import read_description
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocm_perf_lab.autotune.spaces.space import Space

_ROOT = Path(__file__).parents[1]
_KERNEL = Path(__file__).parent / "kernels" / "convolution" / "kernel.yaml"
_DATA = _ROOT / "tests" / "data" / "landscapes"
_LANDSCAPES = (_DATA / "convolution_W6600.json.gz", _DATA / "prior" / "convolution_A100.json.gz")
_SIZE = {"width": 2048, "height": 512}
_TARGET = "mi300x"


def main(arguments: list[str] | None = None) -> None:
    """Emulate, search, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulated_prior", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--emulated", type=int, default=40, help="number of emulated configurations")
    parser.add_argument("--seeds", type=int, default=20)
    publisher = Publisher("emulated_prior", parser, arguments)
    options = publisher.options
    measured = [load_landscape(path) for path in _LANDSCAPES]
    trials = emulated_times(measured[0].space, options.emulated)
    searches: dict[str, Any] = {}
    rows: dict[str, tuple[str, ...]] = {}
    for landscape in measured:
        prior = Prior.from_results(landscape.space, trials, f"the emulator, {_TARGET}")
        without = [_fractions(landscape, seed, None) for seed in range(options.seeds)]
        with_prior = [_fractions(landscape, seed, prior) for seed in range(options.seeds)]
        searches[landscape.name] = {"without": without, "with": with_prior}
        for name, found in (("parameters alone", without), ("emulated prior", with_prior)):
            rows[f"{landscape.name} {name}"] = (landscape.name, name, *_means(found))
        gains = [[own - other for own, other in zip(one, two, strict=True)] for one, two in zip(with_prior, without, strict=True)]
        rows[f"{landscape.name} difference"] = (landscape.name, "difference", *_means(gains))
    title = f"optimum_time / best_time after N evaluations, with a prior of {options.emulated} emulated configurations"
    document = {"size": _SIZE, "target": _TARGET, "emulated": options.emulated, "seeds": options.seeds, "landscapes": searches}
    columns = ("landscape", "search", *map(str, landscapes.BUDGETS))
    publisher.publish(title, columns, rows, document, width=130)


def emulated_times(space: Space, budget: int) -> list[tuple[dict[str, Any], float]]:
    """Search the space on the emulator; return configurations with emulated times in ms, infinite if they failed."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    target, kernel = load_target(_TARGET), read_description(_KERNEL)
    kernel = kernel.model_copy(update={"params": {**kernel.params, **_SIZE}})
    objective = KernelObjective(KernelBuilder(kernel, target, ("hipcc", "clang", "pip")), EmulatorDevice(target=target))
    study = optuna.create_study(sampler=RegressionSampler(space, seed=0))
    search(study, space, objective, budget, told=lambda trial: print(f"emulated {trial.number + 1}", file=sys.stderr) is not None)
    return [(one.parameters, math.inf if one.runtime_ms is None else one.runtime_ms) for one in records(study, space)]


def _fractions(landscape: Landscape, seed: int, prior: Prior | None) -> tuple[float, ...]:
    return landscapes.run(landscape, "regression", seed, prior=prior).fractions


def _means(found: Sequence[Sequence[float]]) -> Iterable[str]:
    for values in zip(*found, strict=True):
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        yield f"{statistics.mean(values):.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
