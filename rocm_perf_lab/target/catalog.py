"""Targets by name: `conf/target/*.yaml` of the package and of the working directory, or a YAML file by path.

A file that holds only Hydra's `defaults: [name]` is another name for a target: gfx942 for mi300x.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import load_yaml, resource_dir
from rocm_perf_lab.target.model import Target

_ALIAS_KEY = "defaults"


class TargetError(LabError):
    """A target that does not exist, or whose description is invalid."""


DEFAULT_TARGET = "mi300x"


def target_names() -> tuple[str, ...]:
    """Return the names of all targets, without aliases."""
    return tuple(sorted({path.stem for path in _files() if _alias_of(path, path.stat().st_mtime_ns) is None}))


def target_aliases() -> dict[str, str]:
    """Return the other names of targets: `{"gfx942": "mi300x"}`."""
    named = {path.stem: _alias_of(path, path.stat().st_mtime_ns) for path in reversed(_files())}
    return {alias: name for alias, name in sorted(named.items()) if name is not None}


def load_target(name_or_path: str | Path) -> Target:
    """Return a target by name, alias or path of a YAML file.

    Raises:
        TargetError: There is no such target, or its description is invalid.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = _file_of(str(name_or_path))
    content = _read_yaml(path)
    alias = _named_by(content)
    if alias is not None:
        path = _file_of(alias)
        content = _read_yaml(path)
    try:
        return Target.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise TargetError(
            f"invalid target description: {first['msg']}",
            where=f"{path}, key {key}" if key else str(path),
            hint="Compare with a target in conf/target.",
        ) from error


def target_of(architecture: str, product_name: str, preferred: Target | None = None) -> Target:
    """Return the target that describes a profiled GPU; of an unknown product, the one that the architecture's name stands for.

    Args:
        architecture: Architecture of the GPU, for example `gfx942` or `gfx942:sramecc+:xnack-`.
        product_name: Name reported by the driver; selects among GPUs of one architecture.
        preferred: Target to use if it has the architecture and the catalog does not have the product.

    Raises:
        TargetError: No target has that architecture.
    """
    processor = architecture.partition(":")[0]
    if preferred and preferred.architecture == processor and is_same_product(preferred.product_name, product_name):
        return preferred
    usual = target_aliases().get(processor)
    known = [load_target(name) for name in sorted(target_names(), key=lambda name: (name != usual, name))]
    same = [target for target in (*([preferred] if preferred else []), *known) if target.architecture == processor]
    if not same:
        raise TargetError(
            f"no target describes {processor or 'this GPU'} ({product_name or 'of unknown name'})",
            hint="write a YAML file like those in conf/target and select it with target= (rocm-perf analyze: --target); "
            f"known: {', '.join(target_names())}",
        )
    named = [target for target in same if is_same_product(target.product_name, product_name)]
    return max(named, key=lambda target: len(target.product_name), default=same[0])


def products_of(architecture: str) -> tuple[str, ...]:
    """Return the names of all targets of an architecture, without aliases."""
    return tuple(name for name in target_names() if load_target(name).architecture == architecture)


def choice_of_targets(architecture: str) -> str:
    """Return the hint that names the targets for code of an architecture."""
    return f"choose one of its architecture: --target {' or '.join(products_of(architecture)) or architecture}"


def usual_target(architecture: str) -> str:
    """Return the name of the target that an architecture's name stands for; MI300X if there is none."""
    return target_aliases().get(architecture.partition(":")[0], DEFAULT_TARGET)


def is_same_product(one: str, other: str) -> bool:
    """Return whether two names mean one product: `AMD Instinct MI300X` and `AMD Instinct MI300X OAM` do.

    The model of the first one is its words from the number on: `6800 XT`.
    """
    words, stated = one.lower().split(), other.lower().split()
    number = next((i for i, word in enumerate(words) if any(map(str.isdigit, word))), len(words) - 1)
    return bool(words) and all(word in stated for word in words[number:])


def _files() -> list[Path]:
    """The package's files first: a file of the working directory adds a target and does not replace one."""
    own = resource_dir("conf") / "target"
    user = Path.cwd() / "conf" / "target"
    directories = [own] if not user.is_dir() or user.resolve() == own.resolve() else [own, user]
    return [path for directory in directories for path in sorted(directory.glob("*.yaml"))]


def _file_of(name: str) -> Path:
    path = next((path for path in _files() if path.stem == name), None)
    if path is None:
        raise TargetError(f"unknown target {name!r}", hint=_suggestion(name))
    return path


@lru_cache(maxsize=256)
def _alias_of(path: Path, _modified_ns: int) -> str | None:
    return _named_by(_read_yaml(path))


def _named_by(content: object) -> str | None:
    names = content.get(_ALIAS_KEY) if isinstance(content, dict) and content.keys() == {_ALIAS_KEY} else None
    return str(names[0]) if isinstance(names, list) and len(names) == 1 else None


def _suggestion(name: str) -> str:
    aliases = target_aliases()
    near = difflib.get_close_matches(name.lower(), [*target_names(), *aliases], n=2, cutoff=0.5)
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
