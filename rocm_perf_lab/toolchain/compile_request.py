"""Input of a compilation for the GPU: source, architecture, language, macros and flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class CompileRequest:
    """Input of one compilation.

    Args:
        source: HIP source file.
        architecture: Processor name: gfx942, gfx90a, gfx1030.
        language: `hip`, or `hiprtc` for sources without includes, as the runtime compiler of HIP accepts them.
        defines: Preprocessor macros; an empty value defines the bare name.
        flags: Additional compiler flags, after those of rocm-perf-lab.
        include_dirs: Directories that are searched for headers after the directory of the source.
        optimisation: `-O0` to `-O3`, `-Os`.
        line_tables: Record which source line each instruction comes from.
        host_headers: Patterns of headers that only host code uses: they are treated as empty if they are not found.
        promise_checks: Accesses trap if misaligned, and so do false assumptions.
    """

    source: Path
    architecture: str = "gfx942"
    language: Literal["hip", "hiprtc"] = "hip"
    defines: Mapping[str, str | int | float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    optimisation: str = "-O3"
    line_tables: bool = True
    host_headers: tuple[str, ...] = ()
    promise_checks: bool = False


def request_flags(request: CompileRequest) -> list[str]:
    """Return the compiler flags of a request."""
    return [
        f"--offload-arch={request.architecture}",
        request.optimisation,
        *(["-gline-tables-only"] if request.line_tables else []),
        *(f"-D{name}={value}" if value != "" else f"-D{name}" for name, value in sorted(request.defines.items())),
        *(f"-I{directory.absolute()}" for directory in request.include_dirs),
        *request.flags,
    ]
