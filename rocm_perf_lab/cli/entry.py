"""The way into the lab: command-line words -> Hydra -> validated config -> job; errors become exit codes.

Every command of the lab goes through :func:`run_lab`, so that a job started by `rocm-perf` and one started by
`python -m rocm_perf_lab` see the same configuration.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import sys
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.config.errors import ConfigError, Origins, nearest
from rocm_perf_lab.core.errors import EXIT_BAD_INPUT, LabError
from rocm_perf_lab.core.interrupts import Terminated, termination_as_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omegaconf import DictConfig
    from yaml import MarkedYAMLError

    from rocm_perf_lab.cli.arguments import ProfileWords
    from rocm_perf_lab.config.lab import LabConfig

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
        _print_error(LabError(f"cannot write: {error.strerror}", where=where, remedy="free some space, or choose another folder"))
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


def resume_run(folder: str, *, display: str | None) -> None:
    """Go on with an interrupted run, with the configuration that it was begun with.

    Args:
        folder: Of the run.
        display: What is printed, where it is to be something else than then.

    Raises:
        LabError: There is no run, or none that can be taken up again.
    """
    import json

    from rocm_perf_lab.config.lab import parse_config
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.resume import JOURNAL, Journal

    path = Path(folder)
    try:
        plain = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LabError(
            "there is no run to go on with", where=str(path / "config.json"), remedy="give the folder of the interrupted run"
        ) from error
    if (path / "optimize.json").exists():
        raise LabError("this run ended by itself: there is nothing to go on with", where=str(path), remedy="start a new run")
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
        with _told(arguments), _writing():
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
        plain, origins = _compose(words.overrides())
    display = words.display or plain["display"]
    resolved = {**plain, "job": {**plain["job"], "command": list(words.words)}, "display": display}
    if origins is None:
        settings = RunConfig.model_validate({name: resolved[name] for name in RunConfig.model_fields})
    else:
        settings = parse_run_config(resolved, origins)
        composition.remember(plain)
    started = f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}"
    folder = words.output or f"outputs/{started}-profile-{Path(words.words[0]).name}"
    with _writing(folder):
        lab = Lab.open(settings, resolved=resolved, output_dir=Path(folder).absolute())
    # Python ends by looking through all that was imported for cycles, several times. Only here: jobs that load Triton would
    # end with a report of its bindings on what was not collected.
    atexit.register(gc.freeze)
    lab.run()


def _compose(overrides: Sequence[str]) -> tuple[dict[str, Any], Origins]:
    """The plain, resolved configuration of some overrides, and where its values come from."""
    from hydra import compose, initialize_config_dir
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf, open_dict

    from rocm_perf_lab.core.resources import resource_dir

    folder = str(resource_dir("conf").resolve())
    with _told(overrides), initialize_config_dir(config_dir=folder, version_base="1.3"):
        composed = compose(config_name="config", overrides=list(overrides), return_hydra_config=True)
        HydraConfig.instance().set_config(composed)
        origins = _origins(HydraConfig.get())
        with open_dict(composed):
            del composed["hydra"]
        plain: Any = OmegaConf.to_container(composed, resolve=True)
    return plain, origins


@contextmanager
def _told(arguments: Sequence[str]) -> Iterator[None]:
    """Errors of Hydra, OmegaConf and YAML in the form of every other error of the lab."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import MarkedYAMLError

    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise _explain(error, arguments) from error
    except MarkedYAMLError as error:
        raise _explain_yaml(error) from error
    except ValueError as error:
        option = re.match(r"Invalid defaults list in '([^']+)'", str(error))
        if option is None:
            raise
        raise ConfigError(
            "`defaults` is Hydra's own key in an option of a group, and has to be a list there",
            where=f"the option {option[1]}",
            remedy="in a space write `first:`, or name the file: autotune.space=FILE",
        ) from error


@contextmanager
def _writing(folder: str = "outputs") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        from hydra.errors import HydraException

        if isinstance(error, HydraException):
            raise  # an option that does not exist is an OSError too, to Hydra
        raise LabError(
            f"cannot write the run's folder: {error.strerror or error}",
            where=str(error.filename or Path.cwd() / folder),
            remedy="run in a folder that can be written, or name one: --output DIR, or hydra.run.dir=DIR",
        ) from error


def _run_job(composed: DictConfig) -> float | None:
    from hydra.core.hydra_config import HydraConfig

    from rocm_perf_lab.jobs.lab import Lab

    config, plain = parse_composed(composed)
    return Lab.open(config, resolved=plain, output_dir=Path(HydraConfig.get().runtime.output_dir)).run()


def parse_composed(composed: DictConfig) -> tuple[LabConfig, dict[str, Any]]:
    """The validated configuration, and the same as plain data. Hydra's own part is left out; its state has to be set."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from rocm_perf_lab.config.lab import parse_config

    lab = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    plain: Any = OmegaConf.to_container(lab, resolve=True)
    return parse_config(plain, _origins(HydraConfig.get())), plain


def _origins(runtime: Any) -> Origins:
    """The files behind each group choice, most specific first: user's folders, experiment, group option."""
    choices = {str(group): str(option) for group, option in runtime.runtime.choices.items() if option is not None}
    folders = [Path(s.path) for s in runtime.runtime.config_sources if s.schema in ("file", "experiments") and s.path]
    experiment = [f / "experiment" / f"{choices['experiment']}.yaml" for f in folders] if "experiment" in choices else []
    files: dict[str, tuple[Path, ...]] = {}
    for group, option in choices.items():
        candidates = [folder / group / f"{option}.yaml" for folder in folders]
        candidates += [folder / option / f"{group}.yaml" for folder in folders]
        files[group] = tuple(path for path in [*experiment, *candidates] if path.is_file())
    return Origins(files=files, overrides=tuple(runtime.overrides.task))


def _explain(error: Exception, arguments: Sequence[str]) -> ConfigError:
    """Hydra's and OmegaConf's composition errors, in the form of every other error of the lab."""
    from hydra.errors import OverrideParseException

    text = str(error).strip()
    cause = str(error.__cause__ or "")
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        key = unknown[1]
        guilty = next((word for word in arguments if word.partition("=")[0].strip() == key), key)
        return ConfigError(f"unknown key {key!r}", where=f"the override {guilty!r}", remedy=_nearest_key(key, arguments))
    if isinstance(error, OverrideParseException):
        return ConfigError(
            f"not an override: {error.message.splitlines()[0]}",
            where=f"the word {error.override!r}",
            remedy="write key=value; quote values with brackets, commas or spaces: 'key=\"a, b\"'",
        )
    option = re.search(r"Could not find '([^']+)'", text) or re.search(r"In '[^']*': Could not find '([^']+)'", text)
    if option:
        available = re.findall(r"^\t(\S+)", text.partition("Config search path")[0], flags=re.MULTILINE)
        group, _, name = option[1].rpartition("/")
        import difflib

        near = difflib.get_close_matches(name, available, n=1, cutoff=0.4)
        hint = f"did you mean {group}={near[0]}? " if near else ""
        hint += "joblib, submitit and ray come with pip install 'rocm-perf-lab[cluster]'; " if group == "hydra/launcher" else ""
        return ConfigError(
            f"there is no {group or 'option'} named {name!r}",
            where=f"the override {group}={name}" if group else option[1],
            remedy=f"{hint}available: {', '.join(available) or 'see --help'}",
        )
    return ConfigError(
        text.splitlines()[0] if text else type(error).__name__,
        where=cause.splitlines()[0] if cause else None,
        remedy="see python -m rocm_perf_lab --help",
    )


def _explain_yaml(error: MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    return ConfigError(
        f"this YAML cannot be read: {error.problem or error.context}",
        where=f"{mark.name}:{mark.line + 1}:{mark.column + 1}" if mark is not None else None,
        remedy="look for an open bracket or quote, or wrong indentation, there or on the line before",
    )


def _nearest_key(path: str, arguments: Sequence[str]) -> str:
    """The nearest key to a mistyped override, among the keys of the configuration composed without it."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from rocm_perf_lab.config.key_paths import valid_keys
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.core.resources import resource_dir

    others = [word for word in arguments if "=" in word and word.partition("=")[0].strip() != path]
    try:
        with initialize_config_dir(config_dir=str(resource_dir("conf").resolve()), version_base="1.3"):
            composed = compose(config_name="config", overrides=others)
    except (HydraException, OmegaConfBaseException):
        return "see --cfg job for the composed configuration; a new key needs a leading +"
    parts = path.split(".")
    if parts[-1] in valid_keys(LabConfig, parts[:-1]):
        return f"{path} is not set in this configuration; to add it, write +{path}=..."
    for depth, part in enumerate(parts):
        node = OmegaConf.select(composed, ".".join(parts[:depth])) if depth else composed
        if not isinstance(node, DictConfig):
            break
        if part not in node:
            valid = {*map(str, node), *valid_keys(LabConfig, parts[:depth])}
            return nearest(parts[:depth], part, valid, rest=parts[depth + 1 :])
    return "see --cfg job for the composed configuration; a new key needs a leading +"


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
