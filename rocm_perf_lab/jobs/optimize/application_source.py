"""Where the source of an application is, and how it is built, when its user says neither."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from rocm_perf_lab.core.errors import LabError

USUAL_BUILD = "hipcc -O3 {source} -o {binary}"

_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx")
_KERNEL = re.compile(rb"\b__global__\b")


def find_source(program: str) -> Path:
    """The file of HIP kernels that has the program's name, else the only one, beside the program or in the working directory.

    Args:
        program: First word of the application's command.

    Raises:
        LabError: There is none, or several and none of that name.
    """
    binary = Path(shutil.which(program) or program)
    directories = dict.fromkeys((binary.absolute().parent, Path.cwd()))
    sources = [file for directory in directories for file in _with_kernels(directory)]
    named = [file for file in sources if file.name.partition(".")[0] == binary.name.partition(".")[0]]
    chosen = named or sources
    if len(chosen) == 1:
        return chosen[0]
    found = ", ".join(file.name for file in chosen) if chosen else f"no file with a __global__ function ({', '.join(_SUFFIXES)})"
    raise LabError(
        f"which source file is to be rewritten? Beside the application {'are' if chosen else 'is'} {found}",
        where=program,
        hint=f'rocm-perf optimize {program} --source kernel.hip --build "{USUAL_BUILD}"',
    )


def _with_kernels(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    files = (file for file in sorted(directory.iterdir()) if file.suffix in _SUFFIXES and file.is_file())
    return [file for file in files if _KERNEL.search(file.read_bytes())]
