"""Integer VALU opcodes against Python's integers."""

from __future__ import annotations

import pytest

from tests.builders.opcodes import Row, Snippets, check_integers

M32, M64 = 0xFFFFFFFF, (1 << 64) - 1


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def med3(a: int, b: int, c: int) -> int:
    return sorted((a, b, c))[1]


def field(value: int, offset: int, width: int) -> int:
    return value >> (offset & 31) & (1 << (width & 31)) - 1


def signed_field(value: int, offset: int, width: int) -> int:
    width &= 31
    return signed(value >> (offset & 31), width) if width else 0


def bytes_of(value: int, count: int = 4) -> list[int]:
    return [value >> 8 * i & 255 for i in range(count)]


def sad_bytes(a: int, b: int) -> int:
    return sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True))


def masked_sad(a: int, b: int, c: int) -> int:
    return sum(abs(x - y) for x, y in zip(bytes_of(a), bytes_of(b), strict=True) if y) + c


def quad_sad(a: int, b: int, c: int) -> int:
    return sum((sad_bytes(a >> 8 * i, b) + (c >> 16 * i & 0xFFFF) & 0xFFFF) << 16 * i for i in range(4))


def masked_quad_sad(a: int, b: int, c: int) -> int:
    return sum((masked_sad(a >> 8 * i & M32, b, c >> 16 * i & 0xFFFF) & 0xFFFF) << 16 * i for i in range(4))


def permute_bytes(a: int, b: int, selectors: int) -> int:
    data = a << 32 | b
    result = 0
    for place, selector in enumerate(bytes_of(selectors)):
        if selector >= 13:
            byte = 255
        elif selector == 12:
            byte = 0
        elif selector >= 8:
            byte = 255 if data >> 16 * (selector - 8) + 15 & 1 else 0
        else:
            byte = data >> 8 * selector & 255
        result |= byte << 8 * place
    return result


def find_high(value: int) -> int:
    return 32 - value.bit_length() if value else M32


def find_high_signed(value: int) -> int:
    same = ~value if value < 0 else value
    return 32 - same.bit_length() if value not in (0, -1) else M32


def find_low(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else M32


def lerp(a: int, b: int, c: int) -> int:
    parts = zip(bytes_of(a), bytes_of(b), bytes_of(c), strict=True)
    return sum((x + y + (z & 1) >> 1) << 8 * i for i, (x, y, z) in enumerate(parts))


def reverse(value: int) -> int:
    return int(f"{value:032b}"[::-1], 2)


ROWS = [
    Row("v_mov_b32_e32", lambda a: a, "u32"),
    Row("v_mov_b64_e32", lambda a: a, "u64", "u64"),
    Row("v_not_b32_e32", lambda a: ~a, "u32"),
    Row("v_bfrev_b32_e32", reverse, "u32"),
    Row("v_ffbh_u32_e32", find_high, "u32"),
    Row("v_ffbl_b32_e32", find_low, "u32"),
    Row("v_ffbh_i32_e32", find_high_signed, "i32"),
    Row("v_add_u32_e32", lambda a, b: a + b, "u32 u32"),
    Row("v_sub_u32_e32", lambda a, b: a - b, "u32 u32"),
    Row("v_subrev_u32_e32", lambda a, b: b - a, "u32 u32"),
    Row("v_add_u32_e64", lambda a, b: clamp(a + b, 0, M32), "u32 u32", after=" clamp"),
    Row("v_sub_u32_e64", lambda a, b: clamp(a - b, 0, M32), "u32 u32", after=" clamp"),
    Row("v_subrev_u32_e64", lambda a, b: clamp(b - a, 0, M32), "u32 u32", after=" clamp"),
    Row("v_add_co_u32_e32", lambda a, b: (a + b, a + b > M32), "u32 u32", "u32+m"),
    Row("v_sub_co_u32_e32", lambda a, b: (a - b, a < b), "u32 u32", "u32+m"),
    Row("v_subrev_co_u32_e32", lambda a, b: (b - a, b < a), "u32 u32", "u32+m"),
    Row("v_add_co_u32_e64", lambda a, b: (clamp(a + b, 0, M32), a + b > M32), "u32 u32", "u32+m", " clamp"),
    Row("v_sub_co_u32_e64", lambda a, b: (clamp(a - b, 0, M32), a < b), "u32 u32", "u32+m", " clamp"),
    Row("v_addc_co_u32_e32", lambda a, b, c: (a + b + c, a + b + c > M32), "u32 u32", "u32+m", carry_in=True),
    Row("v_subb_co_u32_e32", lambda a, b, c: (a - b - c, a < b + c), "u32 u32", "u32+m", carry_in=True),
    Row("v_subbrev_co_u32_e32", lambda a, b, c: (b - a - c, b < a + c), "u32 u32", "u32+m", carry_in=True),
    Row("v_addc_co_u32_e64", lambda a, b, c: (a + b + c, a + b + c > M32), "u32 u32", "u32+m", carry_in=True),
    Row("v_subb_co_u32_e64", lambda a, b, c: (a - b - c, a < b + c), "u32 u32", "u32+m", carry_in=True),
    Row("v_subbrev_co_u32_e64", lambda a, b, c: (b - a - c, b < a + c), "u32 u32", "u32+m", carry_in=True),
    Row("v_add_i32", lambda a, b: a + b, "i32 i32"),
    Row("v_sub_i32", lambda a, b: a - b, "i32 i32"),
    Row("v_add_i32", lambda a, b: clamp(a + b, -(1 << 31), (1 << 31) - 1), "i32 i32", after=" clamp"),
    Row("v_sub_i32", lambda a, b: clamp(a - b, -(1 << 31), (1 << 31) - 1), "i32 i32", after=" clamp"),
    Row("v_add3_u32", lambda a, b, c: a + b + c, "u32 u32 u32"),
    Row("v_xad_u32", lambda a, b, c: (a ^ b) + c, "u32 u32 u32"),
    Row("v_lshl_add_u32", lambda a, b, c: (a << (b & 31)) + c, "u32 u32 u32"),
    Row("v_add_lshl_u32", lambda a, b, c: (a + b) << (c & 31), "u32 u32 u32"),
    Row("v_lshl_or_b32", lambda a, b, c: a << (b & 31) | c, "u32 u32 u32"),
    Row("v_and_or_b32", lambda a, b, c: a & b | c, "u32 u32 u32"),
    Row("v_or3_b32", lambda a, b, c: a | b | c, "u32 u32 u32"),
    Row("v_lshl_add_u64", lambda a, b, c: (a << (b & 7)) + c, "u64 u32 u64", "u64"),
    Row("v_mul_lo_u32", lambda a, b: a * b, "u32 u32"),
    Row("v_mul_hi_u32", lambda a, b: a * b >> 32, "u32 u32"),
    Row("v_mul_hi_i32", lambda a, b: a * b >> 32, "i32 i32"),
    Row("v_mul_u32_u24_e32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF), "u32 u32"),
    Row("v_mul_hi_u32_u24_e32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32, "u32 u32"),
    Row("v_mul_i32_i24_e32", lambda a, b: signed(a, 24) * signed(b, 24), "u32 u32"),
    Row("v_mul_hi_i32_i24_e32", lambda a, b: signed(a, 24) * signed(b, 24) >> 32, "u32 u32"),
    Row("v_mad_u32_u24", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, "u32 u32 u32"),
    Row("v_mad_i32_i24", lambda a, b, c: signed(a, 24) * signed(b, 24) + c, "u32 u32 i32"),
    Row("v_mad_u64_u32", lambda a, b, c: (a * b + c, a * b + c > M64), "u32 u32 u64", "u64+m"),
    Row("v_mad_i64_i32", lambda a, b, c: (a * b + c, a * b + c >> 64 & 1), "i32 i32 i64", "i64+m"),
    Row("v_lshlrev_b32_e32", lambda a, b: b << (a & 31), "u32 u32"),
    Row("v_lshrrev_b32_e32", lambda a, b: b >> (a & 31), "u32 u32"),
    Row("v_ashrrev_i32_e32", lambda a, b: b >> (a & 31), "u32 i32"),
    Row("v_lshlrev_b64", lambda a, b: b << (a & 63), "u32 u64", "u64"),
    Row("v_lshrrev_b64", lambda a, b: b >> (a & 63), "u32 u64", "u64"),
    Row("v_ashrrev_i64", lambda a, b: b >> (a & 63), "u32 i64", "u64"),
    Row("v_and_b32_e32", lambda a, b: a & b, "u32 u32"),
    Row("v_or_b32_e32", lambda a, b: a | b, "u32 u32"),
    Row("v_xor_b32_e32", lambda a, b: a ^ b, "u32 u32"),
    Row("v_xnor_b32_e32", lambda a, b: ~(a ^ b), "u32 u32"),
    Row("v_min_u32_e32", min, "u32 u32"),
    Row("v_max_u32_e32", max, "u32 u32"),
    Row("v_min_i32_e32", min, "i32 i32"),
    Row("v_max_i32_e32", max, "i32 i32"),
    Row("v_min3_u32", min, "u32 u32 u32"),
    Row("v_max3_u32", max, "u32 u32 u32"),
    Row("v_med3_u32", med3, "u32 u32 u32"),
    Row("v_min3_i32", min, "i32 i32 i32"),
    Row("v_max3_i32", max, "i32 i32 i32"),
    Row("v_med3_i32", med3, "i32 i32 i32"),
    Row("v_bfe_u32", field, "u32 u32 u32"),
    Row("v_bfe_i32", signed_field, "i32 u32 u32"),
    Row("v_bfi_b32", lambda a, b, c: a & b | ~a & c, "u32 u32 u32"),
    Row("v_bfm_b32", lambda a, b: ((1 << (a & 31)) - 1) << (b & 31), "u32 u32"),
    Row("v_bcnt_u32_b32", lambda a, b: a.bit_count() + b, "u32 u32"),
    Row("v_perm_b32", permute_bytes, "u32 u32 u32"),
    Row("v_alignbit_b32", lambda a, b, c: (a << 32 | b) >> (c & 31), "u32 u32 u32"),
    Row("v_alignbyte_b32", lambda a, b, c: (a << 32 | b) >> 8 * (c & 3), "u32 u32 u32"),
    Row("v_sad_u8", lambda a, b, c: sad_bytes(a, b) + c, "u32 u32 u32"),
    Row("v_sad_hi_u8", lambda a, b, c: (sad_bytes(a, b) << 16) + c, "u32 u32 u32"),
    Row("v_sad_u16", lambda a, b, c: abs((a & 0xFFFF) - (b & 0xFFFF)) + abs((a >> 16) - (b >> 16)) + c, "u32 u32 u32"),
    Row("v_sad_u32", lambda a, b, c: abs(a - b) + c, "u32 u32 u32"),
    Row("v_msad_u8", masked_sad, "u32 u32 u32"),
    Row("v_qsad_pk_u16_u8", quad_sad, "u64 u32 u64", "u64"),
    Row("v_mqsad_pk_u16_u8", masked_quad_sad, "u64 u32 u64", "u64"),
    Row("v_lerp_u8", lerp, "u32 u32 u32"),
    Row("v_cndmask_b32_e32", lambda a, b, c: b if c else a, "u32 u32", carry_in=True),
    Row("v_cndmask_b32_e64", lambda a, b, c: b if c else a, "u32 u32", carry_in=True),
    Row("v_add_u16_e32", lambda a, b: a + b & 0xFFFF, "u16 u16"),
    Row("v_sub_u16_e32", lambda a, b: a - b & 0xFFFF, "u16 u16"),
    Row("v_subrev_u16_e32", lambda a, b: b - a & 0xFFFF, "u16 u16"),
    Row("v_add_u16_e64", lambda a, b: clamp(a + b, 0, 0xFFFF), "u16 u16", after=" clamp"),
    Row("v_sub_u16_e64", lambda a, b: clamp(a - b, 0, 0xFFFF), "u16 u16", after=" clamp"),
    Row("v_add_i16", lambda a, b: a + b & 0xFFFF, "i16 i16", "u16"),
    Row("v_sub_i16", lambda a, b: a - b & 0xFFFF, "i16 i16", "u16"),
    Row("v_add_i16", lambda a, b: clamp(a + b, -0x8000, 0x7FFF) & 0xFFFF, "i16 i16", "u16", after=" clamp"),
    Row("v_sub_i16", lambda a, b: clamp(a - b, -0x8000, 0x7FFF) & 0xFFFF, "i16 i16", "u16", after=" clamp"),
    Row("v_mul_lo_u16_e32", lambda a, b: a * b & 0xFFFF, "u16 u16"),
    Row("v_lshlrev_b16_e32", lambda a, b: b << (a & 15) & 0xFFFF, "u16 u16"),
    Row("v_lshrrev_b16_e32", lambda a, b: b >> (a & 15), "u16 u16"),
    Row("v_ashrrev_i16_e32", lambda a, b: b >> (a & 15) & 0xFFFF, "u16 i16"),
    Row("v_min_u16_e32", min, "u16 u16"),
    Row("v_max_u16_e32", max, "u16 u16"),
    Row("v_min_i16_e32", lambda a, b: min(a, b) & 0xFFFF, "i16 i16"),
    Row("v_max_i16_e32", lambda a, b: max(a, b) & 0xFFFF, "i16 i16"),
    Row("v_mad_u16", lambda a, b, c: a * b + c & 0xFFFF, "u16 u16 u16", "u16"),
    Row("v_mad_i16", lambda a, b, c: a * b + c & 0xFFFF, "i16 i16 i16", "u16"),
    Row("v_mad_u16", lambda a, b, c: clamp(a * b + c, 0, 0xFFFF), "u16 u16 u16", "u16", after=" clamp"),
    Row("v_mad_i16", lambda a, b, c: clamp(a * b + c, -0x8000, 0x7FFF) & 0xFFFF, "i16 i16 i16", "u16", after=" clamp"),
    Row("v_mad_legacy_u16", lambda a, b, c: a * b + c & 0xFFFF, "u16 u16 u16", "u16"),
    Row("v_mad_legacy_i16", lambda a, b, c: a * b + c & 0xFFFF, "i16 i16 i16", "u16"),
    Row("v_mad_u32_u16", lambda a, b, c: a * b + c, "u16 u16 u32"),
    Row("v_mad_i32_i16", lambda a, b, c: a * b + c, "i16 i16 i32"),
    Row("v_min3_u16", lambda *v: min(v), "u16 u16 u16", "u16"),
    Row("v_max3_u16", lambda *v: max(v), "u16 u16 u16", "u16"),
    Row("v_med3_u16", med3, "u16 u16 u16", "u16"),
    Row("v_min3_i16", lambda *v: min(v) & 0xFFFF, "i16 i16 i16", "u16"),
    Row("v_max3_i16", lambda *v: max(v) & 0xFFFF, "i16 i16 i16", "u16"),
    Row("v_med3_i16", lambda *v: med3(*v) & 0xFFFF, "i16 i16 i16", "u16"),
    Row("v_sat_pk_u8_i16_e32", lambda a: clamp(signed(a, 16), 0, 255) | clamp(signed(a >> 16, 16), 0, 255) << 8, "u32", "u16"),
    Row("v_cvt_pk_u16_u32", lambda a, b: min(a, 0xFFFF) | min(b, 0xFFFF) << 16, "u32 u32"),
    Row(
        "v_cvt_pk_i16_i32",
        lambda a, b: (clamp(a, -0x8000, 0x7FFF) & 0xFFFF) | (clamp(b, -0x8000, 0x7FFF) & 0xFFFF) << 16,
        "i32 i32",
    ),
    Row("v_pack_b32_f16", lambda a, b: a | b << 16, "u16 u16"),
    *(
        Row(f"v_cmp_{name}_{kind}{bits}_e32", operation, f"{kind}{bits} {kind}{bits}", None)
        for kind in "iu"
        for bits in (16, 32, 64)
        for name, operation in {
            "f": lambda a, b: False,
            "lt": lambda a, b: a < b,
            "eq": lambda a, b: a == b,
            "le": lambda a, b: a <= b,
            "gt": lambda a, b: a > b,
            "ne": lambda a, b: a != b,
            "ge": lambda a, b: a >= b,
            "t": lambda a, b: True,
        }.items()
    ),
]
"""Opcode, oracle, operands, result."""


def texts() -> list[str]:
    """Return every instruction of this file."""
    return [row.text for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name + row.after)
def test_it_equals_the_oracle_on_edge_values(snippets: Snippets, row: Row) -> None:
    check_integers(snippets, row)
