"""HIP programs of the tests: compiled with the hipcc of a ROCm root, started with `rocm-perf run --root`."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, enter_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCES = Path(__file__).parents[1] / "runtime" / "programs"


@dataclass(frozen=True)
class RocmPrograms:
    """Programs inside a ROCm root."""

    root: Path
    architectures: tuple[str, ...] = ("gfx942", "gfx90a")

    def compile(self, name: str, directory: Path = SOURCES) -> Path:
        """Return the executable of a program for the architectures, with lines; compile it unless it is in the cache."""
        return self._compile(directory / f"{name}.hip", sorted(SOURCES.glob("*.h")), directory)

    def compile_file(self, source: Path, header: Path, directory: Path) -> Path:
        """Return the executable of a source file somewhere in a directory, which includes a header of this directory."""
        return self._compile(source, [header], directory)

    def _compile(self, source: Path, headers: Sequence[Path], directory: Path) -> Path:
        inputs = b"".join(file.read_bytes() for file in (source, *headers, self.root / COMPLETE_FILE))
        program = cache_dir() / "test-programs" / f"{source.stem}-{hashlib.sha256(inputs).hexdigest()[:16]}"
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            built = program.with_name(f"{program.name}.{os.getpid()}")
            targets = [f"--offload-arch={architecture}" for architecture in self.architectures]
            command = ["hipcc", *targets, "-O2", "-g", str(source), "-o", str(built), *self._libraries()]
            inside = enter_root(self.root, command, shared=[directory], working_directory=program.parent, environment={})
            done = subprocess.run(inside, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            built.rename(program)
        return program

    def _libraries(self) -> list[str]:
        """Return options that link the compiler of run time, which HIP 5 has in its own library."""
        return ["-lhiprtc"] if list((self.root / "usr/lib").glob("*/libhiprtc.so")) else []

    def command(self, command: Sequence[str | Path], options: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs a command on the emulated GPU."""
        rocm_perf = Path(sys.executable).with_name("rocm-perf")
        return [str(rocm_perf), "run", "--root", str(self.root), *options, "--", *map(str, command)]

    def run(
        self,
        command: Sequence[str | Path],
        options: Sequence[str] = (),
        *,
        variables: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the emulated GPU to its end, by default in its program's directory."""
        directory = working_directory or Path(command[0]).parent
        return subprocess.run(
            self.command(command, options),
            cwd=directory if directory.is_absolute() else "/",
            env={**os.environ, **(variables or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )


@dataclass(frozen=True)
class CheckResults:
    """Results of the checks of a program: the text after PASS or FAIL, by name."""

    passed: dict[str, str]
    failed: dict[str, str]
    process: subprocess.CompletedProcess[str]

    @classmethod
    def of(cls, process: subprocess.CompletedProcess[str]) -> CheckResults:
        """Read the output of a program."""
        lines = [line.split(" ", 2) for line in process.stdout.splitlines() if line.startswith(("PASS ", "FAIL "))]
        passed = {name: rest for word, name, rest in lines if word == "PASS"}
        failed = {name.rstrip(":"): rest for word, name, rest in lines if word == "FAIL"}
        return cls(passed, failed, process)

    def require(self, name: str) -> None:
        """Assert that a check passed."""
        assert name not in self.failed, self.failed[name]
        assert name in self.passed, (
            f"exit code {self.process.returncode}\n{self.process.stdout[-2000:]}\n{self.process.stderr[-4000:]}"
        )


def checks_of(name: str) -> list[str]:
    """Return the names of the checks of a program, from its `main`."""
    text = (SOURCES / f"{name}.hip").read_text(encoding="utf-8")
    return re.findall(r'[{ ]\{"(\w+)", [\w<> ]+\}', text)
