"""Non-temporal accesses: the same values, with instructions that bypass the caches."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.optimize.transforms.streaming import StreamAccesses
from rocm_perf_lab.toolchain.disassembly import disassemble
from tests.builders.rewritten_kernels import buffer, emulated, kernel_of, reason_of, rewrites_of, size

KERNEL = kernel_of(
    [buffer("a", "f32", "n"), buffer("y", "f32", "n", access="out"), size("n")], grid=["ceil_div(n, 64)"], block=[64], n=203
)


def source(body: str) -> str:
    """Return a kernel with one index."""
    return f"""#include <hip/hip_runtime.h>
extern "C" __global__ void f(const float* a, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{ {body} }}
}}
"""


def test_stores_and_loads_have_the_non_temporal_bit() -> None:
    stores, both = rewrites_of(StreamAccesses(), source("y[i] = 2 * a[i];"))

    for rewrite, loads in ((stores, False), (both, True)):
        launch, outputs = emulated(KERNEL, rewrite.text)
        memory = {row.mnemonic: row.text for row in disassemble(launch.code_object, "f") if row.mnemonic.startswith("global_")}
        assert " nt" in memory["global_store_dword"]
        assert (" nt" in memory["global_load_dword"]) is loads
        np.testing.assert_array_equal(outputs["y"], 2 * launch.arguments[0].data)  # type: ignore[union-attr]


def test_a_buffer_that_is_loaded_twice_stays_in_the_caches() -> None:
    (only,) = rewrites_of(StreamAccesses(), source("y[i] = a[i] + a[n - 1 - i];"))

    assert only.description == "non-temporal stores"


def test_a_converted_value_keeps_its_conversion() -> None:
    rewrite = rewrites_of(StreamAccesses(), source("y[i] = i / 2;"))[0]

    assert emulated(KERNEL, rewrite.text)[1]["y"].tolist() == [i // 2 for i in range(203)]


@pytest.mark.parametrize("body", ["y[i] += a[i] + a[0];", "y[i] = y[n - 1] + a[0] + a[i];", "*(y + i) = a[i];"])
def test_other_accesses_are_kept(body: str) -> None:
    assert "no buffer has a single access" in reason_of(StreamAccesses(), source(body))
