"""Errors of a configuration in the user's terms: key path, nearest valid key, the file or override it came from."""

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


class ConfigError(LabError):
    """A key or value that no config model takes."""


@dataclass(frozen=True)
class Origins:
    """Where the parts of a composed configuration were written.

    `files` maps a group (first part of a key path) to the YAML files that fill it; `overrides` are the command line's
    `key=value` words.
    """

    files: Mapping[str, tuple[Path, ...]]
    overrides: tuple[str, ...] = ()

    def describe(self, path: str) -> str:
        """`path`, and the override or the file (with its line) that set it."""
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
    """The error for a key that does not exist, naming the nearest one that does."""
    *parents, key = path.split(".")
    return ConfigError(f"unknown key {path!r}", where=origins.describe(path), hint=nearest(parents, key, valid))


def nearest(parents: Sequence[str], key: str, valid: Iterable[str], rest: Sequence[str] = ()) -> str:
    """What the user may have meant by `key` below `parents`, or all that is valid there."""
    names = sorted(valid)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {'.'.join([*parents, near[0], *rest])}?"
    return f"valid keys of {'.'.join(parents) or 'the config'}: {', '.join(names)}"


def explain_validation_error(error: ValidationError, model: type[BaseModel], origins: Origins) -> ConfigError:
    """The first problem of a pydantic error, as a :class:`ConfigError`."""
    # A misspelt key shows up twice, as missing and as unknown: the second is the one that helps.
    first = min(error.errors(), key=lambda row: row["type"] != "extra_forbidden")
    located = locate(model, first["loc"])
    path = located.path
    if first["type"] == "extra_forbidden":
        return unknown_key(path, located.siblings, origins)
    value = first.get("input")
    shown = "" if first["type"] == "missing" or isinstance(value, dict | list) else f" (it is {str(value)[:80]!r})"
    what = f"{path}: {first['msg'].removeprefix('Value error, ')}{shown}"
    return ConfigError(what, where=origins.describe(path), hint=first.get("ctx", {}).get("hint"))


def _line_of(file: Path, path: str) -> int | None:
    """The line on which the last part of `path` stands as a key in a YAML file, or None."""
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
