"""Search for the source of a captured kernel: `find_source(capture, hints) -> FoundSource | None`.

Candidates come from the debug information, embedded files, the records of `rocm-perf hipcc`, `compile_commands.json`, build logs
and directories. Each is compiled with its flags; the first one with equal machine code is selected, else the first one that
compiles and contains the kernel.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir, resource_dir
from rocm_perf_lab.languages.hip import HipLanguage
from rocm_perf_lab.languages.language import CompileSettings
from rocm_perf_lab.languages.spec import KernelSpec
from rocm_perf_lab.replay.project.build import read_description
from rocm_perf_lab.toolchain.compile_commands import (
    DATABASE,
    SOURCE_SUFFIXES,
    CompileCommand,
    parse_command,
    read_build_log,
    read_compile_commands,
)
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.demangle import base_name, demangle
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.recorded_commands import recorded_command
from rocm_perf_lab.toolchain.recorded_sources import recorded_unit
from rocm_perf_lab.toolchain.relocatable_code import reachable_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata
    from rocm_perf_lab.toolchain.compilers import Compiler

MachineCode = Literal["identical", "relocated", "different"]
_PYTHON = ".py"
_MOST_CANDIDATES = 12
_LITERAL = 4
"""Size in bytes of an instruction before its literal, and of the literal."""
_LARGEST_SEARCHED_SOURCE = 4 << 20
_BUILD_DIRECTORIES = (".", "build", "out", "cmake-build-release")


@dataclass(frozen=True)
class SourceHints:
    """Hints of the user about the source; `flags` are the compiler flags for `source`."""

    source: Path | None = None
    flags: str = ""
    compile_commands: Path | None = None
    build_log: Path | None = None
    search: tuple[Path, ...] = ()


@dataclass(frozen=True)
class FoundSource:
    """Source of the kernel with its compile command.

    `machine_code` compares the compiled kernel with the captured one. `files` are the files that the compiler read, except from
    its installation, by absolute path; `embedded` ones no longer exist on disk, or differ there.
    """

    command: CompileCommand
    files: tuple[Path, ...]
    embedded: dict[Path, str]
    machine_code: MachineCode
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceSearch:
    """Result of the search: the source, or the reasons why none was found."""

    found: FoundSource | None
    reasons: tuple[str, ...]


def find_source(capture: Capture, hints: SourceHints) -> SourceSearch:
    """Search for the source of the captured kernel.

    Raises:
        LabError: A file of `hints` does not exist or cannot be read.
        CompilerNotFound: No compiler is usable.
        CodeObjectError: The debug information is damaged.
    """
    embedded = _embedded(capture)
    compiler = find_compiler()
    best: FoundSource | None = None
    reasons: list[str] = []
    candidates = list(dict.fromkeys(map(_Candidate, _candidates(capture, hints, embedded))))
    for candidate in candidates[:_MOST_CANDIDATES]:
        try:
            found = _compiled(capture, candidate.command, embedded, compiler)
        except LabError as error:
            first = str(error.what).partition("\n")[0]
            reasons.append(f"{candidate.command.source} ({candidate.command.origin}): {first}")
            continue
        if found.machine_code != "different":
            return SourceSearch(found, tuple(reasons))
        best = best or found
    unit = recorded_unit(capture.code_object, capture.kernel)
    if unit is not None and unit.source.suffix == _PYTHON:
        reasons.append(f"{unit.source} is in Triton; a capture does not contain its constants: describe it in a kernel.yaml")
    elif not candidates:
        reasons.append("no debug information, record of rocm-perf hipcc, or compile_commands.json names its source")
    return SourceSearch(best, tuple(reasons))


@dataclass(frozen=True)
class _Candidate:
    """Compile command, equal to others with the same effect."""

    command: CompileCommand = field(compare=False)
    key: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        c = self.command
        key = (c.source, tuple(sorted(c.defines.items())), c.include_dirs, c.flags, c.optimisation)
        object.__setattr__(self, "key", key)


def _embedded(capture: Capture) -> dict[Path, str]:
    unit = recorded_unit(capture.code_object, capture.kernel)
    if unit is None:
        return {}
    return {path: text for path, text in unit.embedded.items() if not _is_on_disk(path, text)}


def _is_on_disk(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def _candidates(capture: Capture, hints: SourceHints, embedded: dict[Path, str]) -> Iterator[CompileCommand]:
    databases = tuple(_databases(capture, hints))
    if hints.source is not None:
        yield from _of_source(hints, databases)
        return
    record = recorded_command(capture.hsaco, cache_dir())
    if record is not None:
        command = parse_command(record.arguments, Path(record.directory), "record of rocm-perf hipcc", Path(record.source))
        if command is not None:
            yield command
    unit = recorded_unit(capture.code_object, capture.kernel)
    if unit is not None and unit.source.suffix == _PYTHON:
        return
    if unit is not None and not unit.source.is_absolute():
        yield from _described(unit.source.name)
    elif unit is not None and (unit.source.is_file() or unit.source in embedded):
        recorded = parse_command(unit.command, unit.directory, "debug information", unit.source)
        if unit.command and recorded is not None:
            yield recorded
        yield from (command for command in databases if command.source == unit.source)
        yield CompileCommand(unit.source, "debug information, flags unknown")
    yield from (command for command in databases if _mentions(command.source, capture))
    for directory in hints.search:
        yield from (CompileCommand(path, f"found in {directory}") for path in _sources_below(directory, capture))


def _described(name: str) -> Iterator[CompileCommand]:
    """Yield sources of kernel descriptions with this file name, because builds of descriptions record no directory."""
    for experiments in (Path.cwd() / "experiments", resource_dir("experiments")):
        for path in sorted(experiments.glob("*/kernel.yaml")):
            try:
                description = read_description(path.absolute())
                defines = description.compile_defines()
            except LabError:
                continue
            source = description.source_path
            if source.name == name and source.suffix in SOURCE_SUFFIXES and source.is_file():
                directories = tuple(description.directory / directory for directory in description.include_dirs)
                yield CompileCommand(source, str(path), defines, directories, description.flags)


def _of_source(hints: SourceHints, databases: Iterable[CompileCommand]) -> Iterator[CompileCommand]:
    assert hints.source is not None
    source = hints.source.absolute()
    if not source.is_file():
        raise LabError("the source does not exist", where=str(hints.source), hint="Check --source.")
    if hints.flags:
        try:
            words = shlex.split(hints.flags)
        except ValueError as error:
            raise LabError(f"the flags cannot be read: {error}", where="--flags") from error
        given = parse_command(words, Path.cwd(), "--flags", source)
        if given is not None:
            yield given
        return
    yield from (command for command in databases if command.source == source)
    yield CompileCommand(source, "--source")


def _databases(capture: Capture, hints: SourceHints) -> Iterator[CompileCommand]:
    if hints.build_log is not None:
        yield from read_build_log(hints.build_log)
    if hints.compile_commands is not None:
        given = hints.compile_commands
        yield from read_compile_commands(given / DATABASE if given.is_dir() else given)
        return
    for path in dict.fromkeys(_database_places(capture, hints)):
        yield from read_compile_commands(path)


def _database_places(capture: Capture, hints: SourceHints) -> Iterator[Path]:
    """Yield compilation databases near the source, the program and the working directory."""
    unit = recorded_unit(capture.code_object, capture.kernel)
    command = capture.dispatch.environment.command
    starts = [Path.cwd(), *hints.search]
    if unit is not None and unit.source.is_absolute():
        starts += [unit.directory, unit.source.parent]
    if hints.source is not None:
        starts.append(hints.source.absolute().parent)
    if command and Path(command[0]).is_absolute():
        starts.append(Path(command[0]).parent)
    for start in starts:
        for directory in (start, *start.parents):
            found = [directory / name / DATABASE for name in _BUILD_DIRECTORIES]
            yield from (Path(os.path.normpath(path)) for path in found if path.is_file())


def _mentions(source: Path, capture: Capture) -> bool:
    """Return whether a source contains a kernel with the captured name."""
    name = base_name(demangle(capture.kernel.symbol)).partition("<")[0].rpartition("::")[2].rpartition(" ")[2]
    try:
        if source.stat().st_size > _LARGEST_SEARCHED_SOURCE:
            return False
        text = source.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "__global__" in text and re.search(rf"\b{re.escape(name)}\b", text) is not None


def _sources_below(directory: Path, capture: Capture) -> Iterator[Path]:
    for path in sorted(directory.absolute().rglob("*")):
        if path.suffix in SOURCE_SUFFIXES and path.is_file() and _mentions(path, capture):
            yield path


def _compiled(capture: Capture, command: CompileCommand, embedded: dict[Path, str], compiler: Compiler) -> FoundSource:
    """Compile a candidate and compare the machine code of the kernel.

    Raises:
        LabError: The source does not compile, or does not contain the kernel.
    """
    with TemporaryDirectory(prefix="rocm-perf-lab-source-") as directory:
        used = {path: text for path, text in embedded.items() if not _is_toolchain(path, compiler)}
        mirrored = _with_embedded(command, used, Path(directory))
        build = _build(capture, mirrored, compiler)
        kernel = next((kernel for kernel in build.code_object.kernels if kernel.symbol == capture.kernel.symbol), None)
        if kernel is None:
            raise LabError(f"it has no kernel {capture.kernel.symbol}")
        base = mirrored.source.parent
        files = [_original(base / path, Path(directory)) for path in build.dependencies]
    own = dict.fromkeys(path for path in files if not _is_toolchain(path, compiler))
    return FoundSource(
        command=command,
        files=tuple(own),
        embedded={path: text for path, text in used.items() if path in own},
        machine_code=compared_code(capture.code_object, capture.kernel, build.code_object, kernel),
        notes=build.notes,
    )


def _with_embedded(command: CompileCommand, embedded: dict[Path, str], directory: Path) -> CompileCommand:
    """Write embedded files below a directory, and return the command that reads them there first."""
    if not embedded:
        return command
    for path, text in embedded.items():
        place = directory / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    source = directory / command.source.relative_to("/")
    if command.source not in embedded:
        return command
    mirrored = [directory / path.relative_to("/") for path in command.include_dirs]
    return replace(command, source=source, include_dirs=(*mirrored, *command.include_dirs))


def _original(path: Path, mirror: Path) -> Path:
    normal = Path(os.path.normpath(path.absolute()))
    return Path("/") / normal.relative_to(mirror) if normal.is_relative_to(mirror) else normal


def _build(capture: Capture, command: CompileCommand, compiler: Compiler) -> BuildResult:
    spec = source_spec(capture, command)
    settings = CompileSettings(capture.code_object.architecture, lambda: compiler)
    return HipLanguage().compile(spec, command.source, settings)


def source_spec(capture: Capture, command: CompileCommand) -> KernelSpec:
    """Return a kernel description that is sufficient to compile the source."""
    return KernelSpec(
        name=base_name(capture.kernel.name),
        source=command.source,
        entry=capture.kernel.symbol,
        defines={name: repr(value) for name, value in command.defines.items()},
        flags=compiler_flags(command),
        include_dirs=command.include_dirs,
        arguments=(),
        grid=(1,),
        block=(1,),
    )


def compiler_flags(command: CompileCommand) -> tuple[str, ...]:
    """Return the flags of a kernel description for a command."""
    optimisation = (command.optimisation,) if command.optimisation not in (None, "-O3") else ()
    return (*(word for word in optimisation if word is not None), *command.flags)


def compared_code(one: CodeObject, kernel: KernelMetadata, other: CodeObject, replacement: KernelMetadata) -> MachineCode:
    """Compare the machine code of two kernels; `relocated` means that only distances to other symbols differ."""
    if kernel.code_bytes != replacement.code_bytes:
        return "different"
    places = ((one, kernel), (other, replacement))
    first, second = (parse_elf(co.data).read(k.entry_address, k.code_bytes) for co, k in places)
    if first == second:
        return "identical"
    first, second = (_without_distances(co, k, code) for (co, k), code in zip(places, (first, second), strict=True))
    return "relocated" if first == second else "different"


def _without_distances(code_object: CodeObject, kernel: KernelMetadata, code: bytes) -> bytes:
    """Return the machine code with zeros for literals that refer to symbols."""
    content = bytearray(code)
    for address in reachable_parts(code_object, kernel).code[0].references:
        place = address - kernel.entry_address + _LITERAL
        content[place : place + _LITERAL] = bytes(_LITERAL)
    return bytes(content)


def _is_toolchain(path: Path, compiler: Compiler) -> bool:
    """Return whether a header is part of the compiler, ROCm or the system."""
    from rocm_perf_lab import __file__ as package

    text = str(path)
    roots = [str(Path(package).parent), str(cache_dir()), "/usr/include", "/usr/lib", "/opt/rocm", *_prefixes(compiler)]
    return any(text.startswith(f"{root}/") for root in roots)


def _prefixes(compiler: Compiler) -> Iterator[str]:
    """Yield the installation directories of the compiler."""
    import sysconfig

    yield sysconfig.get_path("purelib")
    program = Path(compiler.command[0])
    if program.name in ("hipcc", "amdclang++"):
        yield str(program.resolve().parent.parent)
