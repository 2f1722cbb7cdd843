"""Device libraries without ROCm: every control constant exists and has the value for gfx942."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import write_source

if TYPE_CHECKING:
    from pathlib import Path

VOTES = """
#include <hip/hip_runtime.h>
extern "C" __global__ void votes(const int* x, int* out) {
  int mine = x[threadIdx.x];
  int count = __syncthreads_count(mine), all = __syncthreads_and(mine), any = __syncthreads_or(mine);
  if (threadIdx.x == 0) { out[0] = count; out[1] = all != 0; out[2] = any != 0; out[3] = warpSize; }
}
"""


def test_votes_of_a_workgroup_link_and_count(tmp_path: Path) -> None:
    """The votes reduce over wavefronts and read their size from `__oclc_wavefrontsize_log2`."""
    build = compile_source(CompileRequest(write_source(VOTES, tmp_path)), compiler=find_compiler(("pip",)))
    some = (np.arange(256) % 3 == 0).astype(np.int32)
    with EmulatorBench(build.code_object) as bench:
        for x, expected in ((some, [86, 0, 1, 64]), (np.ones_like(some), [256, 1, 1, 64]), (0 * some, [0, 0, 0, 64])):
            out = bench.buffer(np.full(4, -1, np.int32))
            bench.launch("votes", 1, 256, bench.buffer(x), out)
            assert list(bench.read(out)) == expected
