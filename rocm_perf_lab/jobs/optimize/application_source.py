"""Source file, build command and program of an application: found, copied and built for each candidate."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.device.process_group import captured_in_group
from rocm_perf_lab.toolchain.diagnostics import redacted
from rocm_perf_lab.verify.application_outputs import ApplicationError

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.profiling.application import ApplicationProfiler

DEFAULT_BUILD = "hipcc -O3 {source} -o {binary}"
_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx")
_KERNEL = re.compile(rb"\b__global__\b")
_DEVICE_FLAGS = re.compile(r"-(?:D|U|I|std=|isystem|include|f|m(?!arch)|O).*")
_FLAGS_WITH_ARGUMENT = frozenset({"-D", "-U", "-I", "-isystem", "-include"})
_HIDDEN_DIRECTORIES = (".git",)
_SHOWN_OUTPUT = 500


@dataclass(frozen=True)
class ApplicationSource:
    """Source, build command and command line of an application.

    Args:
        source: Source file of the user; never modified.
        build: Command with `{source}` and `{binary}`.
        command: Command line of the application. `{binary}`, or the first argument without it, is replaced by the built binary.
    """

    source: Path
    build: str
    command: tuple[str, ...]

    def build_arguments(self, source: Path, binary: Path) -> list[str]:
        """Return the arguments of the build command for one candidate; they are executed without a shell."""
        return [a.replace("{source}", str(source)).replace("{binary}", str(binary)) for a in shlex.split(self.build)]

    def run_arguments(self, binary: Path) -> list[str]:
        """Return the command line of the application for one candidate."""
        if any("{binary}" in argument for argument in self.command):
            return [argument.replace("{binary}", str(binary)) for argument in self.command]
        return [str(binary), *self.command[1:]]

    def device_flags(self) -> tuple[str, ...]:
        """Return the arguments of the build command that affect device code: macros, include directories, language options."""
        flags: list[str] = []
        arguments = shlex.split(self.build)
        for number, argument in enumerate(arguments):
            if argument in _FLAGS_WITH_ARGUMENT and number + 1 < len(arguments):
                flags += [argument, arguments[number + 1]]
            elif _DEVICE_FLAGS.fullmatch(argument) and "{" not in argument and argument not in _FLAGS_WITH_ARGUMENT:
                flags.append(argument)
        return tuple(flags)


@dataclass(frozen=True)
class ApplicationBuilder:
    """Builds candidates of an application with the user's build command.

    Args:
        application: Source, build command and command line.
        directory: Parent of one directory per proposal.
        timeout_s: Limit of one build in seconds.
        profiler: Runs build commands that need its device; None runs the command directly.
    """

    application: ApplicationSource
    directory: Path
    timeout_s: float
    profiler: ApplicationProfiler | None = None

    def directory_of(self, proposal: Proposal) -> Path:
        """Return the directory of a proposal."""
        return self.directory / proposal.id

    def binary(self, proposal: Proposal) -> Path:
        """Return the path of a proposal's binary."""
        return (self.directory_of(proposal) / "application").absolute()

    def source(self, proposal: Proposal) -> Path:
        """Return the path of a proposal's source, in a directory with links to the siblings of the user's file."""
        return (self.directory_of(proposal) / "source" / self.application.source.name).absolute()

    def place(self, proposal: Proposal) -> Path:
        """Write a proposal's source and link the siblings of the user's file, so that its includes are found."""
        path = self.source(proposal)
        shutil.rmtree(path.parent, ignore_errors=True)
        write_text(path, proposal.text)
        for sibling in sorted(self.application.source.absolute().parent.iterdir()):
            if sibling.name != path.name and sibling.name not in _HIDDEN_DIRECTORIES:
                (path.parent / sibling.name).symlink_to(sibling)
        return path

    def command(self, proposal: Proposal) -> list[str]:
        """Return the command line that runs a proposal."""
        return self.application.run_arguments(self.binary(proposal))

    def build(self, proposal: Proposal) -> None:
        """Run the user's build command.

        Output of the build of a rewrite is redacted, because it is stored and may be sent to a model.

        Raises:
            ApplicationError: The command cannot be started, fails, hangs or writes no executable.
        """
        source, binary = self.source(proposal), self.binary(proposal)
        binary.unlink(missing_ok=True)
        command = self.application.build_arguments(source, binary)
        started = command if self.profiler is None else self.profiler.building(command)
        try:
            ended = captured_in_group(started, self.timeout_s)
        except OSError as error:
            raise ApplicationError(f"the build command cannot be started: {error.strerror}", where=shlex.join(command)) from error
        except subprocess.TimeoutExpired as error:
            raise ApplicationError(f"the build took more than {self.timeout_s:g} s", where=shlex.join(command)) from error
        if ended.returncode != 0 or not os.access(binary, os.X_OK):
            said = (ended.stderr or ended.stdout).decode(errors="replace")
            if proposal.parent_id is not None:  # Only output about a rewrite is redacted.
                said = redacted(said, source)
            message = said.strip()[-_SHOWN_OUTPUT:] or "no executable file was written"
            raise ApplicationError(f"the build command failed: {message}", where=shlex.join(command), hint="check --build")


def require_placeholders(build: str) -> None:
    """Check that a build command contains the placeholders `{source}` and `{binary}`.

    Raises:
        LabError: A placeholder is missing.
    """
    missing = [name for name in ("{source}", "{binary}") if name not in build]
    if missing:
        raise LabError(
            f"the build command has no {' and no '.join(missing)}",
            where=f"--build {shlex.quote(build)}",
            hint=f'for example "{DEFAULT_BUILD}"',
        )


def find_source(program: str, *, command: str = "optimize") -> Path:
    """Return the HIP source of a program: the file with the program's name, or the only file with kernels.

    The directory of the program and the working directory are searched.

    Args:
        program: First argument of the application's command line.
        command: Command of `rocm-perf`, for the hint.

    Raises:
        LabError: No file has a kernel, or several have one and no name is that of the program.
    """
    binary = Path(shutil.which(program) or program)
    directories = dict.fromkeys((binary.absolute().parent, Path.cwd()))
    sources = [file for directory in directories for file in _with_kernels(directory)]
    named = [file for file in sources if file.name.partition(".")[0] == binary.name.partition(".")[0]]
    chosen = named or sources
    if len(chosen) == 1:
        return chosen[0]
    problem = (
        f"several source files have kernels: {', '.join(file.name for file in chosen)}"
        if chosen
        else f"no source file with a __global__ function ({', '.join(_SUFFIXES)}) is next to the application"
    )
    raise LabError(
        problem,
        where=program,
        hint=f'rocm-perf {command} {program} --source kernel.hip --build "{DEFAULT_BUILD}"',
    )


def _with_kernels(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    files = (file for file in sorted(directory.iterdir()) if file.suffix in _SUFFIXES and file.is_file())
    return [file for file in files if _KERNEL.search(file.read_bytes())]
