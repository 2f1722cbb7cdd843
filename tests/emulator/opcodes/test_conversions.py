"""Conversions against NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rocm_perf_lab.emulator.program import DEFAULT_MODE
from tests.builders.opcodes import (
    JUNK,
    TYPES,
    Row,
    Snippets,
    assert_same,
    check_floats,
    edge_floats,
    edge_integers,
    pairs,
)

F16, F32, F64, U32 = np.float16, np.float32, np.float64, np.uint32
FP16_OVERFLOW = 1 << 23


def saturated(x: Any, kind: str) -> Any:
    """Convert toward zero with saturation; NaN to 0."""
    bounds = np.iinfo(TYPES[kind])
    wide = np.nan_to_num(x.astype(F64), nan=0.0, posinf=1e300, neginf=-1e300)
    return np.clip(np.trunc(wide), bounds.min, bounds.max).astype(np.int64).astype(TYPES[kind])


def norm(x: Any, *, signed: bool) -> Any:
    low, scale = (-1.0, 32767.0) if signed else (0.0, 65535.0)
    wide = np.clip(np.nan_to_num(x.astype(F64), nan=0.0, posinf=2.0, neginf=-2.0), low, 1.0)
    return np.rint(wide * scale).astype(np.int64).astype(np.uint16)


def pack(a: Any, b: Any) -> Any:
    return a.astype(U32) | b.astype(U32) << U32(16)


def toward_zero_f16(x: Any) -> Any:
    near = x.astype(F16)
    beyond = np.abs(near.astype(F64)) > np.abs(x.astype(F64))
    bits = np.where(beyond, np.nextafter(near, F16(0)), near).view(np.uint16)
    quiet = (x.view(U32) >> U32(16) & U32(0x8000) | x.view(U32) >> U32(13) & U32(0x3FF) | U32(0x7E00)).astype(np.uint16)
    return np.where(np.isnan(x), quiet, bits)


def to_u8(x: Any) -> Any:
    return np.clip(np.rint(np.nan_to_num(x.astype(F64), nan=0.0, posinf=300, neginf=-300)), 0, 255).astype(np.uint8)


def insert_byte(x: Any, place: Any, old: Any) -> Any:
    shift = (place & U32(3)) * U32(8)
    return old & ~(U32(255) << shift) | to_u8(x).astype(U32) << shift


def small(x: Any, dtype: Any) -> Any:
    return x.astype(dtype).view(np.uint8)


FP8, BF8 = ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz
LOW, HIGH = U32(JUNK & 0xFFFF), U32(JUNK >> 16)

ROWS = [
    *(Row(f"v_cvt_{to}_{of}_e32", lambda x, to=to: saturated(x, to), of, to)
      for to, of in (("i32", "f32"), ("u32", "f32"), ("i32", "f64"), ("u32", "f64"), ("i16", "f16"), ("u16", "f16"))),
    *(Row(f"v_cvt_{to}_{of}_e32", lambda x, to=to: x.astype(TYPES[to]), of, to)
      for to, of in (("f32", "i32"), ("f32", "u32"), ("f64", "i32"), ("f64", "u32"), ("f16", "i16"), ("f16", "u16"),
                     ("f16", "f32"), ("f32", "f16"), ("f64", "f32"), ("f32", "f64"))),
    Row("v_cvt_rpi_i32_f32_e32", lambda x: saturated(np.floor(x.astype(F64) + 0.5), "i32"), "f32", "i32"),
    Row("v_cvt_flr_i32_f32_e32", lambda x: saturated(np.floor(x), "i32"), "f32", "i32"),
    *(Row(f"v_cvt_f32_ubyte{n}_e32", lambda x, n=n: (x >> U32(8 * n) & U32(255)).astype(F32), "u32", "f32") for n in range(4)),
    Row("v_cvt_off_f32_i4_e32", lambda x: (((x & U32(15)).astype(np.int32) ^ 8) - 8).astype(F32) / F32(16), "u32", "f32"),
    Row("v_cvt_pkrtz_f16_f32", lambda a, b: pack(toward_zero_f16(a), toward_zero_f16(b)),
        "f32 f32"),
    Row("v_cvt_pknorm_i16_f32", lambda a, b: pack(norm(a, signed=True), norm(b, signed=True)), "f32 f32"),
    Row("v_cvt_pknorm_u16_f32", lambda a, b: pack(norm(a, signed=False), norm(b, signed=False)), "f32 f32"),
    Row("v_cvt_pknorm_i16_f16", lambda a, b: pack(norm(a, signed=True), norm(b, signed=True)), "f16 f16"),
    Row("v_cvt_pknorm_u16_f16", lambda a, b: pack(norm(a, signed=False), norm(b, signed=False)), "f16 f16"),
    Row("v_cvt_norm_i16_f16_e32", lambda x: norm(x, signed=True), "f16", "u16"),
    Row("v_cvt_norm_u16_f16_e32", lambda x: norm(x, signed=False), "f16", "u16"),
    Row("v_cvt_pk_u8_f32", insert_byte, "f32 u32 u32"),
    Row("v_cvt_pkaccum_u8_f32", lambda x, place: insert_byte(x, place, np.full_like(place, JUNK)), "f32 u32"),
    *(Row(f"v_cvt_f32_{name}_sdwa", lambda x, n=n, t=t: (x >> U32(8 * n)).astype(np.uint8).view(t).astype(F32), "u32", "f32",
          operands=f"v20, v0 src0_sel:BYTE_{n}") for name, t in (("fp8", FP8), ("bf8", BF8)) for n in range(4)),
    *(Row(f"v_cvt_f32_{name}_e32", lambda x, t=t: x.astype(np.uint8).view(t).astype(F32), "u32", "f32")
      for name, t in (("fp8", FP8), ("bf8", BF8))),
    *(Row(f"v_cvt_pk_{name}_f32", lambda a, b, t=t: HIGH << U32(16) | small(a, t) | small(b, t).astype(U32) << U32(8), "f32 f32")
      for name, t in (("fp8", FP8), ("bf8", BF8))),
    *(Row(f"v_cvt_pk_{name}_f32", lambda a, b, t=t: LOW | small(a, t).astype(U32) << U32(16) | small(b, t).astype(U32) << U32(24),
          "f32 f32", after=" op_sel:[0,0,1]") for name, t in (("fp8", FP8), ("bf8", BF8))),
]  # fmt: skip
"""Opcode, oracle, operands, result."""

PACKED = {"v_cvt_pk_f32_fp8": FP8, "v_cvt_pk_f32_bf8": BF8}
STOCHASTIC = {"v_cvt_sr_fp8_f32": (FP8, 20), "v_cvt_sr_bf8_f32": (BF8, 21)}


def texts() -> list[str]:
    """Return every instruction of this file."""
    packed = [f"{name}{form}" for name in PACKED for form in ("_e32 v[20:21], v0", "_sdwa v[20:21], v0 src0_sel:WORD_1")]
    stochastic = [f"{name} v20, v0, v2{after}" for name in STOCHASTIC for after in ("", " op_sel:[0,0,0,1]")]
    return [*(row.text for row in ROWS), *packed, *stochastic]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_it_equals_the_oracle_on_edge_values(snippets: Snippets, row: Row) -> None:
    check_floats(snippets, row)


@pytest.mark.parametrize(("form", "shift"), [("_e32 v[20:21], v0", 0), ("_sdwa v[20:21], v0 src0_sel:WORD_1", 16)])
@pytest.mark.parametrize("name", PACKED)
def test_two_small_floats_become_two_floats(snippets: Snippets, name: str, form: str, shift: int) -> None:
    x = edge_integers(32)
    outcome = snippets.run(name + form, {0: x})

    for i in range(2):
        expected = (x >> U32(shift + 8 * i)).astype(np.uint8).view(PACKED[name]).astype(F32)
        assert_same(name, outcome.row(20 + i, F32), expected, [x])


@pytest.mark.parametrize(("after", "byte"), [("", 0), (" op_sel:[0,0,0,1]", 2)])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_stochastic_rounding_adds_bits_below_the_last_place_and_truncates(
    snippets: Snippets, name: str, after: str, byte: int
) -> None:
    dtype, dropped = STOCHASTIC[name]
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    x = edge_floats(F32, nan=False)
    x = x[(np.abs(x) >= float(limits.smallest_normal)) & (np.abs(x) < float(limits.max))]
    a, noise = pairs(x, edge_integers(32))
    outcome = snippets.run(f"{name} v20, v0, v2{after}", {0: a, 2: noise})

    moved = (a.view(U32) + (noise >> U32(32 - dropped))) & U32((1 << 32) - (1 << dropped))
    expected = U32(JUNK & ~(255 << 8 * byte)) | small(moved.view(F32), dtype).astype(U32) << U32(8 * byte)
    assert_same(name, outcome.row(20), expected, [a, noise])


def test_fp16_overflow_mode_bounds_small_floats() -> None:
    text = "v_cvt_pk_fp8_f32 v20, v0, v2"
    x = np.array([1e9, -1e9, 250.0, 1.0], F32)
    bounded = Snippets([text], mode=DEFAULT_MODE | FP16_OVERFLOW).run(text, {0: x, 2: x})

    assert (bounded.row(20)[:4] & U32(255)).astype(np.uint8).view(FP8).astype(F32).tolist() == [240.0, -240.0, 240.0, 1.0]
