"""`rocm-perf hipcc`: programs, shared libraries and object files from HIP and C sources, for rocm-perf-lab's HIP runtime."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.jobs.run.dependency_file import DependencyOptions
from rocm_perf_lab.jobs.run.launch import compile_sources
from rocm_perf_lab.target.catalog import DEFAULT_TARGET, load_target, target_names
from rocm_perf_lab.toolchain.build_arguments import BuildArguments
from rocm_perf_lab.toolchain.hip_program import SOURCE_SUFFIXES, HipProgram, build_objects
from rocm_perf_lab.toolchain.linked_files import is_linked_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.target.model import Target

_OUTPUT, _ARCHITECTURE, _OBJECTS = "-o", "--offload-arch=", "-c"
_OPENMP = "-openmp"
_WITHOUT_EFFECT = ("-pipe", "--hip-link")
_DEFAULT_OUTPUT = "a.out"
_WHERE = "rocm-perf hipcc"


@dataclass(frozen=True)
class CompilationRequest:
    """Sources to compile, and objects and archives to link."""

    sources: tuple[Path, ...]
    output: Path | None
    """None: `a.out`, or the name of each source with `.o`."""
    architecture: str | None
    """None: that of the default target."""
    options: str
    """Other options of compiler and linker, quoted for a shell, with the names of objects and archives."""
    is_linked: bool = True
    """False: write object files (-c)."""
    dependencies: DependencyOptions = field(default_factory=DependencyOptions)

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Sort the arguments of hipcc.

        Raises:
            LabError: There is nothing to compile or link, no name after -o, one name for several objects, or more than one
                architecture.
        """
        dependencies, words = DependencyOptions.take(_without_response_files(arguments))
        rest = list(words)
        sources, options, architectures = [], [], []
        output = None
        while rest:
            word = rest.pop(0)
            if word.startswith(_OUTPUT) and word != _OPENMP:
                if word == _OUTPUT and not rest:
                    raise LabError("-o has no file name", where=_WHERE)
                output = Path(word.removeprefix(_OUTPUT) or rest.pop(0))
            elif word.startswith(_ARCHITECTURE):
                architectures += word.removeprefix(_ARCHITECTURE).split(",")
            elif word.endswith(SOURCE_SUFFIXES) and not word.startswith("-"):
                sources.append(Path(word))
            elif word not in (_OBJECTS, *_WITHOUT_EFFECT):
                options.append(word)
        is_linked = _OBJECTS not in words
        if not sources and not (is_linked and any(map(is_linked_file, options))):
            raise LabError("there is no source to compile", where=_WHERE, hint="rocm-perf hipcc main.hip -o app")
        if output is not None and len(sources) > 1 and not is_linked:
            raise LabError(f"{output} cannot be the object of {len(sources)} sources", where="-c", hint="remove -o")
        if len(set(architectures)) > 1:
            raise LabError(
                f"programs have code for one architecture, not for {', '.join(architectures)}",
                where="--offload-arch",
                hint="compile once per architecture, or use ROCm's hipcc",
            )
        architecture = architectures[0] if architectures else None
        return cls(tuple(sources), output, architecture, shlex.join(options), is_linked, dependencies)

    @property
    def target(self) -> Target:
        """A GPU of the architecture.

        Raises:
            LabError: There is none.
        """
        wanted = self.architecture
        found = [target for target in map(load_target, (DEFAULT_TARGET, *target_names())) if target.architecture == wanted]
        if wanted is None:
            return load_target(DEFAULT_TARGET)
        if not found:
            known = sorted({load_target(name).architecture for name in target_names()})
            raise LabError(f"unknown architecture {wanted}", where="--offload-arch", hint=f"use one of {', '.join(known)}")
        return found[0]


def run_compilation(request: CompilationRequest) -> None:
    """Write the program, the shared library or the object files; messages of the compiler go to standard error.

    Raises:
        LabError: The sources do not compile, or a file cannot be written.
    """
    if request.is_linked:
        built = compile_sources(request.sources, request.target, request.options, "lab", None, where=_WHERE)
        output = request.output or Path(_DEFAULT_OUTPUT)
        _report(built.warnings)
        _write(output, built.path.read_bytes(), mode=0o755)
        request.dependencies.write(output, built.dependencies)
    else:
        _compile_objects(request)


def _compile_objects(request: CompilationRequest) -> None:
    arguments = BuildArguments.parse(request.options, _WHERE)
    objects = build_objects(HipProgram(request.sources, request.target.architecture, arguments), cache_dir())
    _report("".join(f"rocm-perf: {note}\n" for note in arguments.notes))
    for source, built in zip(request.sources, objects, strict=True):
        output = request.output or Path(f"{source.stem}.o")
        _report(built.warnings)
        _write(output, built.content)
        request.dependencies.write(output, built.dependencies)


def _without_response_files(arguments: Sequence[str]) -> list[str]:
    """Return arguments with the contents of files that are named as @FILE, as build systems do for long command lines.

    Raises:
        LabError: Such a file cannot be read.
    """
    found = []
    for word in arguments:
        if not word.startswith("@"):
            found.append(word)
            continue
        try:
            found += shlex.split(Path(word[1:]).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LabError(f"the arguments in {word[1:]} cannot be read: {error}", where=_WHERE) from error
    return found


def _report(messages: str) -> None:
    print(messages, file=sys.stderr, end="", flush=True)


def _write(output: Path, content: bytes, mode: int | None = None) -> None:
    try:
        if output.exists() and not output.is_file():
            output.write_bytes(content)  # a device such as /dev/null stays one
            return
        write_bytes(output, content)
        if mode is not None:
            output.chmod(mode)
    except OSError as error:
        raise LabError(f"the output cannot be written: {error.strerror}", where=str(output)) from error
