"""Functions of cmath and conversions for half and bfloat16: no call is ambiguous, and results are those of NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from tests.builders.emulation import EmulatorBench
from tests.builders.kernels import write_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1"),
    *("fabs", "floor", "lgamma", "log", "log10", "log1p", "log2", "logb", "nearbyint", "rint", "round", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "tgamma", "trunc", "abs", "isnan", "isinf", "isfinite", "isnormal", "signbit", "ilogb", "lround"),
    *("llround", "lrint", "llrint"),
)
BINARY = ("atan2", "copysign", "fdim", "fmax", "fmin", "fmod", "hypot", "nextafter", "pow", "remainder")
OTHERS = (
    *(f"{name}({arguments})" for name in BINARY for arguments in ("x, x", "x, 1.5f", "x, 2", "2.0, x")),
    *("fma(x, x, x)", "fma(x, 2.0f, x)", "ldexp(x, 2)", "scalbn(x, 2)", "frexp(x, n)", "remquo(x, x, n)", "modf(x, p)"),
)
TYPES = ("__half", "__hip_bfloat16")
HEADERS = (
    "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n#include <hip/hip_bf16.h>\n#include <algorithm>\n#include <cmath>\n"
)

SAMPLE = ("acos", "ceil", "cos", "erf", "exp", "fabs", "floor", "log", "log1p", "rint", "sin", "sqrt", "tanh", "trunc", "abs")
VALUES = f"""
{HEADERS}
template <class T> __device__ void unary(const float* x, float* y) {{
  T v = T(x[threadIdx.x]);
  int k = 0;
  {" ".join(f"y[64 * k++ + threadIdx.x] = {name}(v);" for name in SAMPLE)}
}}
template <class T> __device__ void binary(const float* x, float* y) {{
  T v = T(x[threadIdx.x]), w = T(x[63 - threadIdx.x]);
  y[threadIdx.x] = max(v, w);
  y[64 + threadIdx.x] = min(v, 0.5f);
  y[128 + threadIdx.x] = pow(v, 2);
  y[192 + threadIdx.x] = fmax(v, w) + std::hypot(v, w);
  y[256 + threadIdx.x] = isnan(v) + 2 * signbit(v) + 4 * isfinite(w);
  y[320 + threadIdx.x] = __hadd_sat(v, w);
  y[384 + threadIdx.x] = (float)__hmax_nan(v, w) - (float)__hmin_nan(v, w);
  y[448 + threadIdx.x] = __shfl_xor_sync(~0ull, v, 1);
}}
extern "C" __global__ void unary_half(const float* x, float* y) {{ unary<__half>(x, y); }}
extern "C" __global__ void unary_bfloat(const float* x, float* y) {{ unary<__hip_bfloat16>(x, y); }}
extern "C" __global__ void binary_half(const float* x, float* y) {{ binary<__half>(x, y); }}
extern "C" __global__ void binary_bfloat(const float* x, float* y) {{ binary<__hip_bfloat16>(x, y); }}
extern "C" __global__ void integers(const float* x, int* n) {{
  int i = threadIdx.x;
  n[i] = __half2int_rn(x[i]); n[64 + i] = __half2int_rd(x[i]); n[128 + i] = __half2short_ru(x[i]);
  n[192 + i] = __bfloat162int_rz(x[i]); n[256 + i] = __half2ll_rn(x[i]) + __half2float(__uint2half_rn(i));
}}
extern "C" __global__ void rounded(const float* x, unsigned short* n) {{
  int i = threadIdx.x;
  n[i] = __bfloat16_as_ushort(__float2bfloat16_rz(x[i]));
  n[64 + i] = __bfloat16_as_ushort(__float2bfloat16_rd(x[i]));
  n[128 + i] = __bfloat16_as_ushort(__float2bfloat16_ru(x[i]));
}}
"""
NARROW: dict[str, Callable[[Any], Any]] = {
    "half": lambda x: x.astype(np.float16).astype(np.float32),
    "bfloat": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
}


@pytest.mark.parametrize("side", ["__device__", "__host__"])
def test_no_call_is_ambiguous(tmp_path: Path, cache_dir: Path, side: str) -> None:
    calls = [f"{name}(x)" for name in UNARY] + list(OTHERS)
    functions = [
        f"static inline {side} auto f{number}_{kind}({kind} x, {kind}* p, int* n) {{ return {space}{call}; }}"
        for space in ("", "std::")
        for kind in TYPES
        for number, call in enumerate(calls, len(calls) if space else 0)
    ]
    mixed = [f"static inline {side} auto m_{kind}({kind} x) {{ return max(x, 1.0f) + min(x, x); }}" for kind in TYPES]
    source = write_source(HEADERS + "\n".join([*functions, *mixed]) + "\n__global__ void k() {}\n", tmp_path)

    build = compile_source(CompileRequest(source), compiler=find_compiler(("pip",)), cache_dir=cache_dir)

    assert build.notes == ()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorBench]:
    source = write_source(VALUES, tmp_path_factory.mktemp("mathematics"))
    build = compile_source(CompileRequest(source), compiler=find_compiler(("pip",)))
    with EmulatorBench(build.code_object) as made:
        yield made


def inputs() -> NDArray[np.float32]:
    return np.linspace(0.03, 0.97, 64).astype(np.float32)


@pytest.mark.parametrize("kind", NARROW)
def test_functions_of_one_value_are_those_of_float(bench: EmulatorBench, kind: str) -> None:
    y = bench.buffer(np.zeros(64 * len(SAMPLE), np.float32))
    bench.launch(f"unary_{kind}", 1, 64, bench.buffer(inputs()), y)
    x = NARROW[kind](inputs())
    known: dict[str, Callable[[Any], Any]] = {"abs": np.abs, "rint": np.rint, "erf": np.vectorize(math.erf)}
    expected = [known[name](x) if name in known else getattr(np, {"acos": "arccos"}.get(name, name))(x) for name in SAMPLE]

    got: NDArray[np.float32] = np.asarray(bench.read(y, np.float32), np.float32).reshape(len(SAMPLE), 64)
    for row, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(row, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("kind", NARROW)
def test_functions_of_two_values(bench: EmulatorBench, kind: str) -> None:
    narrow = NARROW[kind]
    x = inputs() - np.float32(0.5)
    x[0] = np.nan
    y = bench.buffer(np.zeros(512, np.float32))
    bench.launch(f"binary_{kind}", 1, 64, bench.buffer(x), y)
    v, w = narrow(x), narrow(x)[::-1]
    got = bench.read(y, np.float32).reshape(8, 64)

    np.testing.assert_array_equal(got[0], np.where(v > w, v, w))
    np.testing.assert_array_equal(got[1], np.fmin(v, 0.5))
    np.testing.assert_allclose(got[2], v * v, rtol=2**-11 if kind == "half" else 2e-6)  # pow(_Float16, int) returns _Float16
    np.testing.assert_allclose(got[3], np.fmax(v, w) + np.hypot(v, w), rtol=2e-6)
    np.testing.assert_array_equal(got[4][1:], (2 * np.signbit(v) + 4 * np.isfinite(w))[1:])
    assert got[4][0] % 2 == 1
    np.testing.assert_array_equal(got[5][1:63], np.clip(narrow(v + w), 0, 1)[1:63])
    np.testing.assert_array_equal(got[6], np.maximum(v, w) - np.minimum(v, w))
    np.testing.assert_array_equal(got[7], v.reshape(32, 2)[:, ::-1].ravel())


def test_conversions_to_integers_round_as_named(bench: EmulatorBench) -> None:
    x = np.resize(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 7.75, -7.75, 100], np.float32), 64)
    n = bench.buffer(np.zeros(320, np.int32))
    bench.launch("integers", 1, 64, bench.buffer(x), n)
    got = bench.read(n, np.int32).reshape(5, 64)

    np.testing.assert_array_equal(got, [np.rint(x), np.floor(x), np.ceil(x), np.trunc(x), np.rint(x) + np.arange(64)])


def test_bfloat16_rounds_in_each_direction(bench: EmulatorBench) -> None:
    x = np.resize(np.array([1, 1 + 2**-9, -1 - 2**-9, 3.14159, -2.71828, 1e-40, -1e-40, 0], np.float32), 64)
    n = bench.buffer(np.zeros(192, np.uint16))
    bench.launch("rounded", 1, 64, bench.buffer(x), n)
    towards_zero, down, up = bench.read(n, np.uint16).view(ml_dtypes.bfloat16).astype(np.float32).reshape(3, 64)

    assert np.all(np.abs(towards_zero) <= np.abs(x))
    assert np.all(down <= x)
    assert np.all(up >= x)
    exact = x.astype(ml_dtypes.bfloat16).astype(np.float32) == x
    np.testing.assert_array_equal((down == up), exact)
    np.testing.assert_array_equal(towards_zero, np.where(x < 0, up, down))
