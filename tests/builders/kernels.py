"""HIP sources for tests, compiled by a real compiler and cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.build import BuildResult, CompileRequest, compile_source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VEC_COPY = """\
#include <hip/hip_runtime.h>
__global__ void vecCopy(double* a, double* b, double* c, int n, int stride) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id < n) c[id] = a[id];
}
"""


def write_source(source_text: str, directory: Path, name: str = "kernel.hip") -> Path:
    """Write a source file to `directory`."""
    source = directory / name
    source.write_text(source_text)
    return source


def build_hip(
    source_text: str,
    tmp_path: Path,
    *,
    architecture: str = "gfx942",
    defines: Mapping[str, str | int | float] | None = None,
    flags: tuple[str, ...] = (),
    optimisation: str = "-O3",
    include_dirs: tuple[Path, ...] = (),
) -> BuildResult:
    """Compile HIP source text with the first available compiler."""
    request = CompileRequest(
        source=write_source(source_text, tmp_path),
        architecture=architecture,
        defines=defines or {},
        flags=flags,
        include_dirs=include_dirs,
        optimisation=optimisation,
    )
    return compile_source(request)
