"""Entry of all commands: arguments -> Hydra -> validated configuration -> job.

Commands of `rocm-perf` and of `python -m rocm_perf_lab` share these functions, so that both see the same configuration.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab import __version__
from rocm_perf_lab.cli.exit_codes import exit_code_of
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omegaconf import DictConfig

    from rocm_perf_lab.cli.profile_arguments import ProfileArguments
    from rocm_perf_lab.jobs.lab import Lab

_MULTIRUN = ("--multirun", "-m")


def run_lab(arguments: Sequence[str]) -> int:
    """Compose the configuration, run its job, print errors, and return the exit code.

    Args:
        arguments: Hydra overrides and flags; `--debug` prints the traceback of an error, `--version` the version.
    """
    if "--version" in arguments:
        print(f"rocm-perf-lab {__version__}")
        return 0
    others = [argument for argument in arguments if argument != "--debug"]
    return exit_code_of(lambda: run_hydra(others), debug="--debug" in arguments)


def resume_run(directory: str, *, display: str | None) -> None:
    """Resume an interrupted optimization with its stored configuration.

    Args:
        directory: Directory of the run.
        display: Output format; None selects the format stored with the run.

    Raises:
        LabError: The directory holds no run, or the run is complete.
    """
    import json

    from rocm_perf_lab.config.errors import Origins
    from rocm_perf_lab.config.lab import parse_config
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.resume import JOURNAL, Journal

    path = Path(directory)
    try:
        plain = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(
            "there is no run to resume", where=str(path / "config.json"), hint="pass the directory of the interrupted run"
        ) from error
    if (path / "optimize.json").exists():
        raise LabError("this run is complete and cannot be resumed", where=str(path), hint="start a new run")
    if display is not None:
        plain["display"] = display
    config = parse_config(plain, Origins(files={}, overrides=()))
    header = Journal(path / JOURNAL).header
    run_id = header.tracking_run if header is not None else None
    Lab.open(config, resolved=plain, output_dir=path, resumed=True, tracking_run=run_id).run()


def run_hydra(arguments: Sequence[str]) -> None:
    """Compose the configuration with Hydra and run its job.

    Raises:
        LabError: The configuration is invalid, or the job failed.
    """
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf.errors import OmegaConfBaseException

    from rocm_perf_lab.config.composition import hydra_errors_explained
    from rocm_perf_lab.core.resources import resource_dir

    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.append(str(Path.cwd()))  # a `_target_` may name a module in the working directory, as with python -m
    # Without this Hydra prints its own report and exits with 1.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # Flags go first: argparse rejects overrides on both sides of a flag.
    flags = [argument for argument in arguments if argument in _MULTIRUN]
    before, sys.argv = sys.argv, ["rocm_perf_lab", *flags, *(a for a in arguments if a not in _MULTIRUN)]
    failures: list[Exception] = []

    def task(composed: DictConfig) -> float | None:
        try:
            with _writing(HydraConfig.get().runtime.output_dir):
                return _run_job(composed)
        except (LabError, OmegaConfBaseException) as error:
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                raise  # The sweeper, which may be in another process, detects failed jobs by this exception.
            failures.append(error)  # Raised below, because Hydra would print an additional line.
            return None

    try:
        with hydra_errors_explained(arguments), _writing():
            hydra.main(version_base="1.3", config_path=str(resource_dir("conf")), config_name="config")(task)()
            if failures:
                raise failures[0]
    finally:
        sys.argv = before


def run_application(arguments: ProfileArguments) -> None:
    """Profile a command line.

    Raises:
        LabError: The configuration is invalid, or the job failed.
    """
    open_application(arguments, arguments.command).run()


def open_application(arguments: ProfileArguments, command: Sequence[str]) -> Lab:
    """Open the run of an application. Its configuration is composed like that of :func:`run_hydra`, or read from the cache.

    Args:
        arguments: Settings of the run.
        command: Program and arguments.

    Raises:
        LabError: The configuration is invalid, or the directory of the run cannot be written.
    """
    from rocm_perf_lab.config.composition import compose_overrides
    from rocm_perf_lab.config.composition_cache import Composition
    from rocm_perf_lab.config.run import RunConfig, parse_run_config
    from rocm_perf_lab.jobs.lab import Lab

    composition = Composition(arguments.overrides())
    plain = composition.recall()
    origins = None
    if plain is None:
        plain, origins = compose_overrides(arguments.overrides())
    display = arguments.display or plain["display"]
    resolved = {**plain, "job": {**plain["job"], "command": list(command)}, "display": display}
    if origins is None:
        settings = RunConfig.model_validate({name: resolved[name] for name in RunConfig.model_fields})
    else:
        settings = parse_run_config(resolved, origins)
        composition.remember(plain)
    started = f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}"
    directory = arguments.output or f"outputs/{started}-profile-{Path(command[0]).name}"
    with _writing(directory):
        lab = Lab.open(settings, resolved=resolved, output_dir=Path(directory).absolute())
    # Skips the garbage collection at exit. Not used for jobs that load Triton: its bindings would report uncollected objects.
    atexit.register(gc.freeze)
    return lab


@contextmanager
def _writing(directory: str = "outputs") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        from hydra.errors import HydraException

        if isinstance(error, HydraException | BrokenPipeError):
            raise  # Hydra raises an OSError for an unknown option
        raise LabError(
            f"cannot write the run's directory: {error.strerror or error}",
            where=str(error.filename or Path.cwd() / directory),
            hint="choose a writable directory: --output DIR, or hydra.run.dir=DIR",
        ) from error


def _run_job(composed: DictConfig) -> float | None:
    from hydra.core.hydra_config import HydraConfig

    from rocm_perf_lab.config.composition import parse_composed
    from rocm_perf_lab.jobs.lab import Lab

    config, plain = parse_composed(composed)
    return Lab.open(config, resolved=plain, output_dir=Path(HydraConfig.get().runtime.output_dir)).run()
