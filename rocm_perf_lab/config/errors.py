"""Configuration errors with key path, nearest valid key, and the file or override that set the value."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.config.key_paths import locate
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel, ValidationError


_MAPPING, _LIST = "Input should be a mapping of keys to values", "Input should be a list"
_YAML_TYPES = {"dict_type": _MAPPING, "model_type": _MAPPING, "tuple_type": _LIST, "list_type": _LIST, "set_type": _LIST}
"""Type of a pydantic error -> message in terms of YAML instead of Python."""
_SCALARS = {"bool", "str"}
"""Alternatives of a union for a single value of any type."""


class ConfigError(LabError):
    """Invalid key or value in the configuration."""


@dataclass(frozen=True)
class Origins:
    """Origins of a composed configuration.

    `files` maps a group (the first part of a key path) to its YAML files; `overrides` are the `key=value` arguments of the
    command line.
    """

    files: Mapping[str, tuple[Path, ...]]
    overrides: tuple[str, ...] = ()

    def describe(self, path: str) -> str:
        """Return `path`, and the override or the file and line that set it."""
        for override in reversed(self.overrides):
            key = override.partition("=")[0].lstrip("+~")
            chooses_group = key in self.files
            if path == key or (not chooses_group and path.startswith((f"{key}.", f"{key}["))):
                return f"{path}, from the override {override!r}"
        for file in self.files.get(path.partition(".")[0], ()):
            line = _line_of(file, path)
            if line:
                return f"{path}, from {file}:{line}"
        return path


def unknown_key(path: str, valid: Iterable[str], origins: Origins) -> ConfigError:
    """Return the error for an unknown key, with the nearest valid one."""
    *parents, key = path.split(".")
    return ConfigError(f"unknown key {path!r}", where=origins.describe(path), hint=nearest(parents, key, valid))


def nearest(parents: Sequence[str], key: str, valid: Iterable[str], rest: Sequence[str] = ()) -> str:
    """Suggest the valid key nearest to `key` below `parents`, or list all valid keys."""
    names = sorted(valid)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {'.'.join([*parents, near[0], *rest])}?"
    return f"valid keys of {'.'.join(parents) or 'the config'}: {', '.join(names)}"


def explain_validation_error(error: ValidationError, model: type[BaseModel], origins: Origins) -> ConfigError:
    """Return the first problem of a pydantic error as a :class:`ConfigError`."""
    # A misspelt key is reported as missing and as unknown; the second error has the better hint. Of the alternatives of a union,
    # the one that was meant accepts the value in part, so its error is deeper.
    rows = error.errors()
    first = min(rows, key=lambda row: (row["type"] != "extra_forbidden", -len(row["loc"])))
    located = locate(model, first["loc"])
    path = located.path
    if first["type"] == "extra_forbidden":
        return unknown_key(path, located.siblings, origins)
    value = first.get("input")
    shown = "" if first["type"] == "missing" or isinstance(value, dict | list) else f" (it is {str(value)[:80]!r})"
    says = _YAML_TYPES.get(first["type"], first["msg"].removeprefix("Value error, "))
    if {row["loc"][-1] for row in rows if row["loc"][:-1] == first["loc"][:-1]} >= _SCALARS:
        says = "Input should be a number, text, true or false"
    example = f"for example {located.example}" if located.example is not None else None
    return ConfigError(f"{path}: {says}{shown}", where=origins.describe(path), hint=first.get("ctx", {}).get("hint", example))


def _line_of(file: Path, path: str) -> int | None:
    """Return the line of the last key of `path` in a YAML file, or None."""
    import yaml

    parts = re.findall(r"[^.\[\]]+", path)
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return None
    for candidate in (parts[1:], parts):
        line = _find(node, candidate)
        if line is not None:
            return line
    return None


def _find(node: Any, parts: list[str]) -> int | None:
    import yaml

    line = None
    for part in parts:
        if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
            continue
        if not isinstance(node, yaml.MappingNode):
            return None
        found = [(key, value) for key, value in node.value if key.value == part]
        if not found:
            return None
        line, node = found[0][0].start_mark.line + 1, found[0][1]
    return line
