"""One run of a compiler: its output, its errors with places and hints, and the files that it read."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.diagnostics import redacted, without_paths
from rocm_perf_lab.toolchain.missing_headers import hint_for, missing_header

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.sandbox import Sandbox

_LAB = Path(__file__).parent
_AT_A_PLACE = r"^(\S[^\n]*?:\d+:\d+): (?:fatal )?error: ([^\n]+)$"
"""Errors in the source. Errors without a location are errors of the machine: out of memory or disk space, a crash."""


class CompileError(LabError):
    """A source that the compiler rejected; `log` has the whole compiler output.

    `dependencies` are the files that the compiler had read, or None if the error may have another cause than these files.
    """

    dependencies: tuple[Path, ...] | None = None

    def __init__(self, what: str, *, log: str, where: str | None = None, hint: str | None = None) -> None:
        self.log = log
        super().__init__(what, where=where, hint=hint)


def run_compiler(
    command: tuple[str, ...],
    source: Path,
    output: Path,
    *,
    sandbox: Sandbox | None = None,
    readable: tuple[Path, ...] = (),
    origin: Path | None = None,
) -> tuple[tuple[Path, ...], str]:
    """Run clang on one source file.

    Args:
        command: Compiler and flags, without source and output.
        source: The file to compile.
        output: The file to write, in a directory for temporary files.
        sandbox: Runs the compiler with limits.
        readable: Directories that a sandboxed compiler may read, in addition to those of source and output.
        origin: The user's source if `source` was generated from it.

    Returns:
        The files that the compiler read and its diagnostics, with paths relative to the directory of the source.

    Raises:
        CompileError: The source does not compile.
    """
    origin = origin or source
    dependency_file = output.with_name("dependencies.d")
    arguments = (str(source), "-o", str(output), *front_end(*dependency_options(dependency_file)))
    returncode, log = call_compiler((*command, *arguments), origin, sandbox, output.parent, readable)
    if returncode != 0 or not output.is_file():
        refused = compile_error(origin, log)
        if sandbox is None and returncode > 0 and origin == source and places_of_errors(log) and dependency_file.is_file():
            refused.dependencies = _read_dependencies(dependency_file, origin.parent)
        raise refused
    return _read_dependencies(dependency_file, origin.parent), _relative_log(log, origin.parent)


def call_compiler(
    command: tuple[str, ...], source: Path, sandbox: Sandbox | None, directory: Path, readable: tuple[Path, ...]
) -> tuple[int, str]:
    """Return the exit code and the output of the compiler, which may fail.

    Args:
        command: Compiler with all arguments.
        source: The user's source.
        sandbox: Runs the compiler with limits.
        directory: Directory for temporary files, which a sandboxed compiler may write to.
        readable: Directories that a sandboxed compiler may read, in addition to that of the source.

    Raises:
        CompileError: The sandbox stopped the compiler.
    """
    if sandbox is None:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stderr or run.stdout
    ended = sandbox.run(command, directory, readable=(source.parent, *readable, _LAB))
    if ended.reason is not None:
        raise CompileError(
            f"the compiler was stopped: it {ended.reason}",
            log=ended.stderr,
            where=str(source),
            hint="Simplify the source, or raise the limits in optimizer.isolation.",
        )
    return ended.returncode, ended.stderr or ended.stdout


def redacted_error(error: CompileError, source: Path) -> CompileError:
    """Return the error of an untrusted source without paths and contents of other files; see :func:`redacted`."""
    log = redacted(error.log, source)
    if places_of_errors(error.log):
        new = compile_error(source, log) if places_of_errors(log) else None
        what = new.what if new is not None else "the compiler reports an error outside of the source"
    else:
        what = without_paths(error.what, source)
    hint = without_paths(error.hint, source) if error.hint is not None else None
    return CompileError(what, log=log, where=error.where, hint=hint)


def reproducible_paths(source: Path) -> tuple[str, ...]:
    """Return flags that make line tables name files relative to the source, so that its directory does not matter."""
    return (
        f"-ffile-prefix-map={source.parent}{os.sep}=",
        f"-ffile-prefix-map={source.parent.absolute()}{os.sep}=",
        "-fdebug-compilation-dir=.",
    )


def front_end(*options: str) -> tuple[str, ...]:
    """Return the words that pass options to clang's front end."""
    return tuple(word for option in options for word in ("-Xclang", option))


def dependency_options(path: Path) -> tuple[str, ...]:
    """Return options of the compiler front end that list the files which it reads; the driver drops -MD for GPU code."""
    return ("-dependency-file", str(path), "-MT", "kernel")


def _read_dependencies(path: Path, source_dir: Path) -> tuple[Path, ...]:
    """Return the files in a dependency file, relative to `source_dir` if they are below it."""
    paths = map(Path, read_prerequisites(path))
    return tuple(p.relative_to(source_dir) if p.is_relative_to(source_dir) else p.absolute() for p in paths)


def read_prerequisites(path: Path) -> tuple[str, ...]:
    """Return the prerequisites of the rule in a dependency file, as the compiler names them."""
    prerequisites = path.read_text().partition(":")[2].replace("\\\n", " ")
    words = re.findall(r"(?:\\ |\\#|\$\$|\S)+", prerequisites)
    return tuple(re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in words)


def _relative_log(log: str, source_dir: Path) -> str:
    """Return diagnostics with paths relative to the directory of the source."""
    if source_dir == Path():
        return log
    return re.sub(rf"^((?:In file included from )?){re.escape(f'{source_dir}{os.sep}')}", r"\1", log, flags=re.MULTILINE)


def places_of_errors(log: str) -> list[tuple[str, str]]:
    """Return place (`file:line:column`) and message of the errors in a source, in the order of the log."""
    return re.findall(_AT_A_PLACE, log, re.MULTILINE)


def compile_error(source: Path, log: str) -> CompileError:
    """Return the error that describes a log of the compiler."""
    errors = places_of_errors(log)
    if not errors:
        first = next((line for line in log.splitlines() if "error:" in line), "the compiler failed without a message")
        return CompileError(first, log=log, where=str(source), hint="See the full log of the compiler.")
    what = "\n".join(f"{place}: {message}" for place, message in errors[:5])
    missing = missing_header(log)
    hint = hint_for(missing) if missing is not None else f"Correct {errors[0][0]} and compile again."
    return CompileError(what, log=log, where=str(source), hint=hint)
