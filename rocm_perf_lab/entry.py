"""The way into the lab: command-line words -> Hydra -> validated config -> job; errors become exit codes.

Every command of the lab goes through :func:`run_lab`, so that a job started by `rocm-perf` and one started by
`python -m rocm_perf_lab` see the same configuration.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.config_errors import ConfigError, Origins
from rocm_perf_lab.errors import EXIT_BAD_INPUT, LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omegaconf import DictConfig

EXIT_DEFECT = 1
EXIT_INTERRUPTED = 130


def run_lab(words: Sequence[str]) -> int:
    """Compose and run; return the exit code.

    Args:
        words: Hydra overrides and flags, and `--debug`, which lets errors through with their traceback.
    """
    debug = "--debug" in words
    arguments = [word for word in words if word != "--debug"]
    try:
        _run_hydra(arguments)
    except LabError as error:
        if debug:
            raise
        _print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted: what was finished is kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_BAD_INPUT * bool(stop.code)
    return 0


def _run_hydra(arguments: list[str]) -> None:
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from rocm_perf_lab.resources import resource_dir

    # Hydra's own report would print and exit with 1; with this it raises, and the error is told in our words.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    before, sys.argv = sys.argv, ["rocm_perf_lab", *arguments]
    try:
        hydra.main(version_base="1.3", config_path=str(resource_dir("conf")), config_name="config")(_run_job)()
    except (HydraException, OmegaConfBaseException) as error:
        raise _explain(error) from error
    except OSError as error:
        raise LabError(
            f"cannot write the run's folder: {error.strerror or error}",
            where=str(error.filename or Path.cwd() / "outputs"),
            remedy="run in a folder that can be written, or set hydra.run.dir=/another/folder",
        ) from error
    finally:
        sys.argv = before


def _run_job(composed: DictConfig) -> None:
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from rocm_perf_lab.config import parse_config
    from rocm_perf_lab.jobs.lab import Lab

    runtime = HydraConfig.get()
    origins = _origins(runtime)
    plain: Any = OmegaConf.to_container(composed, resolve=True)
    config = parse_config(plain, origins)
    Lab.open(config, resolved=plain, output_dir=Path(runtime.runtime.output_dir)).run()


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


def _explain(error: Exception) -> ConfigError:
    """Hydra's and OmegaConf's composition errors, in the form of every other error of the lab."""
    text = str(error).strip()
    cause = str(error.__cause__ or "")
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        return ConfigError(
            f"unknown key {unknown[1]!r}", where=f"the override of {unknown[1]!r}", remedy=_nearest_key(unknown[1])
        )
    option = re.search(r"Could not find '([^']+)'", text) or re.search(r"In '[^']*': Could not find '([^']+)'", text)
    if option:
        available = re.findall(r"^\t(\S+)", text.partition("Config search path")[0], flags=re.MULTILINE)
        group, _, name = option[1].rpartition("/")
        near = difflib.get_close_matches(name, available, n=1, cutoff=0.4)
        hint = f"did you mean {group}={near[0]}? " if near else ""
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


def _nearest_key(path: str) -> str:
    """The nearest key to a mistyped override, from the models of the config groups."""
    from rocm_perf_lab.config import LabConfig
    from rocm_perf_lab.config_errors import unknown_key
    from rocm_perf_lab.config_schema import valid_keys

    parts = path.split(".")
    for depth in range(len(parts)):
        valid = valid_keys(LabConfig, parts[:depth])
        if valid and parts[depth] not in valid:
            return unknown_key(".".join(parts[: depth + 1]), valid, Origins(files={})).remedy or ""
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
