"""Small kernels with defects that depend on the shape or on the inputs, for tests of the trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.checker import CorrectnessChecker
from rocm_perf_lab.verify.policy import TrialPolicy
from rocm_perf_lab.verify.trial_runs import EmulatorRunner
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.build import BuildResult

_HEADER = "#include <hip/hip_runtime.h>\n"

SCALE = """extern "C" __global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = 3.0f * x[i];
}
"""
ROW_SUMS = """extern "C" __global__ void kernel(const float* x, float* y, int cols) {
  __shared__ float part[256];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += 256) sum += x[(size_t)blockIdx.x * cols + i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""
ROW_MAX = """extern "C" __global__ void kernel(const float* x, float* y, int cols) {
  __shared__ float part[256];
  float best = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += 256) best = fmaxf(best, x[(size_t)blockIdx.x * cols + i]);
  part[threadIdx.x] = best;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""


@dataclass(frozen=True)
class SmallKernel:
    """A right kernel: its source and the parts of its description that differ."""

    text: str
    params: dict[str, Any]
    shapes: tuple[tuple[str, ...], tuple[str, ...]]
    size: str
    grid: str
    reference: str

    def description(self, directory: Path, **changes: Any) -> KernelDescription:
        """Write the source and return the description, with some fields changed."""
        source = written(directory, self.text)
        fields: dict[str, Any] = {
            "name": "kernel",
            "source": source,
            "entry": "kernel",
            "directory": directory,
            "params": self.params,
            "arguments": [
                {"name": "x", "kind": "buffer", "dtype": "f32", "shape": self.shapes[0], "init": {"kind": "normal", "seed": 1}},
                {"name": "y", "kind": "buffer", "dtype": "f32", "shape": self.shapes[1], "access": "out"},
                {"name": self.size, "kind": "scalar", "dtype": "i32", "value": self.size},
            ],
            "grid": [self.grid],
            "block": [256],
            "reference": {"y": self.reference},
        }
        return KernelDescription.model_validate(fields | changes)


KERNELS = {
    "scale": SmallKernel(SCALE, {"n": 5000}, (("n",), ("n",)), "n", "ceil_div(n, 256)", "3 * x"),
    "row_sums": SmallKernel(
        ROW_SUMS, {"rows": 16, "cols": 1000}, (("rows", "cols"), ("rows",)), "cols", "rows", "sum(x, axis=1)"
    ),
    "row_max": SmallKernel(ROW_MAX, {"rows": 16, "cols": 1000}, (("rows", "cols"), ("rows",)), "cols", "rows", "max(x, axis=1)"),
}


def written(directory: Path, text: str, name: str = "kernel.hip") -> Path:
    """Write a source and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(_HEADER + text)
    return path


def correctness(description: KernelDescription, **policy: Any) -> CorrectnessChecker:
    """Return a checker that has recorded the kernel of a description, without guards."""
    target = mi300x()

    def compile_source(shaped: KernelDescription, source: Path) -> BuildResult:
        return compile_description(shaped, source, architecture=target.architecture, compiler=find_compiler, optimisation="-O3")

    checker = CorrectnessChecker(description, compile_source, [EmulatorRunner(target)], TrialPolicy(**{"seed": 5, **policy}))
    checker.record_baseline(description.source_path)
    return checker
