"""Native code of a kernel as a shared library, which the emulated driver loads into the application.

Libraries are in the cache of the user under the key of the translated program. A checksum is appended to the ELF file; loaders
ignore it. They export one function, `kernel`; functions of the C runtime are undefined, and the preloaded driver defines them.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.core.resources import zig_environment
from rocm_perf_lab.emulator.c_library import find_zig

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.program import Program

_DIGEST_BYTES = 32
_EXPORTS = "{ global: kernel; local: *; };\n"


class LinkError(LabError):
    """Failed or missing linker."""


def native_library(program: Program, optimised: frozenset[int], directory: Path) -> Path:
    """Return the library of a program in `directory`; compile it unless an intact one exists.

    Args:
        program: Program of a kernel.
        optimised: Indices of the blocks to optimise.
        directory: Directory of libraries.

    Raises:
        UnsupportedInstruction: The program contains an instruction that the emulator does not implement.
        LinkError: The library cannot be linked.
    """
    from rocm_perf_lab.emulator.jit import compile_objects, program_key

    path = directory / f"{program_key(program, optimised)}.so"
    if not is_intact(path):
        content = _linked(compile_objects(program, optimised, position_independent=True))
        write_bytes(path, content + hashlib.sha256(content).digest())
    return path


def is_intact(path: Path) -> bool:
    """Return whether a library exists and is intact."""
    try:
        stored = path.read_bytes()
    except OSError:
        return False
    return len(stored) > _DIGEST_BYTES and hashlib.sha256(stored[:-_DIGEST_BYTES]).digest() == stored[-_DIGEST_BYTES:]


def _linked(objects: list[bytes]) -> bytes:
    """Return the shared library of object files that refer to each other."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-kernel-") as name:
        directory = Path(name)
        files = [directory / f"{number}.o" for number in range(len(objects))]
        for file, content in zip(files, objects, strict=True):
            file.write_bytes(content)
        exports, library = directory / "exports", directory / "kernel.so"
        exports.write_text(_EXPORTS)
        command = [_zig(), "ld.lld", "-shared", "-O2", "--version-script", str(exports), "-o", str(library), *map(str, files)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=zig_environment())
        if result.returncode != 0:
            raise LinkError(
                "the native code of a kernel cannot be linked",
                where=result.stderr.strip()[-2000:] or f"exit code {result.returncode}",
                hint="Free some disk space, or reinstall ziglang.",
            )
        return library.read_bytes()


def _zig() -> str:
    """Return the path of the compiler, which contains the linker."""
    found = find_zig()
    if found is None:
        raise LinkError("no linker for kernels was found", hint="Run pip install 'rocm-perf-lab[emulator]', which includes one.")
    return str(found)
