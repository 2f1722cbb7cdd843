"""Programs of this directory: sources, executables of AMD's compiler, and command lines that run them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, enter_root

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parent
_GPUS = {"two_gpus": 2}
_ARCHITECTURE = "gfx942"


@dataclass(frozen=True)
class Program:
    """HIP program of one source file: exit code 0 if its result is right, and the same output under any runtime."""

    source: Path

    @property
    def name(self) -> str:
        """Name of the source without its suffix."""
        return self.source.stem

    @property
    def purpose(self) -> str:
        """First line of the source, a comment."""
        return self.source.read_text(encoding="utf-8").partition("\n")[0].removeprefix("// ")

    def lab_command(self, options: Sequence[str] = ()) -> list[str]:
        """Return the command line that compiles the source and runs it on the runtime of this package."""
        return [*self._rocm_perf(), "--runtime", "lab", *options, str(self.source)]

    def rocm_command(self, root: Path, executable: Path, options: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs an executable on AMD's runtime."""
        return [*self._rocm_perf(), "--root", str(root), *options, "--", str(executable)]

    def rocm_executable(self, root: Path) -> Path:
        """Return the executable by the hipcc of a ROCm root; compile it unless it is in the cache.

        Raises:
            RuntimeError: The program does not compile.
        """
        inputs = self.source.read_bytes() + (root / COMPLETE_FILE).read_bytes()
        executable = cache_dir() / "benchmark-programs" / f"{self.name}-{hashlib.sha256(inputs).hexdigest()[:16]}"
        if not executable.exists():
            executable.parent.mkdir(parents=True, exist_ok=True)
            built = executable.with_name(f"{executable.name}.{os.getpid()}")
            command = ["hipcc", f"--offload-arch={_ARCHITECTURE}", "-O2", str(self.source), "-o", str(built), "-lhiprtc"]
            inside = enter_root(root, command, shared=[SOURCES], working_directory=executable.parent, environment={})
            done = subprocess.run(inside, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{self.name} does not compile:\n{done.stderr}")
            built.rename(executable)
        return executable

    def _rocm_perf(self) -> list[str]:
        rocm_perf = Path(sys.executable).with_name("rocm-perf")
        return [str(rocm_perf), "run", *(["--gpus", str(_GPUS[self.name])] if self.name in _GPUS else [])]


def all_programs() -> list[Program]:
    """Return the programs of this directory, by name."""
    return [Program(source) for source in sorted(SOURCES.glob("*.hip"))]
