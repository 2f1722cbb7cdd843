"""Captures of HIP programs inside AMD's runtime on the emulated driver, and their replays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.builders.rocm_programs import RocmPrograms

ROCM_PERF = str(Path(sys.executable).with_name("rocm-perf"))


@dataclass(frozen=True)
class Captures:
    """Directory in which captures of a program are made."""

    programs: RocmPrograms
    directory: Path
    program: str = "captured"

    def rocm_perf(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of rocm-perf to its end."""
        return subprocess.run(
            [ROCM_PERF, *arguments],
            cwd=self.directory,
            env=os.environ | {"NO_COLOR": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )

    def inside(self, *arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of rocm-perf, with a cache of its own if one is given, inside the root on its emulated GPU."""
        before = ["/usr/bin/env", f"ROCM_PERF_LAB_CACHE={cache}"] if cache else []
        return self.rocm_perf("run", "--root", str(self.programs.root), "--", *before, ROCM_PERF, *arguments)

    def command(self, output: str, kernel: str, check: str, *options: str, before: tuple[str, ...] = ()) -> list[str]:
        """Return the arguments that capture a dispatch of one check of the program."""
        application = [*before, str(self.programs.compile(self.program)), check]
        return ["replay", "capture", "--kernel", kernel, "--output", output, *options, "--", *application]

    def make(self, output: str, kernel: str, check: str, *options: str, before: tuple[str, ...] = ()) -> str:
        """Capture a dispatch on the emulated GPU, which is chosen automatically, and return the directory."""
        root = ("--root", str(self.programs.root))
        made = self.rocm_perf(*self.command(output, kernel, check, *root, *options, before=before))
        assert made.returncode == 0, made.stdout + made.stderr
        assert f"PASS {check}" in made.stdout
        return output

    def replays(self, name: str, *options: str) -> list[dict[str, Any]]:
        """Replay a capture with a check through ROCm's runtime and on the emulator; return the documents."""
        full_vm = ("replay", "full-vm", "--capture-dir", name, "--check", "--json", *options)
        return [document(self.inside(*full_vm)), document(self.rocm_perf(*full_vm, "--device", "emulator"))]

    def content(self, name: str, file: str) -> dict[str, Any]:
        """Return a document of a capture."""
        parsed: dict[str, Any] = json.loads((self.directory / name / file).read_text())
        return parsed


def document(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the JSON that a successful command printed."""
    assert run.returncode == 0, run.stdout + run.stderr
    parsed: dict[str, Any] = json.loads(run.stdout)
    return parsed
