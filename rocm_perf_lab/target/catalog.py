"""The targets that the lab knows: `conf/target/*.yaml` by name, or a user's own file by path."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rocm_perf_lab.errors import LabError
from rocm_perf_lab.resources import resource_dir
from rocm_perf_lab.target.model import Target


class TargetError(LabError):
    """A target that does not exist, or whose description is invalid."""


def target_names() -> tuple[str, ...]:
    """Names that :func:`load_target` takes."""
    return tuple(sorted(path.stem for path in _folder().glob("*.yaml")))


def load_target(name_or_path: str | Path) -> Target:
    """The target of that name, or the one that a YAML file describes.

    Raises:
        TargetError: No such target, or an invalid description.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = _folder() / f"{name_or_path}.yaml"
        if not path.is_file():
            raise TargetError(f"unknown target {str(name_or_path)!r}", remedy=_suggestion(str(name_or_path)))
    try:
        return Target.model_validate(_read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise TargetError(
            f"invalid target description: {first['msg']}",
            where=f"{path}, key {key}" if key else str(path),
            remedy="Compare with a target in conf/target.",
        ) from error


def _folder() -> Path:
    return resource_dir("conf") / "target"


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), target_names(), n=2, cutoff=0.5)
    known = f"Known targets: {', '.join(target_names())}; or pass the path of a YAML file."
    return f"Did you mean {' or '.join(near)}? {known}" if near else known


def _read_yaml(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise TargetError(f"cannot read the target: {error.strerror}", where=str(path), remedy="Check the path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TargetError(f"not YAML: {error}", where=str(path), remedy="Correct the file.") from error
