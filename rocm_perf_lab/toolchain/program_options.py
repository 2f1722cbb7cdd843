"""Options of the compiler for one part of a program: the host part of a source, or its device code for an architecture."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.build_arguments import BuildArguments

_C_SUFFIX = ".c"
_STANDARDS_OF_CPP = ("-std=c++", "-std=gnu++", "--std=c++", "--std=gnu++")
OPTIMISATION = "-O2"
_LINE_TABLES = "-gline-tables-only"


def is_c(source: Path) -> bool:
    """Return whether a source is in C, which has a host part alone."""
    return source.suffix == _C_SUFFIX


def part_options(source: Path, architecture: str | None, arguments: BuildArguments, host_for: str) -> tuple[str, ...]:
    """Return the options that decide about one part; the user's come last, so that they win.

    Args:
        source: The source.
        architecture: Architecture of device code; None for the host part.
        arguments: Compiler and linker arguments.
        host_for: An architecture of the program, for the host part.
    """
    language = _language(source, architecture, arguments, host_for)
    return (*language, *_outputs(source, architecture, arguments), *_own(source, arguments))


def translation_options(
    source: Path, architecture: str | None, arguments: BuildArguments, host_for: str, output: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the options with which a part becomes text or LLVM bitcode: `output` is for example `-S` or `-E`."""
    return (*_language(source, architecture, arguments, host_for), *output, *_own(source, arguments))


def _language(source: Path, architecture: str | None, arguments: BuildArguments, host_for: str) -> tuple[str, ...]:
    if is_c(source):
        return ("-x", "c", OPTIMISATION, _LINE_TABLES, "-fPIC")
    common: tuple[str, ...] = ("-x", "hip", f"--offload-arch={architecture or host_for}", OPTIMISATION, _LINE_TABLES)
    if arguments.is_relocatable:
        # All parts name static kernels and variables after the source: by default the name depends on all options.
        common = (*common, f"-cuid={hashlib.sha256(str(source.absolute()).encode()).hexdigest()[:16]}")
    if architecture is None:
        return (*common, "--cuda-host-only", "-fPIC")
    return (*common, "--cuda-device-only", "--no-gpu-bundle-output")


def _outputs(source: Path, architecture: str | None, arguments: BuildArguments) -> tuple[str, ...]:
    if is_c(source) or architecture is None:
        return ("-c",)
    return ("-c", "-emit-llvm") if arguments.is_relocatable else ()


def _own(source: Path, arguments: BuildArguments) -> tuple[str, ...]:
    # One command may have sources in both languages.
    of_cpp = _STANDARDS_OF_CPP if is_c(source) else ()
    return tuple(word for word in arguments.compiler if not word.startswith(of_cpp))
