"""Commands with which a source was compiled, from `compile_commands.json`, a build log, or a recorded command.

Only what decides about the device code is kept: macros, directories of headers, language and code generation options.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DATABASE = "compile_commands.json"
SOURCE_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx", ".c++", ".C")
_COMPILER = re.compile(r"(?:^|/)(?:hipcc|amdclang\+\+|clang\+\+(?:-\d+)?|clang(?:-\d+)?)$")
_OPTIMISATION = re.compile(r"-O(?:[0-3sz]|fast)?")
_DIRECTORIES = ("-I", "-isystem", "-iquote", "-idirafter")
_WITH_VALUE = frozenset(
    {"-o", "-x", "-MF", "-MT", "-MQ", "-L", "-l", "-Xlinker", "-Xclang", "-dumpdir", "-resource-dir", "-stdlib++-isystem", "-B"}
    | {"-target", "--offload-arch", "-arch", "--rocm-path"}
)
"""Options without influence here, or chosen by rocm-perf-lab, whose value is the next word."""
_KEPT = ("-f", "-m", "-std=", "--std=", "-U", "-pthread", "-amdgpu", "--gpu-max-threads-per-block=", "-munsafe")
_DROPPED = (
    *("-fPIC", "-fpic", "-fPIE", "-fpie", "-fcolor-diagnostics", "-fdiagnostics", "-fansi", "-fgpu-rdc", "-fdebug-prefix-map"),
    *("-fuse-ld", "-fvisibility", "-ffile-prefix-map", "-mcpu=", "-march=", "-mtune=", "-flto", "-fno-gpu-rdc", "-fuse-cuid"),
    *("-fdebug-compilation-dir", "-fhip-", "-fno-hip-emit", "-frecord", "-grecord"),
)


@dataclass(frozen=True)
class CompileCommand:
    """Parts of a command that concern the device code of one source; paths are absolute. `origin` is its place."""

    source: Path
    origin: str
    defines: Mapping[str, str] = field(default_factory=dict)
    include_dirs: tuple[Path, ...] = ()
    flags: tuple[str, ...] = ()
    optimisation: str | None = None


def parse_command(words: Sequence[str], directory: Path, origin: str, source: Path | None = None) -> CompileCommand | None:
    """Return the relevant parts of a command; None if it compiles no C++ or HIP source.

    Args:
        words: Command, with or without the compiler.
        directory: Directory in which it ran.
        origin: Its place, for messages.
        source: Its source, if known; otherwise the first word with the suffix of a source.
    """
    defines: dict[str, str] = {}
    directories: list[Path] = []
    flags: list[str] = []
    optimisation = None
    found = source
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option = next((o for o in (*_DIRECTORIES, "-D", "-include") if word.startswith(o)), None)
        if option is not None:
            value = word[len(option) :] or (rest.pop(0) if rest else "")
            if option == "-D":
                name, equals, content = value.partition("=")
                defines[name] = content if equals else "1"
            elif option == "-include":
                flags += ["-include", str(_absolute(directory, value))]
            else:
                directories.append(_absolute(directory, value))
        elif word in _WITH_VALUE:
            rest[:1] = []
        elif _OPTIMISATION.fullmatch(word):
            optimisation = word if word != "-O" else "-O1"
        elif word == "-mllvm" and rest:
            flags += [word, rest.pop(0)]
        elif word.startswith(_KEPT) and not word.startswith(_DROPPED):
            flags.append(word)
        elif found is None and not word.startswith("-") and word.endswith(SOURCE_SUFFIXES):
            found = Path(word)
    if found is None:
        return None
    return CompileCommand(
        _absolute(directory, str(found)), origin, defines, tuple(dict.fromkeys(directories)), tuple(flags), optimisation
    )


def read_compile_commands(path: Path) -> tuple[CompileCommand, ...]:
    """Return the commands of a compilation database.

    Raises:
        LabError: The file cannot be read, or is not a compilation database.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return tuple(command for entry in entries if (command := _of_entry(entry, path)) is not None)
    except OSError as error:
        raise LabError(f"cannot read the commands: {error.strerror or error}", where=str(path)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LabError(
            f"this is no compilation database: {error}",
            where=str(path),
            hint="Create one: cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, or bear -- make",
        ) from error


def read_build_log(path: Path) -> tuple[CompileCommand, ...]:
    """Return the commands of hipcc and clang in the output of a build, for example of `make -n` or `ninja -v`.

    Raises:
        LabError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    except OSError as error:
        raise LabError(f"cannot read the build log: {error.strerror or error}", where=str(path)) from error
    return tuple(_of_log(text, path))


def _of_log(text: str, path: Path) -> Iterator[CompileCommand]:
    directory = path.absolute().parent
    for line in text.splitlines():
        entered = re.search(r"Entering directory [`'\"]([^'\"]+)", line) or re.match(r"\s*cd (\S+) && ", line)
        if entered is not None:
            directory = _absolute(directory, entered[1].strip("'\""))
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        start = next((n for n, word in enumerate(words) if _COMPILER.search(word)), None)
        command = parse_command(words[start + 1 :], directory, str(path)) if start is not None else None
        if command is not None:
            yield command


def _of_entry(entry: Any, path: Path) -> CompileCommand | None:
    words = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
    directory = _absolute(path.absolute().parent, entry["directory"])
    return parse_command(words[1:], directory, str(path), Path(entry["file"]))


def _absolute(directory: Path, name: str) -> Path:
    return Path(os.path.normpath(directory.absolute() / name))
