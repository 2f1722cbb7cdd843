"""The capture tool on rocm-perf-lab's HIP runtime: captures of applications without ROCm, replayed on the emulator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rocm_perf_lab.core.own_command import own_command

pytestmark = [pytest.mark.slow, pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has a GPU")]

SOURCE = """
#include <hip/hip_runtime.h>
__device__ int calls = 5;
struct Node { Node *next; int value; };
__global__ void link(Node *nodes) { nodes[0] = {nodes + 2, 3}; nodes[2] = {nullptr, 4}; }
__global__ void walk(const Node *first, int *sum) {
  for (const Node *node = first; node; node = node->next) *sum += node->value;
  calls++;
}
int main() {
  Node *nodes;
  int *sum, result = 0;
  hipStream_t stream;
  if (hipMalloc(&nodes, 3 * sizeof *nodes) || hipMalloc(&sum, sizeof *sum) || hipStreamCreate(&stream)) return 1;
  if (hipMemsetAsync(sum, 0, sizeof *sum, stream)) return 2;
  link<<<1, 1, 0, stream>>>(nodes);
  for (int k = 0; k < 3; k++) walk<<<1, 1, 0, stream>>>(nodes, sum);
  if (hipMemcpyAsync(&result, sum, sizeof result, hipMemcpyDeviceToHost, stream) || hipStreamSynchronize(stream)) return 3;
  return result == 3 * 7 ? 0 : 4;
}
"""


def rocm_perf(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(own_command(*arguments), cwd=directory, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the program, and a capture of the second dispatch of `walk`."""
    found = tmp_path_factory.mktemp("captures")
    (found / "list.hip").write_text(SOURCE)
    compiled = rocm_perf(found, "hipcc", "-O2", "list.hip", "-o", "list")
    assert compiled.returncode == 0, compiled.stderr
    captured = rocm_perf(found, "replay", "capture", "--kernel", "walk", "--dispatch", "1", "--output", "capture", "--", "./list")
    assert captured.returncode == 0, captured.stderr
    return found


def document(directory: Path, name: str) -> Any:
    return json.loads((directory / "capture" / name).read_text())


def test_a_capture_has_the_memory_that_pointers_reach_and_the_variables_before_the_dispatch(directory: Path) -> None:
    dispatch, memory = document(directory, "dispatch.json"), document(directory, "memory_regions.json")

    assert (dispatch["kernel"]["name"], dispatch["index"]) == ("walk(Node const*, int*)", {"kernel": 1, "process": 2})
    assert dispatch["agents"][dispatch["agent"]]["name"] == "gfx942"
    variables = (directory / "capture" / "variables.bin").read_bytes()
    (calls,) = [one for one in dispatch["variables"] if one["name"] == "calls"]
    assert int.from_bytes(variables[calls["offset"] :][:4], "little") == 5 + 1
    reached = [region for region in memory["regions"] if "kernarg" in region["reached_from"]]
    assert {region["location"] for region in reached} == {"gpu"}
    assert len(reached) == 2


def test_a_replay_has_the_captured_result(directory: Path) -> None:
    replayed = rocm_perf(directory, "replay", "full-vm", "--capture-dir", "capture", "--check", "--iterations", "2", "--json")

    assert replayed.returncode == 0, replayed.stderr
    verification = json.loads(replayed.stdout)["verification"]
    assert (verification["passed"], verification["exact"]) == (True, True)


def test_a_kernel_that_was_never_dispatched_is_an_error_with_the_others(directory: Path) -> None:
    found = rocm_perf(directory, "replay", "capture", "--kernel", "jump", "--output", "other", "--", "./list")

    assert found.returncode == 2
    assert "kernel 'jump' was never dispatched" in found.stderr
    assert "walk(Node const*, int*) (3 times)" in " ".join(found.stderr.split())
    assert not (directory / "other").exists()


def test_a_tools_library_without_entry_point_is_named(directory: Path) -> None:
    (directory / "empty.hip").write_text("")
    assert rocm_perf(directory, "hipcc", "-shared", "empty.hip", "-o", "empty.so").returncode == 0
    command = [*own_command("run", "--runtime", "lab", "--"), "./list"]
    environment = {"HSA_TOOLS_LIB": str(directory / "empty.so")}
    found = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in environment.items()), *command],
        cwd=directory, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert found.returncode == 0
    assert "empty.so is no HSA tools library" in found.stderr
