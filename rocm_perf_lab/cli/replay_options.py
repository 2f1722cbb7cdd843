"""Options shared by several `rocm-perf replay` commands."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from rocm_perf_lab.cli.completion import complete_targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.jobs.replay.commands import ReplayTarget
    from rocm_perf_lab.replay.messages import CheckRequest

_Command = TypeVar("_Command", bound="Callable[..., Any]")

PATH = click.Path(path_type=Path)


class _FiniteRange(click.FloatRange):
    """Range of numbers without inf and nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


POSITIVE = _FiniteRange(min=0, min_open=True)
DIRECTORY = click.argument("directory", metavar="DIR", type=PATH)
TRACKING = click.option(
    "--tracking",
    type=click.Choice(["auto", "mlflow", "none"]),
    default="auto",
    show_default=True,
    help="Log an MLflow run; auto: if MLFLOW_TRACKING_URI or ./mlflow.db exists.",
)
FORCE = click.option("--force", is_flag=True, help="Replay the code object even if it is incompatible with the captured one.")


def _all(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds several options in this order."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _device(purpose: str) -> Callable[[_Command], _Command]:
    choices = click.Choice(["auto", "rocm", "emulator"])
    return click.option("--device", type=choices, default="auto", show_default=True, help=purpose)


def caches(default: str) -> Callable[[_Command], _Command]:
    """Return the option for the state of the caches before a dispatch."""
    return click.option(
        "--caches",
        type=click.Choice(["warm", "restored", "cold"]),
        default=default,
        show_default=True,
        help="Caches before a dispatch: as the previous one left them, after restoring memory, or overwritten.",
    )


application_options = _all(
    click.option("--application-timeout", type=POSITIVE, metavar="SECONDS", help="Time limit of the application."),
    _device("GPU for the application: a GPU of this machine, or an emulated one."),
    click.option("--target", shell_complete=complete_targets, help="GPU to emulate. Default: mi300x."),
    click.option("--gpus", type=click.IntRange(1, 16), metavar="N", help="Number of emulated GPUs. Default: 1."),
    click.option(
        "--root",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="ROCm directory tree (see make rocm-root).",
    ),
    click.option("--preload", is_flag=True, help="Load the tool with LD_PRELOAD, if the application sets HSA_TOOLS_LIB itself."),
)
replay_options = _all(
    click.option("--capture-dir", type=PATH, metavar="DIR", help="Directory of the capture. Default: isolate_capture."),
    _device("Device to replay on."),
    click.option("--target", help="GPU to emulate. Default: one with the captured architecture."),
    click.option("--agent", type=click.IntRange(min=0), metavar="N", help="Index of the GPU. Default: the captured one."),
    click.option("--timeout", type=POSITIVE, default=600.0, show_default=True, help="Time limit in seconds."),
)
check_options = _all(
    click.option("--rtol", type=_FiniteRange(min=0), default=0.0, help="Relative tolerance for floating-point values."),
    click.option("--atol", type=_FiniteRange(min=0), default=0.0, help="Absolute tolerance for floating-point values."),
    click.option(
        "--nan",
        type=click.Choice(["equal", "exact", "forbid"]),
        help="Comparison of NaN. Default: equal if a tolerance is set, else exact.",
    ),
    click.option(
        "--type",
        "types",
        multiple=True,
        metavar="ARG=DTYPE",
        callback=lambda _context, _option, arguments: _types(arguments),
        help="Element type of an argument (name or @offset), as in out=f32.",
    ),
)


def replay_target(options: dict[str, Any]) -> ReplayTarget:
    """Return the capture and device selected by `replay_options`."""
    from rocm_perf_lab.jobs.replay.commands import ReplayTarget

    return ReplayTarget(
        capture_dir=options["capture_dir"],
        device=options["device"],
        target=options["target"],
        agent=options["agent"],
        library=os.environ.get("ROCM_PERF_LAB_HSA_LIBRARY") or None,
        timeout_s=options["timeout"],
    )


def check_request(options: dict[str, Any]) -> CheckRequest:
    """Return the comparison selected by `check_options`. If a tolerance is set, NaN values compare equal by default."""
    from rocm_perf_lab.replay.messages import CheckRequest

    nan: Literal["equal", "exact", "forbid"] = options["nan"] or ("equal" if options["rtol"] or options["atol"] else "exact")
    return CheckRequest(rtol=options["rtol"], atol=options["atol"], nan=nan, types=options["types"])


def _types(arguments: tuple[str, ...]) -> dict[str, str]:
    from rocm_perf_lab.languages.data_types import DTYPES

    types = {}
    for argument in arguments:
        name, _, dtype = argument.partition("=")
        if dtype not in DTYPES:
            raise click.UsageError(f"--type {argument}: expected ARG=DTYPE, with one of {', '.join(DTYPES)}")
        types[name] = dtype
    return types
