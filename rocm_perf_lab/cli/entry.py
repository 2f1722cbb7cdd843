"""The way into the lab: command-line words -> Hydra -> validated config -> job; errors become exit codes.

Every command of the lab goes through :func:`run_lab`, so that a job started by `rocm-perf` and one started by
`python -m rocm_perf_lab` see the same configuration.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.config.composition import compose_overrides, hydra_errors_explained, parse_composed
from rocm_perf_lab.config.errors import Origins
from rocm_perf_lab.core.errors import EXIT_BAD_INPUT, LabError
from rocm_perf_lab.core.interrupts import Terminated, termination_as_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omegaconf import DictConfig

    from rocm_perf_lab.cli.arguments import ProfileWords

EXIT_DEFECT = 1
_MULTIRUN = ("--multirun", "-m")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
EXIT_INTERRUPTED = 130


def run_lab(words: Sequence[str]) -> int:
    """Compose and run; return the exit code.

    Args:
        words: Hydra overrides and flags, and `--debug`, which lets errors through with their traceback.
    """
    arguments = [word for word in words if word != "--debug"]
    return exit_code_of(lambda: run_hydra(arguments), debug="--debug" in words)


def exit_code_of(action: Callable[[], object], *, debug: bool = False) -> int:
    """Do it; errors of the user are printed in our form and become exit codes.

    Args:
        action: What to do.
        debug: Let errors through with their traceback.
    """
    try:
        with termination_as_interrupt():
            action()
    except LabError as error:
        if debug:
            raise
        _print_error(error)
        return error.exit_code
    except OSError as error:
        if debug or error.errno not in _NO_ROOM:
            raise
        where = str(error.filename) if error.filename else None
        _print_error(
            LabError(f"cannot write: {error.strerror}", where=where, hint="free some space, or choose another directory")
        )
        return EXIT_BAD_INPUT
    except Terminated as stop:
        print(f"ended by signal {stop.number}: what was finished is kept", file=sys.stderr)
        return stop.exit_code
    except KeyboardInterrupt:
        print("interrupted: what was finished is kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_BAD_INPUT * bool(stop.code)
    return 0


def resume_run(directory: str, *, display: str | None) -> None:
    """Go on with an interrupted run, with the configuration that it was begun with.

    Args:
        directory: Of the run.
        display: What is printed, where it is to be something else than then.

    Raises:
        LabError: There is no run, or none that can be taken up again.
    """
    import json

    from rocm_perf_lab.config.lab import parse_config
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.resume import JOURNAL, Journal

    path = Path(directory)
    try:
        plain = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(
            "there is no run to go on with", where=str(path / "config.json"), hint="give the directory of the interrupted run"
        ) from error
    if (path / "optimize.json").exists():
        raise LabError("this run ended by itself: there is nothing to go on with", where=str(path), hint="start a new run")
    if display is not None:
        plain["display"] = display
    config = parse_config(plain, Origins(files={}, overrides=()))
    beginning = Journal(path / JOURNAL).beginning
    run_id = beginning.tracking_run if beginning is not None else None
    Lab.open(config, resolved=plain, output_dir=path, resumed=True, tracking_run=run_id).run()


def run_hydra(arguments: Sequence[str]) -> None:
    """Compose and run; errors are raised, not printed."""
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf.errors import OmegaConfBaseException

    from rocm_perf_lab.core.resources import resource_dir

    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.append(str(Path.cwd()))  # a `_target_` may be a module of the user's own, as with python -m
    # Hydra's own report would print and exit with 1; with this it raises, and the error is told in our words.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    # argparse takes overrides in one piece only: a flag between them would make those behind it unknown.
    flags = [word for word in arguments if word in _MULTIRUN]
    before, sys.argv = sys.argv, ["rocm_perf_lab", *flags, *(word for word in arguments if word not in _MULTIRUN)]
    refused: list[Exception] = []

    def task(composed: DictConfig) -> float | None:
        try:
            return _run_job(composed)
        except (LabError, OmegaConfBaseException) as error:
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                raise  # the sweeper, maybe in another process, has to know that this job failed
            refused.append(error)  # raised below: Hydra would print a line of its own before ours
            return None

    try:
        with hydra_errors_explained(arguments), _writing():
            hydra.main(version_base="1.3", config_path=str(resource_dir("conf")), config_name="config")(task)()
            if refused:
                raise refused[0]
    finally:
        sys.argv = before


def run_application(words: ProfileWords) -> None:
    """Profile a command line. Composed as by :func:`run_hydra`, or remembered from the time before; errors are raised."""
    from rocm_perf_lab.config.composition_cache import Composition
    from rocm_perf_lab.config.run import RunConfig, parse_run_config
    from rocm_perf_lab.jobs.lab import Lab

    composition = Composition(words.overrides())
    plain = composition.recall()
    origins = None
    if plain is None:
        plain, origins = compose_overrides(words.overrides())
    display = words.display or plain["display"]
    resolved = {**plain, "job": {**plain["job"], "command": list(words.words)}, "display": display}
    if origins is None:
        settings = RunConfig.model_validate({name: resolved[name] for name in RunConfig.model_fields})
    else:
        settings = parse_run_config(resolved, origins)
        composition.remember(plain)
    started = f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}"
    directory = words.output or f"outputs/{started}-profile-{Path(words.words[0]).name}"
    with _writing(directory):
        lab = Lab.open(settings, resolved=resolved, output_dir=Path(directory).absolute())
    # Python ends by looking through all that was imported for cycles, several times. Only here: jobs that load Triton would
    # end with a report of its bindings on what was not collected.
    atexit.register(gc.freeze)
    lab.run()


@contextmanager
def _writing(directory: str = "outputs") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        from hydra.errors import HydraException

        if isinstance(error, HydraException):
            raise  # an option that does not exist is an OSError too, to Hydra
        raise LabError(
            f"cannot write the run's directory: {error.strerror or error}",
            where=str(error.filename or Path.cwd() / directory),
            hint="run in a directory that can be written, or name one: --output DIR, or hydra.run.dir=DIR",
        ) from error


def _run_job(composed: DictConfig) -> float | None:
    from hydra.core.hydra_config import HydraConfig

    from rocm_perf_lab.jobs.lab import Lab

    config, plain = parse_composed(composed)
    return Lab.open(config, resolved=plain, output_dir=Path(HydraConfig.get().runtime.output_dir)).run()


def _print_error(error: LabError) -> None:
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    first, *rest = error.lines()
    console.print(f"[bold red]error:[/] {_escape(first)}", soft_wrap=True)
    for line in rest:
        console.print(_escape(line), soft_wrap=True)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
