"""Registry of GPU architectures: the YAML files of this directory, and `conf/arch/gfx*.yaml` of the working directory.

The package's files are read once per process; files of the working directory are read again when they change.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from rocm_perf_lab.arch.model import Architecture, Processor
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.core.resources import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHIPPED = Path(__file__).parent
_KNOWN = _SHIPPED / "known.yaml"
_PATTERN = "gfx*.yaml"
_NAME = re.compile(r"gfx(?P<major>\d+)(?P<minor>[0-9a-f])(?P<stepping>[0-9a-f])")
_NOT_INHERITED = ("name", "elf_machine", "gfx_target_version", "generic_targets", "nearest_for", "emulator")
_NOT_INHERITED_TIMING = "error"
_COMPARE = "Compare with the files in rocm_perf_lab/arch."


class ArchitectureError(LabError):
    """An unknown architecture, or an invalid description of one."""


def architectures() -> Mapping[str, Architecture]:
    """Return all described architectures by name, ordered by `gfx_target_version`.

    Raises:
        ArchitectureError: A file in `conf/arch` of the working directory is invalid.
    """
    files = _user_files()
    return _with_user_files(files) if files else _shipped()


def find_architecture(name: str) -> Architecture | None:
    """Return the description of an architecture, or None if there is none.

    Args:
        name: For example `gfx942`, or a target id such as `gfx942:sramecc+:xnack-`.
    """
    return architectures().get(name.partition(":")[0])


def load_architecture(name: str) -> Architecture:
    """Return the description of an architecture.

    Raises:
        ArchitectureError: There is no description of it.
    """
    found = find_architecture(name)
    if found is None:
        raise ArchitectureError(
            f"unknown architecture {name!r}",
            hint=f"known: {', '.join(architectures())}; describe it in conf/arch/{name.partition(':')[0]}.yaml",
        )
    return found


def nearest_architecture(name: str) -> Architecture | None:
    """Return the architecture whose rules apply best to `name`: its own description, or that of its GFX generation."""
    return find_architecture(name) or generation_architecture(name)


def generation_architecture(name: str) -> Architecture | None:
    """Return the architecture that represents the GFX generation of a processor: gfx1030 of every gfx11xx."""
    parsed = _NAME.fullmatch(name.partition(":")[0])
    if parsed is None:
        return None
    generation = int(parsed["major"])
    return next((one for one in architectures().values() if generation in one.nearest_for), None)


def architecture_of_code(generation: int, instructions: Iterable[str]) -> Architecture | None:
    """Return the architecture of a GFX generation that alone has some of the instructions, or the generation's representative.

    Args:
        generation: 9 for gfx9 and CDNA, 10 to 12 for RDNA.
        instructions: Disassembled instructions.
    """
    texts = "\n".join(text.lower() for text in instructions)
    for one in architectures().values():
        parsed = _NAME.fullmatch(one.name)
        is_of_generation = parsed is not None and int(parsed["major"]) == generation
        if is_of_generation and one.recognised_by and re.search(one.recognised_by, texts, re.MULTILINE):
            return one
    return next((one for one in architectures().values() if generation in one.nearest_for), None)


def find_processor(name: str) -> Processor | None:
    """Return a described architecture, or a processor of which only the code-object format is known."""
    processor = name.partition(":")[0]
    return find_architecture(processor) or _known_processors().get(processor)


def nearest_processor(name: str) -> Processor:
    """Return the processor, or the described architecture of the same GFX generation.

    Raises:
        ArchitectureError: The name is not in a known generation.
    """
    found = find_processor(name) or nearest_architecture(name)
    if found is None:
        raise ArchitectureError(f"unknown processor {name!r}", hint=f"known: {', '.join(processors())}")
    return found


def processors() -> Mapping[str, Processor]:
    """Return every processor whose code objects can be read, by name; described architectures come first."""
    return {**architectures(), **_known_processors()}


def processor_of_machine(elf_machine: int) -> Processor | None:
    """Return the processor with this EF_AMDGPU_MACH number."""
    return next((one for one in processors().values() if one.elf_machine == elf_machine), None)


def generic_target_of_machine(elf_machine: int) -> str | None:
    """Return the generic target with this EF_AMDGPU_MACH number: `gfx9-4-generic` of 0x5F."""
    return next((name for name, target in _known().generic_targets.items() if target.elf_machine == elf_machine), None)


def settings_of_target(name: str) -> tuple[str, ...]:
    """Return the settings (`sramecc`, `xnack`) of a processor or generic target."""
    found = _known().generic_targets.get(name) or find_processor(name)
    return () if found is None else found.settings


def processors_of_generic_target(name: str) -> tuple[str, ...]:
    """Return the processors that run code of a generic target."""
    return tuple(one.name for one in processors().values() if name in one.generic_targets)


def compilable_targets() -> tuple[str, ...]:
    """Return all processors and generic targets for which the device libraries can be configured."""
    return tuple(name for name in (*processors(), *_known().generic_targets) if isa_number(name) is not None)


def processor_alias(name: str) -> str | None:
    """Return the processor that a code object of version 2 calls by `name` if XNACK is on: `gfx900` of `gfx901`."""
    return _known().xnack_names.get(name)


def emulated_architectures() -> tuple[str, ...]:
    """Return the names of the architectures that the emulator executes."""
    return tuple(one.name for one in architectures().values() if one.emulator is not None)


def architecture_name(gfx_target_version: int) -> str:
    """Return the name of the processor with this driver number: `gfx90a` of 90010."""
    major, minor, stepping = gfx_target_version // 10000, gfx_target_version // 100 % 100, gfx_target_version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def isa_number(name: str) -> tuple[str, int] | None:
    """Return suffix and value of the device libraries' `oclc_isa_version`: `("90a", 9010)` of gfx90a."""
    generic = _known().generic_targets.get(name)
    if generic is not None and generic.isa_number is not None:
        return name.removeprefix("gfx"), generic.isa_number
    parsed = _NAME.fullmatch(name)
    if parsed is None:
        return None
    number = int(parsed["major"]) * 1000 + int(parsed["minor"], 16) * 100 + int(parsed["stepping"], 16)
    return name.removeprefix("gfx"), number


def merged(defaults: Mapping[Any, Any], values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return `defaults` overridden by `values`; nested mappings are merged key by key."""
    result = dict(defaults)
    for key, value in values.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _user_files() -> tuple[tuple[Path, int], ...]:
    directory = Path.cwd() / "conf" / "arch"
    if not directory.is_dir():
        return ()
    return tuple((path, path.stat().st_mtime_ns) for path in sorted(directory.glob(_PATTERN)))


@cache
def _shipped() -> Mapping[str, Architecture]:
    return _described(_read_all(sorted(_SHIPPED.glob(_PATTERN))))


@lru_cache(maxsize=8)
def _with_user_files(files: tuple[tuple[Path, int], ...]) -> Mapping[str, Architecture]:
    shipped = _read_all(sorted(_SHIPPED.glob(_PATTERN)))
    own = _read_all([path for path, _ in files])
    for name, (path, _) in own.items():
        if name in shipped or name in _known_processors():
            raise ArchitectureError(
                f"rocm-perf-lab already describes {name}", where=str(path), hint="describe only new architectures in conf/arch"
            )
    return _described({**shipped, **own})


def _read_all(paths: list[Path]) -> dict[str, tuple[Path, dict[str, Any]]]:
    return {path.stem: (path, _read_mapping(path)) for path in paths}


def _read_mapping(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ArchitectureError(f"cannot read the architecture: {error}", where=str(path), hint=_COMPARE) from error
    if not isinstance(content, dict):
        raise ArchitectureError("an architecture is a YAML mapping", where=str(path), hint=_COMPARE)
    return content


def _described(rows: Mapping[str, tuple[Path, dict[str, Any]]]) -> Mapping[str, Architecture]:
    found = {}
    for name, (path, _) in rows.items():
        values = {"name": name, **_inherited(name, rows, ())}
        try:
            found[name] = Architecture.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise ArchitectureError(
                f"invalid architecture: {first['msg']}", where=f"{path}, key {key}" if key else str(path), hint=_COMPARE
            ) from error
    return MappingProxyType(dict(sorted(found.items(), key=lambda row: row[1].gfx_target_version)))


def _inherited(name: str, rows: Mapping[str, tuple[Path, dict[str, Any]]], below: tuple[str, ...]) -> dict[str, Any]:
    path, own = rows[name]
    parent = own.get("inherits")
    values = {key: value for key, value in own.items() if key != "inherits"}
    if parent is None:
        return values
    if parent not in rows or parent in (name, *below):
        known = ", ".join(other for other in rows if other != name)
        raise ArchitectureError(f"cannot inherit from {parent!r}", where=f"{path}, key inherits", hint=f"known: {known}")
    base = _inherited(parent, rows, (name, *below))
    inherited = {key: value for key, value in base.items() if key not in _NOT_INHERITED}
    if "timing" in inherited:  # error bands are those of one architecture
        inherited["timing"] = {key: value for key, value in inherited["timing"].items() if key != _NOT_INHERITED_TIMING}
    return merged(inherited, values)


class _Group(StrictModel):
    """Processors with common facts; `members` adds the facts of each."""

    common: dict[str, Any]
    members: dict[str, dict[str, Any]]


class _GenericTarget(StrictModel):
    """Generic target: its EF_AMDGPU_MACH number and the settings that its code may require.

    `isa_number` is what the device libraries call it; None if the lab does not compile for it.
    """

    elf_machine: int
    isa_number: int | None = None
    settings: tuple[Literal["sramecc", "xnack"], ...] = ()


class _Known(StrictModel):
    """Content of `known.yaml`."""

    processors: tuple[_Group, ...]
    generic_targets: dict[str, _GenericTarget]
    xnack_names: dict[str, str]


@cache
def _known() -> _Known:
    return _Known.model_validate(load_yaml(_KNOWN.read_text(encoding="utf-8")))


@cache
def _known_processors() -> Mapping[str, Processor]:
    members = ((name, {**group.common, **facts}) for group in _known().processors for name, facts in group.members.items())
    return MappingProxyType({name: Processor.model_validate({"name": name, **facts}) for name, facts in members})
