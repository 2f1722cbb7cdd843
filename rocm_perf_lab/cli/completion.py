"""Shell completion: names of kernels, targets, experiments and other configuration options, read from directory listings.

Hydra is not imported, so that completions appear without delay.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click
    from click.shell_completion import CompletionItem

_KEYS = ("kernel", "target", "+experiment", "space", "device", "job", "optimizer", "passes", "tracking")


def complete_targets(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a GPU."""
    return _starting_with(incomplete, _options("target"))


def complete_spaces(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the file of a search space: an installed space, or any other file."""
    conf, experiments = resource_dir("conf"), resource_dir("experiments")
    files = [*conf.glob("space/*.yaml"), *experiments.glob("*/space.yaml")]
    names = [str(path.relative_to(conf.parent)) for path in files if path.stem != "none"]
    return [*_starting_with(incomplete, names), *_files(incomplete)]


def complete_overrides(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete overrides such as `kernel=NAME` and `+experiment=NAME`, or file names.

    Bash splits words at `=`, so the key, the `=` and the value may arrive as separate arguments.
    """
    before: tuple[str, ...] = tuple(context.params.get(parameter.name or "") or ())[-2:]
    if not incomplete and before and before[-1] in _KEYS:  # click replaces a lone "=" by the empty string
        return _starting_with("", _options(before[-1]))
    if len(before) == 2 and before[1] == "=":
        return _starting_with(incomplete, _options(before[0]))
    pairs = [f"{key}={name}" for key in _KEYS if incomplete for name in _options(key)]
    return [*_starting_with(incomplete, pairs), *_files(incomplete)]


def _starting_with(incomplete: str, names: list[str]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _files(incomplete: str) -> list[CompletionItem]:
    """Let the shell complete file names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _options(key: str) -> list[str]:
    """List the options of a configuration group, from rocm-perf-lab and from the working directory."""
    return sorted(set(_found(key.lstrip("+")))) if key in _KEYS else []


def _found(group: str) -> Iterator[str]:
    for directory in (resource_dir("conf"), Path("conf")):
        yield from (path.stem for path in (directory / group).glob("*.yaml"))
    if group in ("kernel", "space"):
        for directory in (resource_dir("experiments"), Path("experiments")):
            yield from (path.parent.name for path in directory.glob(f"*/{group}.yaml"))
