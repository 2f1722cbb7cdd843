"""The targets that the lab knows: `conf/target/*.yaml` by name, or a user's own file by path."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import load_yaml, resource_dir
from rocm_perf_lab.target.model import Target


class TargetError(LabError):
    """A target that does not exist, or whose description is invalid."""


def target_names() -> tuple[str, ...]:
    """Names that :func:`load_target` takes."""
    return tuple(sorted(path.stem for path in _directory().glob("*.yaml")))


def load_target(name_or_path: str | Path) -> Target:
    """The target of that name, or the one that a YAML file describes.

    Raises:
        TargetError: No such target, or an invalid description.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = _directory() / f"{name_or_path}.yaml"
        if not path.is_file():
            raise TargetError(f"unknown target {str(name_or_path)!r}", hint=_suggestion(str(name_or_path)))
    try:
        return Target.model_validate(_read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise TargetError(
            f"invalid target description: {first['msg']}",
            where=f"{path}, key {key}" if key else str(path),
            hint="Compare with a target in conf/target.",
        ) from error


def _directory() -> Path:
    return resource_dir("conf") / "target"


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), target_names(), n=2, cutoff=0.5)
    known = f"Known targets: {', '.join(target_names())}; or pass the path of a YAML file."
    return f"Did you mean {' or '.join(near)}? {known}" if near else known


def _read_yaml(path: Path) -> Any:
    import yaml

    try:
        return load_yaml(path.read_text())
    except OSError as error:
        raise TargetError(f"cannot read the target: {error.strerror}", where=str(path), hint="Check the path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TargetError(f"not YAML: {error}", where=str(path), hint="Correct the file.") from error


def target_of(architecture: str, product_name: str, preferred: Target | None = None) -> Target:
    """The target that a profiled GPU is.

    Args:
        architecture: Of the GPU, for example `gfx942` or `gfx942:sramecc+:xnack-`.
        product_name: As the driver states it; decides between GPUs of one architecture.
        preferred: Taken where the product is not in the catalog but this one has its architecture.

    Raises:
        TargetError: No target of that architecture is known.
    """
    processor = architecture.partition(":")[0]
    if preferred and preferred.architecture == processor and is_same_product(preferred.product_name, product_name):
        return preferred
    known = [load_target(name) for name in target_names()]
    same = [target for target in (*([preferred] if preferred else []), *known) if target.architecture == processor]
    if not same:
        raise TargetError(
            f"no target describes {processor or 'this GPU'} ({product_name or 'of unknown name'})",
            hint="write a YAML like those in conf/target and choose it with target= (rocm-perf analyze: --target); "
            f"known: {', '.join(target_names())}",
        )
    named = [target for target in same if is_same_product(target.product_name, product_name)]
    return (named or same)[0]


def is_same_product(one: str, other: str) -> bool:
    """Whether two names mean one: `AMD Instinct MI300X` and `AMD Instinct MI300X OAM` are one product."""
    words, stated = one.lower().split(), other.lower().split()
    return bool(words) and words[-1] in stated
