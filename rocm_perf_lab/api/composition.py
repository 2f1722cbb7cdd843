"""Conversion of keyword arguments to configuration overrides, and execution of the configured job."""

from __future__ import annotations

import shlex
import warnings
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.api.progress import ProgressConsole
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

GROUPS = ("target", "device", "passes", "optimizer", "autotune", "tracking", "experiment")


def overrides_of(settings: Mapping[str, Any]) -> list[str]:
    """Return keyword arguments as overrides: of configuration groups by name, of kernel parameters for all other names.

    Args:
        settings: For example `{"target": "mi250x", "cols": 2048}`.
    """
    from rocm_perf_lab.config.overrides import quoted

    def value_of(value: Any) -> str:
        return quoted(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)

    return [
        f"{'+' if name == 'experiment' else ''}{name}={value}" if name in GROUPS else f"kernel.params.{name}={value_of(value)}"
        for name, value in settings.items()
    ]


def run_job(
    job: str,
    overrides: Sequence[str],
    *,
    output: str | Path | None,
    progress: Callable[[str], None] | None,
) -> Path:
    """Run a job like the command line, without output; return the directory of the run.

    Args:
        job: Option of the group `job`.
        overrides: Overrides of the configuration.
        output: Directory of the run; None creates one below `outputs`.
        progress: Called with lines of text while the job runs.

    Raises:
        LabError: The configuration is invalid, the job failed, or the directory cannot be written.
    """
    from rocm_perf_lab.config.composition import compose_overrides
    from rocm_perf_lab.config.lab import parse_config
    from rocm_perf_lab.jobs.lab import Lab

    chosen = [f"job={job}", *overrides]
    with without_widget_warning():
        plain, origins = compose_overrides(["display=none", *chosen])
        config = parse_config(plain, origins)
    name = f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}-{job}-{config.kernel.name}"
    directory = (Path(output) if output is not None else Path("outputs") / name).absolute()
    try:
        with without_widget_warning():
            Lab.open(
                config,
                resolved=plain,
                output_dir=directory,
                console=ProgressConsole(progress),
                command=shlex.join(["python", "-m", "rocm_perf_lab", *chosen]),
            ).run()
    except OSError as error:
        if error.filename is None or not Path(str(error.filename)).is_relative_to(directory):
            raise
        raise LabError(
            f"cannot write the run's directory: {error.strerror or error}",
            where=str(error.filename),
            hint="choose a writable directory: output=DIR",
        ) from error
    return directory


@contextmanager
def without_widget_warning() -> Iterator[None]:
    """Suppress a warning of tqdm, which Optuna and MLflow import, about notebook widgets that are not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        yield
