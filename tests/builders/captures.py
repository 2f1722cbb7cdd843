"""Captures of emulated dispatches: small kernels over flat buffers and over linked structures."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.kernarg import pack_kernarg
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.replay.emulated_capture import EmulatedDispatch, capture_dispatch
from tests.builders.kernels import build_hip
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.emulator.memory import Allocation
    from rocm_perf_lab.replay.format import CaptureMode
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""
#include <hip/hip_runtime.h>
struct Node { Node* next; int value; int visits; };
struct Tree { Tree* left; Tree* right; int value; int sum; };
__device__ int calls = 5;
__device__ int* where_calls_are = &calls;

extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * factor;
}
extern "C" __global__ void in_place(float* x) { x[threadIdx.x] = x[threadIdx.x] * FACTOR; }
extern "C" __global__ void walk(Node* head, int* total) {
  int sum = 0;
  for (Node* n = head; n; n = n->next) { sum += n->value; n->visits += 1; }
  *total = sum;
}
extern "C" __global__ void add_up(Tree* root, int* total) {
  Tree* stack[64]; int depth = 0, sum = 0;
  stack[depth++] = root;
  while (depth > 0) {
    Tree* t = stack[--depth];
    sum += t->value; t->sum = sum;
    if (t->left) stack[depth++] = t->left;
    if (t->right) stack[depth++] = t->right;
  }
  *total = sum;
}
extern "C" __global__ void count(int* out) {
  if (threadIdx.x == 0) { *where_calls_are += 1; out[0] = calls; }
}
extern "C" __global__ void turn(const int* in, int* out) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void hang(int* flag) {
  while (__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == FLAG) {}
}
extern "C" __global__ void at(int* x, long index) { x[index + OFFSET] = 7; }
"""
DEFINES: Mapping[str, str | float] = {"FACTOR": "2.0f", "FLAG": 1, "OFFSET": 0}


@cache
def code_object(**defines: str | float) -> CodeObject:
    """Compile the kernels above; defines select variants with the same signature."""
    with TemporaryDirectory() as directory:
        return build_hip(SOURCE, Path(directory), defines={**DEFINES, **defines}).code_object


class Scene:
    """Machine with buffers; `capture` runs one kernel on them."""

    def __init__(self, code: CodeObject | None = None) -> None:
        self.machine = EmulatedGpu(mi300x(), max_instructions=10**7)
        self.loaded = self.machine.load(code or code_object())

    def buffer(self, content: np.ndarray[tuple[int, ...], np.dtype[np.generic]] | bytes, name: str = "x") -> Allocation:
        """Allocate device memory with this content."""
        raw = content if isinstance(content, bytes) else content.tobytes()
        allocation = self.machine.allocate(name, len(raw))
        self.machine.write(allocation, raw)
        return allocation

    def capture(
        self,
        directory: Path,
        kernel: str,
        arguments: Sequence[Allocation | bytes | int],
        *,
        grid: int = 1,
        block: int = 64,
        lds: int = 0,
        remainder: int = 0,
        mode: CaptureMode = "reachable",
        types: Mapping[str, str] | None = None,
    ) -> Path:
        """Run a kernel, capture it, and close the machine."""
        values = [a if isinstance(a, bytes | int) else a.address for a in arguments]
        geometry = Geometry((grid, 1, 1), (block, 1, 1), lds, (remainder, 0, 0))
        kernarg = pack_kernarg(self.loaded.kernel(kernel), values, geometry)
        dispatch = EmulatedDispatch(self.loaded, kernel, geometry, kernarg, types or {})
        capture_dispatch(self.machine, dispatch, directory, target=mi300x(), mode=mode)
        self.machine.close()
        return directory


def scale_capture(directory: Path, n: int = 5000, types: Mapping[str, str] | None = None) -> Path:
    """Capture y = 3 x for `n` floats."""
    scene = Scene()
    x, y = scene.buffer(np.arange(n, dtype=np.float32)), scene.buffer(np.zeros(n, dtype=np.float32), "y")
    scalars = [struct.pack("<f", 3.0), struct.pack("<i", n)]
    return scene.capture(directory, "scale", [x, y, *scalars], grid=-(-n // 64), types=types)


def list_capture(directory: Path, values: Sequence[int] = (3, 1, 4, 1, 5)) -> Path:
    """Capture a linked list with each node in a separate allocation; only the head is an argument."""
    scene = Scene()
    scene.buffer(np.arange(4, dtype=np.int32), "nobody's")
    nodes = [scene.machine.allocate(f"node {i}", 16) for i in range(len(values))]
    for node, following, value in zip(nodes, [*nodes[1:], None], values, strict=True):
        scene.machine.write(node, struct.pack("<Qii", following.address if following is not None else 0, value, 0))
    total = scene.buffer(np.zeros(1, dtype=np.int32), "total")
    return scene.capture(directory, "walk", [nodes[0], total], block=1)


def tree_capture(directory: Path) -> Path:
    """Capture a tree of seven nodes in one allocation, with values 1 to 7."""
    scene = Scene()
    tree = scene.machine.allocate("tree", 7 * 24)
    content = b""
    for i in range(7):
        children = [tree.address + 24 * c if c < 7 else 0 for c in (2 * i + 1, 2 * i + 2)]
        content += struct.pack("<QQii", *children, i + 1, 0)
    scene.machine.write(tree, content)
    total = scene.buffer(np.zeros(1, dtype=np.int32), "total")
    return scene.capture(directory, "add_up", [tree, total], block=1)
