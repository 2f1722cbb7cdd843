"""Directory with a small kernel, candidates for it, and an application that runs it on the emulator."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

BUILDER = Path(__file__).with_name("verify_application.py")
BUILD = f"{shlex.quote(sys.executable)} {shlex.quote(str(BUILDER))} {{source}} {{binary}}"
SCALE = """#include <hip/hip_runtime.h>

extern "C" __global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""
DESCRIPTION = """name: scale
source: scale.hip
entry: scale
params: {n: 1000, block: 64}
arguments:
  - {name: x, kind: buffer, dtype: f32, shape: [n], init: {kind: normal, seed: 1}}
  - {name: y, kind: buffer, dtype: f32, shape: [n], access: out}
  - {name: n, kind: scalar, dtype: i32, value: n}
grid: ["ceil_div(n, block)"]
block: [block]
reference: {y: 2.0 * x}
tolerance: {y: {rtol: 0.0, atol: 0.0}}
"""
BODY = "if (i < n) y[i] = 2.0f * x[i];"
BODIES = {
    "right": "if (i < n) y[i] = x[i] + x[i];",
    "wrong": "if (i < n) y[i] = 2.5f * x[i];",
    "tail": "if (i < (n & ~63)) y[i] = 2.0f * x[i];",
    "outside": "y[i] = 2.0f * x[i];",
    "hangs": "volatile int turn = 1;\n  while (turn) turn = 1;\n  if (i < n) y[i] = 2.0f * x[i];",
    "printf": 'printf("%d", i);\n  if (i < n) y[i] = 2.0f * x[i];',
    "syntax": "if (i < n y[i] = 2.0f * x[i];",
}
"""Body of the kernel by the name of the candidate."""


@dataclass(frozen=True)
class VerifyPlace:
    """Working directory: `experiments/scale`, and candidates."""

    directory: Path

    @classmethod
    def made(cls, directory: Path) -> VerifyPlace:
        """Write the kernel and its description."""
        kernel = directory / "experiments" / "scale"
        kernel.mkdir(parents=True)
        (kernel / "scale.hip").write_text(SCALE)
        (kernel / "kernel.yaml").write_text(DESCRIPTION)
        return cls(directory)

    def candidate(self, name: str) -> str:
        """Write a candidate of `BODIES`; return its file name."""
        path = self.directory / f"{name}.hip"
        path.write_text(SCALE.replace(BODY, BODIES[name]))
        return path.name

    def application(self) -> None:
        """Write `app.hip`, and `app`, which a build replaces."""
        (self.directory / "app.hip").write_text(SCALE)
        (self.directory / "app").write_text("#!/bin/sh\nexit 1\n")
        (self.directory / "app").chmod(0o755)
