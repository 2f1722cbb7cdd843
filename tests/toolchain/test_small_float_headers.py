"""Conversions and pairs of the bundled headers, executed on the emulator and compared with ml_dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import write_source

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = """
#include <hip/hip_fp8.h>
#include <hip/hip_bf16.h>
#include <hip/hip_bfloat16.h>
template <class T> __device__ void both(const float* x, unsigned char* codes, float* back) {
  int i = blockIdx.x * 256 + threadIdx.x;
  T code(x[i]);
  codes[i] = code.__x;
  T every;
  every.__x = threadIdx.x;
  back[threadIdx.x] = float(every);
}
extern "C" __global__ void e4m3(const float* x, unsigned char* c, float* b) { both<__hip_fp8_e4m3>(x, c, b); }
extern "C" __global__ void e5m2(const float* x, unsigned char* c, float* b) { both<__hip_fp8_e5m2>(x, c, b); }
extern "C" __global__ void e4m3_fnuz(const float* x, unsigned char* c, float* b) { both<__hip_fp8_e4m3_fnuz>(x, c, b); }
extern "C" __global__ void e5m2_fnuz(const float* x, unsigned char* c, float* b) { both<__hip_fp8_e5m2_fnuz>(x, c, b); }
extern "C" __global__ void unsaturated(const float* x, unsigned char* a, unsigned char* b) {
  a[threadIdx.x] = __hip_cvt_float_to_fp8(x[threadIdx.x], __HIP_NOSAT, __HIP_E4M3);
  b[threadIdx.x] = __hip_cvt_float_to_fp8(x[threadIdx.x], __HIP_NOSAT, __HIP_E5M2);
}
extern "C" __global__ void four(const float4* x, float4* y) {
  __hip_fp8x4_e4m3_fnuz packed(x[threadIdx.x]);
  y[threadIdx.x] = packed;
}
extern "C" __global__ void pairs(__half2* sum, __hip_bfloat162* wide, const __half* x, __half2* out, hip_bfloat16* old) {
  __half2 two(__ldg(x + threadIdx.x), x[threadIdx.x]);
  unsafeAtomicAdd(sum, two);
  unsafeAtomicAdd(wide, __hip_bfloat162(__float2bfloat16(1.0f), __float2bfloat16(2.0f)));
  __half_raw raw;
  raw.x = 0x3c00;
  __half one = raw;
  __half2 less = __hlt2(two, __half2(one, __hneg(one)));
  out[threadIdx.x] = __hadd2(__habs2(__lows2half2(two, less)), __highs2half2(__half2(one, one), less));
  hip_bfloat16 b((float)x[threadIdx.x]);
  b += hip_bfloat16(1.0f);
  old[threadIdx.x] = b * b;
}
"""
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    448.0,
    464.0,
    480.0,
    57344.0,
    61440.0,
    1e9,
    -1e9,
    2**-9,
    2**-10,
    1.5 * 2**-10,
    2**-16,
    2**-17,
    1e-40,
]


@pytest.fixture(scope="module", params=["gfx942", "gfx90a", "gfx950"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorBench]:
    source = write_source(SOURCE, tmp_path_factory.mktemp("headers"))
    wanted = CompileRequest(source, architecture=request.param, flags=("-Wall", "-Werror"))
    build = compile_source(wanted, compiler=find_compiler(("pip",)))
    with EmulatorBench(build.code_object) as made:
        yield made


def values() -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return edge cases and numbers of all magnitudes, including every midpoint of the narrower types."""
    rng = np.random.default_rng(1)
    wide = rng.normal(size=2000) * np.exp2(rng.integers(-20, 17, 2000))
    midpoints = np.arange(16, 33) / 16 * np.exp2(np.arange(-18, 16))[:, None]
    found = np.concatenate([EDGES, wide, midpoints.ravel(), [np.nan, np.inf, -np.inf]]).astype(np.float32)
    return np.resize(found, -(-len(found) // 256) * 256)


@pytest.mark.parametrize(
    ("kernel", "dtype", "largest"),
    [
        ("e4m3", ml_dtypes.float8_e4m3fn, 448), ("e5m2", ml_dtypes.float8_e5m2, 57344),
        ("e4m3_fnuz", ml_dtypes.float8_e4m3fnuz, 240), ("e5m2_fnuz", ml_dtypes.float8_e5m2fnuz, 57344),
    ],
)  # fmt: skip
def test_an_8_bit_type_rounds_as_specified_and_saturates(
    bench: EmulatorBench, kernel: str, dtype: type[Any], largest: float
) -> None:
    x = values()
    codes, back = bench.buffer(np.zeros(len(x), np.uint8)), bench.buffer(np.zeros(256, np.float32))
    bench.launch(kernel, len(x) // 256, 256, bench.buffer(x), codes, back)
    got = bench.read(codes, np.uint8).view(dtype).astype(np.float32)

    np.testing.assert_array_equal(got, np.clip(x, -largest, largest).astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(bench.read(back, np.float32), np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32))


def test_without_saturation_overflow_is_nan_or_infinity(bench: EmulatorBench) -> None:
    x = np.resize(np.array([448, 464, 465, -1e9, 61439, 61440, np.inf, 2**-17], np.float32), 64)
    codes = [bench.buffer(np.zeros(64, np.uint8)) for _ in range(2)]
    bench.launch("unsaturated", 1, 64, bench.buffer(x), *codes)

    for code, dtype in zip(codes, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2), strict=True):
        got = bench.read(code, np.uint8).view(dtype).astype(np.float32)
        np.testing.assert_array_equal(got, x.astype(dtype).astype(np.float32))


def test_four_values_are_packed_in_order(bench: EmulatorBench) -> None:
    x = np.arange(256, dtype=np.float32) / 8
    y = bench.buffer(np.zeros(256, np.float32))
    bench.launch("four", 1, 64, bench.buffer(x), y)

    np.testing.assert_array_equal(bench.read(y, np.float32), x.astype(ml_dtypes.float8_e4m3fnuz).astype(np.float32))


def test_pairs_are_added_in_memory_compared_and_split(bench: EmulatorBench) -> None:
    x = np.arange(-32, 32, dtype=np.float16) / np.float16(4)
    total, wide = bench.buffer(np.zeros(2, np.float16)), bench.buffer(np.zeros(2, np.uint16))
    out, old = bench.buffer(np.zeros(128, np.float16)), bench.buffer(np.zeros(64, np.uint16))
    bench.launch("pairs", 1, 64, total, wide, bench.buffer(x), out, old)

    assert list(bench.read(total, np.float16)) == [x.sum(), x.sum()]
    assert list(bench.read(wide, np.uint16).view(ml_dtypes.bfloat16)) == [64, 128]
    first = np.abs(x) + 1
    second = (x < 1).astype(np.float16) + (x < -1)
    assert bench.read(out, np.float16).reshape(64, 2).tolist() == np.stack([first, second], 1).tolist()
    rounded = (x.astype(np.float32) + 1).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert list(bench.read(old, np.uint16).view(ml_dtypes.bfloat16)) == list((rounded * rounded).astype(ml_dtypes.bfloat16))
