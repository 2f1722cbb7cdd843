"""`rocm-perf hipcc`: an executable or shared library from HIP sources, for rocm-perf-lab's HIP runtime."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.jobs.run.launch import compile_sources
from rocm_perf_lab.target.catalog import DEFAULT_TARGET, load_target, target_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.target.model import Target

_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx", ".c")
_OUTPUT, _ARCHITECTURE = "-o", "--offload-arch="
_DEFAULT_OUTPUT = "a.out"


@dataclass(frozen=True)
class CompilationRequest:
    """Sources to compile and link."""

    sources: tuple[Path, ...]
    output: Path
    architecture: str | None
    """None: that of the default target."""
    options: str
    """Other options of compiler and linker, quoted for a shell."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        """Sort the arguments of hipcc.

        Raises:
            LabError: There is no source, no name after -o, or more than one architecture.
        """
        rest = list(words)
        sources, options, architectures = [], [], []
        output = _DEFAULT_OUTPUT
        while rest:
            word = rest.pop(0)
            if word == _OUTPUT:
                if not rest:
                    raise LabError("-o has no file name", where="rocm-perf hipcc")
                output = rest.pop(0)
            elif word.startswith(_ARCHITECTURE):
                architectures += word.removeprefix(_ARCHITECTURE).split(",")
            elif word.endswith(_SUFFIXES) and not word.startswith("-"):
                sources.append(Path(word))
            else:
                options.append(word)
        if not sources:
            raise LabError("there is no source to compile", where="rocm-perf hipcc", hint="rocm-perf hipcc main.hip -o app")
        if len(architectures) > 1:
            raise LabError(
                f"programs have code for one architecture, not for {', '.join(architectures)}",
                where="--offload-arch",
                hint="compile once per architecture, or use ROCm's hipcc",
            )
        return cls(tuple(sources), Path(output), architectures[0] if architectures else None, shlex.join(options))

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


def compile_program(request: CompilationRequest) -> None:
    """Write the executable or shared library; messages of the compiler go to standard error.

    Raises:
        LabError: The sources do not compile, or the file cannot be written.
    """
    built = compile_sources(request.sources, request.target, request.options, "lab", None)
    print(built.warnings, file=sys.stderr, end="", flush=True)
    try:
        write_bytes(request.output, built.path.read_bytes())
        request.output.chmod(0o755)
    except OSError as error:
        raise LabError(f"the program cannot be written: {error.strerror}", where=str(request.output)) from error
