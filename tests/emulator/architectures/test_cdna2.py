"""Instructions of gfx90a that gfx942 lacks or executes otherwise, and its scratch, against NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import LANES, WaveStatus
from tests.builders.emulation import EmulatorBench, int32
from tests.builders.kernels import build_hip
from tests.builders.opcodes import Snippets, assert_same, edge_floats, pairs
from tests.builders.waves import WaveBench
from tests.emulator.opcodes import test_matrices as matrices

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rocm_perf_lab.toolchain.code_object import CodeObject

ARCHITECTURE = "gfx90a"
BF16 = ml_dtypes.bfloat16
DENSE = {
    "f32_32x32x1f32": "f32_32x32x1_2b_f32", "f32_16x16x4f32": "f32_16x16x4_f32", "f32_4x4x4f16": "f32_4x4x4_16b_f16",
    "f32_32x32x8f16": "f32_32x32x8_f16", "f32_16x16x16f16": "f32_16x16x16_f16", "f64_16x16x4f64": "f64_16x16x4_f64",
    "f64_4x4x4f64": "f64_4x4x4_4b_f64", "i32_32x32x8i8": "i32_32x32x8_i8", "i32_16x16x16i8": "i32_16x16x16_i8",
    "i32_4x4x4i8": "i32_4x4x4_16b_i8", "f32_32x32x4bf16_1k": "f32_32x32x4_2b_bf16", "f32_16x16x4bf16_1k": "f32_16x16x4_4b_bf16",
    "f32_4x4x4bf16_1k": "f32_4x4x4_16b_bf16", "f32_32x32x8bf16_1k": "f32_32x32x8_bf16",
    "f32_16x16x16bf16_1k": "f32_16x16x16_bf16",
    "f32_32x32x2bf16": "f32_32x32x2_2b_bf16", "f32_16x16x2bf16": "f32_16x16x2_4b_bf16", "f32_4x4x2bf16": "f32_4x4x2_16b_bf16",
    "f32_32x32x4bf16": "f32_32x32x4_bf16", "f32_16x16x8bf16": "f32_16x16x8_bf16",
}  # fmt: skip
"""Name of the matrix instruction -> its shape in the notation of gfx942."""
UNFUSED: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "v_mac_f32 v20, v0, v2": lambda a, b, c, old: (a, b, old),
    "v_mac_f32_e64 v20, v0, v2": lambda a, b, c, old: (a, b, old),
    "v_mad_f32 v20, v0, v2, v4": lambda a, b, c, old: (a, b, c),
    "v_mad_legacy_f32 v20, v0, v2, v4": lambda a, b, c, old: (a, b, c),
    "v_madmk_f32 v20, v0, 0x3fc00000, v2": lambda a, b, c, old: (a, np.float32(1.5), b),
    "v_madak_f32 v20, v0, v2, 0xbfc00000": lambda a, b, c, old: (a, b, np.float32(-1.5)),
}  # fmt: skip
"""Instruction -> factors and addend, of the sources and the old result."""
DOTS = ["v_dot2_f32_f16 v20, v0, v2, v4", "v_dot2c_f32_f16 v20, v0, v2"]
LOADS = ["global_load_dword v[0:1], off lds", "buffer_load_dword off, s[4:7], 0 lds"]
FENCES = ["buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_invl2", "buffer_wbl2"]


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets(texts(), architecture=ARCHITECTURE)


def texts() -> list[str]:
    """Return the tested instructions."""
    return [*map(text_of, DENSE), *UNFUSED, *DOTS, *LOADS, *FENCES]


def text_of(name: str) -> str:
    return matrices.dense_text(DENSE[name]).replace(DENSE[name], name)


@pytest.mark.parametrize("name", DENSE)
def test_matrix_products_of_small_integers_are_exact(snippets: Snippets, name: str) -> None:
    run = matrices.run_dense(snippets, DENSE[name], text_of(name))

    np.testing.assert_array_equal(run.d, (matrices.multiplied(run.a, run.b) + run.c).astype(run.shape.out))


@pytest.mark.parametrize("name", ["f32_16x16x16f16", "f32_16x16x16bf16_1k", "f32_16x16x8bf16"])
def test_products_of_halves_flush_denormals(snippets: Snippets, name: str) -> None:
    shape = matrices.Shape.of(DENSE[name])
    kind = matrices.TYPES[shape.kinds[0]]
    denormal = np.array([0x8001], np.uint16).view(kind)[0]
    with WaveBench() as bench:

        def product(a: Any, b: Any, c: float) -> set[float]:
            matrices.put(bench, "v", matrices.A_ROW, np.full((LANES, shape.per_lane), a, kind))
            matrices.put(bench, "v", matrices.B_ROW, np.full((LANES, shape.per_lane), b, kind))
            matrices.put(bench, "v", matrices.C_ROW, np.full((LANES, 4), c, np.float32))
            assert bench.execute(snippets, text_of(name)) == WaveStatus.BARRIER
            return set(matrices.get(bench, "v", matrices.D_ROW, 4, np.float32).ravel().tolist())

        assert product(denormal, kind(1), 1.0) == {1.0}
        assert product(kind(1), kind(1), 2.0**-127) == {float(shape.depth)}
        assert product(kind(0), kind(1), 2.0**-127) == {0.0}


def test_products_of_float32_keep_denormals(snippets: Snippets) -> None:
    name = "f32_16x16x4f32"
    with WaveBench() as bench:
        matrices.put(bench, "v", matrices.A_ROW, np.full((LANES, 1), np.float32(2.0**-149)))
        matrices.put(bench, "v", matrices.B_ROW, np.ones((LANES, 1), np.float32))
        matrices.put(bench, "v", matrices.C_ROW, np.zeros((LANES, 4), np.float32))
        bench.execute(snippets, text_of(name))
        assert set(matrices.get(bench, "v", matrices.D_ROW, 4, np.float32).ravel().tolist()) == {4 * 2.0**-149}


def flushed(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values).astype(np.float32)


@pytest.mark.parametrize("text", UNFUSED)
def test_unfused_products_with_sums_flush_denormals(snippets: Snippets, text: str) -> None:
    a, b, c = pairs(*[edge_floats(np.float32, seed=seed) for seed in range(3)], limit=4096)
    old = np.roll(c, 7)
    outcome = snippets.run(text, {0: a, 2: b, 4: c, 20: old})

    first, second, addend = (flushed(np.broadcast_to(x, a.shape)) for x in UNFUSED[text](a, b, c, old))
    with np.errstate(all="ignore"):
        product = flushed(first * second)
        if "legacy" in text:
            product = np.where((first == 0) | (second == 0), np.float32(0), product)
        expected = flushed(product + addend)
    assert_same(text, outcome.row(20, np.float32), expected, [a, b, c, old])


@pytest.mark.parametrize("text", DOTS)
def test_products_of_two_halves_flush_denormals(snippets: Snippets, text: str) -> None:
    tiny, one = np.array([0x0001], np.uint16).view(np.float16)[0], np.float16(1)
    cases = [((one, tiny), (one, one), 0.0, 1.0), ((tiny, tiny), (one, one), 2.0**-127, 0.0), ((one, one), (one, one), 0.5, 2.5)]
    for first, second, addend, expected in cases:
        words = [np.array([pair], np.float16).view(np.uint32)[0] for pair in (first, second)]
        third = np.array([addend], np.float32)
        outcome = snippets.run(text, {0: words[0], 2: words[1], 4: third, 20: third})
        assert outcome.row(20, np.float32)[0] == np.float32(expected)


@pytest.mark.parametrize("text", LOADS)
def test_loads_to_lds_have_a_bit_of_the_encoding(snippets: Snippets, text: str) -> None:
    with WaveBench() as bench:
        buffer = bench.buffer(np.arange(LANES, dtype=np.uint32) + np.uint32(7))
        bench.set_addresses(0, np.uint64(buffer.address) + 4 * np.arange(LANES, dtype=np.uint64))
        for n, word in enumerate((buffer.address & 0xFFFFFFFF, buffer.address >> 32, buffer.nbytes, 0x00020000)):
            bench.wave.sgpr[4 + n] = word
        bench.wave.sgpr[124] = 256
        before = bench.row(20).copy()
        assert bench.execute(snippets, text) == WaveStatus.BARRIER
        expected = np.full(LANES, 7) if text.startswith("buffer") else np.arange(7, 7 + LANES)
        np.testing.assert_array_equal(bench.lds[64:128], expected)
        np.testing.assert_array_equal(bench.row(20), before)


@pytest.mark.parametrize("text", FENCES)
def test_cache_maintenance_changes_no_register(snippets: Snippets, text: str) -> None:
    marks = np.arange(LANES, dtype=np.uint32)

    outcome = snippets.run(text, {0: marks})

    np.testing.assert_array_equal(outcome.row(0), marks)


def test_negated_double_products_are_refused_by_name() -> None:
    text = text_of("f64_16x16x4f64") + " blgp:1"
    refused = Snippets([text, "s_nop 0"], architecture=ARCHITECTURE)
    refused.run("s_nop 0")

    assert re.search("v_mfma_f64_16x16x4.*BLGP of float64 products", refused.unsupported[text])


SCRATCH = r"""
#include <hip/hip_runtime.h>
__device__ __attribute__((noinline)) int sum_of(const int* values, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum = 3 * sum + values[i];
  return sum;
}
extern "C" __global__ void stack(int* out, int n) {
  int local[40];
  for (int i = 0; i < n; i++) local[i] = (i + 1) * (threadIdx.x + 7 * blockIdx.x);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum_of(local, n);
}
extern "C" __global__ void bytes(unsigned char* out, int n) {
  volatile unsigned char local[64];
  for (int i = 0; i < 64; i++) local[i] = i ^ threadIdx.x;
  out[threadIdx.x] = local[(n + threadIdx.x) & 63];
}
extern "C" __global__ void grid(int* out) {
  out[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z;
}
"""


@pytest.fixture(scope="module", params=["-O0", "-O2"])
def scratch_kernels(request: pytest.FixtureRequest) -> CodeObject:
    with TemporaryDirectory() as directory:
        return build_hip(SCRATCH, Path(directory), architecture=ARCHITECTURE, optimisation=request.param).code_object


def test_kernels_address_scratch_through_a_buffer_resource(scratch_kernels: CodeObject) -> None:
    n, block, groups = 23, 128, 3
    with EmulatorBench(scratch_kernels) as bench:
        out = bench.buffer(np.zeros(block * groups, np.int32))
        bench.launch("stack", groups, block, out, int32(n))
        result = bench.read(out)
        small = bench.buffer(np.zeros(64, np.uint8))
        bench.launch("bytes", 1, 64, small, int32(5))
        parts = bench.read(small, np.uint8)

    base = np.tile(np.arange(block), groups) + 7 * np.repeat(np.arange(groups), block)
    expected = np.zeros(block * groups, np.int64)
    for i in range(n):
        expected = 3 * expected + (i + 1) * base
    lanes = np.arange(64)
    np.testing.assert_array_equal(result, expected.astype(np.int32))
    np.testing.assert_array_equal(parts, (lanes + 5 & 63) ^ lanes)


def test_workgroup_ids_precede_the_scratch_offset(scratch_kernels: CodeObject) -> None:
    with EmulatorBench(scratch_kernels) as bench:
        out = bench.buffer(np.zeros(24, np.int32))
        bench.launch("grid", (4, 3, 2), 64, out)
        result = bench.read(out).reshape(2, 3, 4)

    z, y, x = np.indices((2, 3, 4))
    np.testing.assert_array_equal(result, x + 10 * y + 100 * z)
