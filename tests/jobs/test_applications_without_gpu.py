"""`profile`, `optimize` and `autotune` on applications without a GPU: on the emulated one, with rocm-perf-lab's HIP runtime."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rocm_perf_lab.core.own_command import own_command

pytestmark = pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has a GPU")

# One thread per row, without unrolling: every load waits for the one before.
SOURCE = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <hip/hip_runtime.h>
__global__ void sum_rows(const float *in, float *out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int c = 0; c < cols; ++c) sum += in[row * cols + c];
  out[row] = sum;
}
int main(int argc, char **argv) {
  const int block = argc > 1 ? atoi(argv[1]) : 256, rows = 2048, cols = 64;
  std::vector<float> in(rows * cols), out(rows);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i % 7);
  float *a, *b;
  if (hipMalloc(&a, in.size() * 4) || hipMalloc(&b, rows * 4)) return 1;
  if (hipMemcpy(a, in.data(), in.size() * 4, hipMemcpyHostToDevice)) return 2;
  sum_rows<<<(rows + block - 1) / block, block>>>(a, b, rows, cols);
  if (hipGetLastError() != hipSuccess) return fprintf(stderr, "block %d is too large\\n", block), 3;
  if (hipMemcpy(out.data(), b, rows * 4, hipMemcpyDeviceToHost)) return 4;
  double total = 0;
  for (float x : out) total += x;
  printf("total %.1f\\n", total);
}
"""
TOTAL = sum(i % 7 for i in range(2048 * 64))


def rocm_perf(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(own_command(*arguments), cwd=directory, capture_output=True, text=True, check=False, timeout=600)


def document(directory: Path, name: str) -> Any:
    return json.loads((directory / name).read_text())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the program and its source."""
    found = tmp_path_factory.mktemp("application")
    (found / "rows.hip").write_text(SOURCE)
    compiled = rocm_perf(found, "hipcc", "-O2", "rows.hip", "-o", "rows")
    assert (compiled.returncode, compiled.stdout) == (0, ""), compiled.stderr
    return found


@pytest.mark.slow
def test_a_compiled_program_runs_and_is_profiled(place: Path) -> None:
    assert rocm_perf(place, "run", "--", "./rows").stdout == f"total {TOTAL:.1f}\n"

    found = rocm_perf(place, "profile", "--output", "profile", "./rows")

    assert found.returncode == 0, found.stderr
    assert "device  emulator: AMD Instinct MI300X" in found.stdout
    profile = document(place / "profile", "profile.json")
    assert profile["kernel"]["name"] == "sum_rows(float const*, float*, int, int)"
    assert profile["provenance"]["time_kind"] == "emulated"


@pytest.mark.slow
def test_optimize_builds_verifies_and_times_rewrites(place: Path) -> None:
    found = rocm_perf(place, "optimize", "tracking=none", "./rows", "--max-iterations", "1", "--output", "optimize")

    assert found.returncode == 0, found.stderr
    assert "rocm-perf hipcc --offload-arch=gfx942 -O3" in " ".join(found.stdout.split())
    result = document(place / "optimize", "optimize.json")
    accepted = [one for one in result["verdicts"] if one["accepted"]]
    assert result["time_kind"] == "emulated"
    assert accepted and "unroll" in accepted[0]["description"]
    assert result["best"]["runtime_ms"] < 0.7 * result["baseline"]["runtime_ms"]
    (binary,) = (place / "optimize" / "proposals").glob(f"{result['best']['proposal']}/application")
    assert rocm_perf(place, "run", "--", str(binary)).stdout == f"total {TOTAL:.1f}\n"


@pytest.mark.slow
def test_autotune_times_the_kernel_of_every_command(place: Path) -> None:
    (place / "space.json").write_text(json.dumps([{"B": size} for size in (64, 256, 1024, 2048)]))

    found = rocm_perf(
        place, "autotune", "--space", "space.json", "--cmd-template", "./rows {B}", "--output", "tune", "tracking=none"
    )  # fmt: skip

    assert found.returncode == 0, found.stderr
    result = document(place / "tune", "autotune.json")
    assert (result["time_kind"], result["best_config"]["parameters"]) == ("emulated", {"B": 64})
    assert result["timing"].endswith("emulated on AMD Instinct MI300X")
    (failed,) = result["failures"]
    assert failed["parameters"] == {"B": 2048}
    assert "block 2048 is too large" in failed["reason"]


def test_wall_clock_time_is_refused_for_the_emulated_gpu(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('[{"B": 1}]')
    options = ("--space", "space.json", "--cmd-template", "true {B}", "--timing", "wall", "device=emulator", "tracking=none")

    found = rocm_perf(tmp_path, "autotune", *options)

    assert found.returncode == 2
    assert "is not that of a GPU" in found.stderr
