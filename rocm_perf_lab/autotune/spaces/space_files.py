"""Spaces from files: a YAML mapping, a JSON list of configurations, or a file of another tuner."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.spaces.enumeration import build_space
from rocm_perf_lab.autotune.spaces.foreign_spaces import flattened, from_t1, is_t1
from rocm_perf_lab.autotune.spaces.space import Space, SpaceError
from rocm_perf_lab.autotune.spaces.space_description import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rocm_perf_lab.autotune.spaces.space_description import SpaceDescription


def load_space(path: Path) -> Space:
    """Read a space from a file.

    Raises:
        SpaceError: The file is unreadable, has another format, or its space is contradictory.
    """
    found = read_space(path)
    return found if isinstance(found, Space) else build_space(found, where=str(path))


def read_space(path: Path) -> SpaceDescription | Space:
    """Read the description of a space, or the space itself of a list of configurations.

    Raises:
        SpaceError: The file is unreadable or has another format.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"cannot read the space: {error}", where=str(path), hint="name a YAML or JSON file") from error
    try:
        content = json.loads(text)
    except ValueError:
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise SpaceError(
                f"cannot read the space: {' '.join(str(error).split())}", where=str(path), hint="write valid YAML or JSON"
            ) from error
    if isinstance(content, list):
        return space_of_list(flattened(content), where=str(path))
    if not isinstance(content, dict):
        raise _unreadable(path)
    if is_t1(content):
        try:
            content = from_t1(content)
        except ValueError as error:
            raise SpaceError(
                f"not a valid T1 file of Kernel Tuner: {error}", where=str(path), hint="see T1 in docs/AUTOTUNING.md"
            ) from error
    return describe(content, where=str(path))


def _unreadable(path: Path) -> SpaceError:
    return SpaceError(
        "neither a YAML mapping nor a JSON list of configurations",
        where=str(path),
        hint='write `parameters: {name: [values]}`, or a list like [{"BLOCK_M": 64}]',
    )


def space_of_list(configurations: Sequence[Any], *, where: str) -> Space:
    """Return the space that consists of these configurations.

    Raises:
        SpaceError: The list is empty, keys differ between configurations, or a configuration is listed twice.
    """
    if not configurations:
        raise SpaceError("an empty list of configurations", where=where, hint="list at least one")
    first = configurations[0]
    for number, configuration in enumerate(configurations):
        place = f"{where}, configuration {number}"
        if not isinstance(configuration, dict) or not configuration:
            raise SpaceError("a configuration maps names to values", where=place, hint='for example {"BLOCK_M": 64}')
        if configuration.keys() != first.keys():
            odd = sorted(configuration.keys() ^ first.keys())
            raise SpaceError(f"some configurations lack {', '.join(odd)}", where=place, hint="use the same keys in all")
        for name, value in configuration.items():
            if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
                raise SpaceError(f"{name} is {value!r}", where=place, hint="values are numbers, text, true or false")
    values = {name: _distinct(configuration[name] for configuration in configurations) for name in first}
    numbers = {name: {value: code for code, value in enumerate(column)} for name, column in values.items()}
    codes = np.array([[numbers[name][c[name]] for name in first] for c in configurations], np.int32)
    _, rows, counts = np.unique(codes, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        twice = configurations[int(rows[counts > 1][0])]
        raise SpaceError(f"listed more than once: {twice}", where=where, hint="remove the duplicates")
    return Space(values, codes, combinations=len(codes), where=where)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    found = list(dict.fromkeys(values))
    return tuple(sorted(found) if not any(isinstance(value, str) for value in found) else found)
