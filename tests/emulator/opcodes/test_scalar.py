"""Scalar ALU opcodes and SCC against Python's integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import EXEC
from tests.builders.opcodes import Snippets, edge_integers, pairs

if TYPE_CHECKING:
    from collections.abc import Callable

M32, M64 = 0xFFFFFFFF, (1 << 64) - 1


@dataclass(frozen=True)
class ScalarRow:
    """One opcode. `oracle` accepts the sources in s[0:1] and s[2:3], and SCC and the old D0 if `state` names them; it returns
    D0 and SCC, D0 alone if SCC is kept, or (None, SCC)."""

    name: str
    oracle: Callable[..., Any]
    inputs: str
    out: int = 32
    state: str = ""
    operands: str = ""

    @property
    def text(self) -> str:
        if self.operands:
            return f"{self.name} {self.operands}"
        registers = [pair(2 * i, int(kind[1:])) for i, kind in enumerate(self.inputs.split())]
        return f"{self.name} {', '.join([*([pair(20, self.out)] if self.out else []), *registers])}"


def pair(first: int, bits: int) -> str:
    return f"s[{first}:{first + 1}]" if bits == 64 else f"s{first}"


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def nonzero(bits: int, function: Callable[..., int]) -> Callable[..., tuple[int, bool]]:
    """SCC = result != 0."""

    def compute(*values: int) -> tuple[int, bool]:
        result = function(*values) & (1 << bits) - 1
        return result, result != 0

    return compute


def overflow(function: Callable[[int, int], int]) -> Callable[[int, int], tuple[int, bool]]:
    def compute(a: int, b: int) -> tuple[int, bool]:
        result = function(a, b)
        return result, not -(1 << 31) <= result < 1 << 31

    return compute


def carry(function: Callable[..., int]) -> Callable[..., tuple[int, bool]]:
    def compute(*values: int) -> tuple[int, bool]:
        result = function(*values)
        return result, not 0 <= result <= M32

    return compute


def field(bits: int, *, is_signed: bool) -> Callable[[int, int], int]:
    def extract(value: int, what: int) -> int:
        offset, width = what & bits - 1, what >> 16 & 0x7F
        part = value >> offset & (1 << width) - 1
        return signed(part, width) if is_signed and width and width <= bits - 0 else part

    return extract


def first_one(value: int) -> int:
    return (value & -value).bit_length() - 1


def from_top(bits: int, value: int) -> int:
    return bits - value.bit_length() if value else -1


def sign_run(bits: int, value: int) -> int:
    same = ~value if value < 0 else value
    return -1 if value in (0, -1) else bits - same.bit_length()


def quads(bits: int, value: int) -> int:
    return sum(1 << i for i in range(bits // 4) if value >> 4 * i & 15)


def whole_quads(bits: int, value: int) -> int:
    return sum(15 << 4 * i for i in range(bits // 4) if value >> 4 * i & 15)


def reverse(bits: int, value: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
COMPARES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}

ROWS = [
    ScalarRow("s_add_u32", carry(lambda a, b: a + b), "u32 u32"),
    ScalarRow("s_sub_u32", carry(lambda a, b: a - b), "u32 u32"),
    ScalarRow("s_add_i32", overflow(lambda a, b: a + b), "i32 i32"),
    ScalarRow("s_sub_i32", overflow(lambda a, b: a - b), "i32 i32"),
    ScalarRow("s_addc_u32", carry(lambda a, b, c: a + b + c), "u32 u32", state="scc"),
    ScalarRow("s_subb_u32", carry(lambda a, b, c: a - b - c), "u32 u32", state="scc"),
    ScalarRow("s_min_i32", lambda a, b: (min(a, b), a < b), "i32 i32"),
    ScalarRow("s_min_u32", lambda a, b: (min(a, b), a < b), "u32 u32"),
    ScalarRow("s_max_i32", lambda a, b: (max(a, b), a >= b), "i32 i32"),
    ScalarRow("s_max_u32", lambda a, b: (max(a, b), a >= b), "u32 u32"),
    *(ScalarRow(f"s_cselect_b{n}", lambda a, b, scc: a if scc else b, f"u{n} u{n}", n, "scc") for n in (32, 64)),
    *(ScalarRow(f"s_{name}_b{n}", nonzero(n, function), f"u{n} u{n}", n) for name, function in LOGIC.items() for n in (32, 64)),
    *(ScalarRow(f"s_lshl_b{n}", nonzero(n, lambda a, b, n=n: a << (b & n - 1)), f"u{n} u32", n) for n in (32, 64)),
    *(ScalarRow(f"s_lshr_b{n}", nonzero(n, lambda a, b, n=n: a >> (b & n - 1)), f"u{n} u32", n) for n in (32, 64)),
    *(ScalarRow(f"s_ashr_i{n}", nonzero(n, lambda a, b, n=n: a >> (b & n - 1)), f"i{n} u32", n) for n in (32, 64)),
    *(ScalarRow(f"s_bfm_b{n}", lambda a, b, n=n: ((1 << (a & n - 1)) - 1) << (b & n - 1), "u32 u32", n) for n in (32, 64)),
    ScalarRow("s_mul_i32", lambda a, b: a * b, "i32 i32"),
    ScalarRow("s_mul_hi_u32", lambda a, b: a * b >> 32, "u32 u32"),
    ScalarRow("s_mul_hi_i32", lambda a, b: a * b >> 32, "i32 i32"),
    *(ScalarRow(f"s_bfe_u{n}", nonzero(n, field(n, is_signed=False)), f"u{n} u32", n) for n in (32, 64)),
    *(ScalarRow(f"s_bfe_i{n}", nonzero(n, field(n, is_signed=True)), f"i{n} u32", n) for n in (32, 64)),
    ScalarRow("s_absdiff_i32", nonzero(32, lambda a, b: abs(signed(a - b, 32))), "i32 i32"),
    *(ScalarRow(f"s_lshl{n}_add_u32", carry(lambda a, b, n=n: (a << n) + b), "u32 u32") for n in (1, 2, 3, 4)),
    ScalarRow("s_pack_ll_b32_b16", lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16, "u32 u32"),
    ScalarRow("s_pack_lh_b32_b16", lambda a, b: a & 0xFFFF | (b >> 16) << 16, "u32 u32"),
    ScalarRow("s_pack_hh_b32_b16", lambda a, b: a >> 16 | (b >> 16) << 16, "u32 u32"),
    *(ScalarRow(f"s_mov_b{n}", lambda a: a, f"u{n}", n) for n in (32, 64)),
    *(ScalarRow(f"s_cmov_b{n}", lambda a, scc, old: a if scc else old, f"u{n}", n, "scc old") for n in (32, 64)),
    *(ScalarRow(f"s_not_b{n}", nonzero(n, lambda a: ~a), f"u{n}", n) for n in (32, 64)),
    *(ScalarRow(f"s_wqm_b{n}", nonzero(n, lambda a, n=n: whole_quads(n, a)), f"u{n}", n) for n in (32, 64)),
    *(ScalarRow(f"s_quadmask_b{n}", nonzero(n, lambda a, n=n: quads(n, a)), f"u{n}", n) for n in (32, 64)),
    *(ScalarRow(f"s_brev_b{n}", lambda a, n=n: reverse(n, a), f"u{n}", n) for n in (32, 64)),
    *(ScalarRow(f"s_bcnt0_i32_b{n}", nonzero(32, lambda a, n=n: n - a.bit_count()), f"u{n}") for n in (32, 64)),
    *(ScalarRow(f"s_bcnt1_i32_b{n}", nonzero(32, lambda a: a.bit_count()), f"u{n}") for n in (32, 64)),
    *(ScalarRow(f"s_ff0_i32_b{n}", lambda a, n=n: first_one(~a & (1 << n) - 1), f"u{n}") for n in (32, 64)),
    *(ScalarRow(f"s_ff1_i32_b{n}", first_one, f"u{n}") for n in (32, 64)),
    *(ScalarRow(f"s_flbit_i32_b{n}", lambda a, n=n: from_top(n, a), f"u{n}") for n in (32, 64)),
    ScalarRow("s_flbit_i32", lambda a: sign_run(32, a), "i32"),
    ScalarRow("s_flbit_i32_i64", lambda a: sign_run(64, a), "i64"),
    ScalarRow("s_sext_i32_i8", lambda a: signed(a, 8), "u32"),
    ScalarRow("s_sext_i32_i16", lambda a: signed(a, 16), "u32"),
    *(ScalarRow(f"s_bitset0_b{n}", lambda a, old, n=n: old & ~(1 << (a & n - 1)), "u32", n, "old") for n in (32, 64)),
    *(ScalarRow(f"s_bitset1_b{n}", lambda a, old, n=n: old | 1 << (a & n - 1), "u32", n, "old") for n in (32, 64)),
    ScalarRow("s_abs_i32", nonzero(32, abs), "i32"),
    ScalarRow("s_bitreplicate_b64_b32", lambda a: sum((a >> i & 1) * 3 << 2 * i for i in range(32)), "u32", 64),
    *(ScalarRow(f"s_cmp_{name}_{kind}32", lambda a, b, f=f: (None, f(a, b)), f"{kind}32 {kind}32", 0)
      for kind in "iu" for name, f in COMPARES.items()),
    *(ScalarRow(f"s_cmp_{name}_u64", lambda a, b, f=COMPARES[name]: (None, f(a, b)), "u64 u64", 0) for name in ("eq", "lg")),
    *(ScalarRow(f"s_bitcmp{v}_b{n}", lambda a, b, v=v, n=n: (None, a >> (b & n - 1) & 1 == v), f"u{n} u32", 0)
      for v in (0, 1) for n in (32, 64)),
    ScalarRow("s_movk_i32", lambda a: -2, "u32", operands="s20, 0xfffe"),
    ScalarRow("s_cmovk_i32", lambda a, scc, old: -2 if scc else old, "u32", state="scc old", operands="s20, 0xfffe"),
    ScalarRow("s_addk_i32", lambda a, old: overflow(lambda x, y: x + y)(signed(old, 32), -2), "u32", state="old",
              operands="s20, 0xfffe"),
    ScalarRow("s_mulk_i32", lambda a, old: old * -3, "u32", state="old", operands="s20, 0xfffd"),
    *(ScalarRow(f"s_cmpk_{name}_i32", lambda a, f=f: (None, f(a, -2)), "i32", 0, operands="s0, 0xfffe")
      for name, f in COMPARES.items()),
    *(ScalarRow(f"s_cmpk_{name}_u32", lambda a, f=f: (None, f(a, 0xFFFE)), "u32", 0, operands="s0, 0xfffe")
      for name, f in COMPARES.items()),
]  # fmt: skip
"""Opcode, oracle, sources, bits of the destination."""
SAVE_EXEC: dict[str, Callable[[int, int], int]] = {
    **LOGIC, "andn2": lambda a, e: a & ~e, "orn2": lambda a, e: a | ~e, "andn1": lambda a, e: ~a & e, "orn1": lambda a, e: ~a | e,
}  # fmt: skip
WRITE_EXEC: dict[str, Callable[[int, int], int]] = {"andn1": lambda a, e: ~a & e, "andn2": lambda a, e: a & ~e}
RELATIVE = {
    "s_movrels_b32 s20, s0": (20, 32, 3, 32), "s_movrels_b64 s[20:21], s[0:1]": (20, 64, 2, 64),
    "s_movreld_b32 s20, s0": (23, 32, 0, 32), "s_movreld_b64 s[20:21], s[0:1]": (22, 64, 0, 64),
}  # fmt: skip
"""Registers of the result and of the source, with M0 = 3 (2 for pairs)."""


def texts() -> list[str]:
    """Return every instruction of this file."""
    return [
        *(row.text for row in ROWS),
        *(f"s_{name}_saveexec_b64 s[20:21], s[0:1]" for name in SAVE_EXEC),
        *(f"s_{name}_wrexec_b64 s[20:21], s[0:1]" for name in WRITE_EXEC),
        *RELATIVE,
    ]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_it_equals_the_oracle_on_edge_values(snippets: Snippets, row: ScalarRow) -> None:
    kinds = row.inputs.split()
    columns = pairs(*[edge_integers(int(kind[1:]), seed=i) for i, kind in enumerate(kinds)], limit=400)
    old = (0x0123456789ABCDEF, 0xFFFFFFFF80000000, 0x7FFFFFFF7FFFFFFF)[len(row.name) % 3]
    sgprs = {2 * i: c for i, c in enumerate(columns)} | {20: old, 21: old >> 32}
    outcomes = {scc: snippets.run(row.text, {}, sgprs, scc=scc) for scc in (0, 1)}

    for scc, outcome in outcomes.items():
        given = {"scc": scc, "old": old & (1 << row.out) - 1}
        state = [given[name] for name in row.state.split()]
        for n, values in enumerate(zip(*columns, strict=True)):
            operands = [signed(int(v), int(k[1:])) if k[0] == "i" else int(v) for v, k in zip(values, kinds, strict=True)]
            result = row.oracle(*operands, *state)
            value, flag = result if isinstance(result, tuple) else (result, scc)
            seen = outcome.scalar(20, f"u{row.out // 8}")[n] if row.out else 0
            wanted = (value or 0) & (1 << row.out) - 1
            shown = f"{row.text}: {[hex(int(v)) for v in values]}, SCC {scc}"
            assert (seen, outcome.scc[n]) == (wanted, int(flag)), f"{shown} returns {seen:#x}, expected {wanted:#x}, {int(flag)}"


@pytest.mark.parametrize("name", SAVE_EXEC)
def test_saveexec_returns_the_old_exec(snippets: Snippets, name: str) -> None:
    for execute in (0, M64, 0xF0F0F0F0F0F0F0F0):
        values = edge_integers(64)
        outcome = snippets.run(f"s_{name}_saveexec_b64 s[20:21], s[0:1]", {}, {0: values}, execute=execute)
        expected = [SAVE_EXEC[name](int(v), execute) & M64 for v in values]
        assert outcome.scalar(EXEC, np.uint64).tolist() == expected
        assert outcome.scalar(20, np.uint64).tolist() == [execute] * len(values)
        assert outcome.scc.tolist() == [int(e != 0) for e in expected]


@pytest.mark.parametrize("name", WRITE_EXEC)
def test_wrexec_returns_the_new_exec(snippets: Snippets, name: str) -> None:
    values, execute = edge_integers(64), 0xF0F0F0F0F0F0F0F0
    outcome = snippets.run(f"s_{name}_wrexec_b64 s[20:21], s[0:1]", {}, {0: values}, execute=execute)

    expected = [WRITE_EXEC[name](int(v), execute) & M64 for v in values]
    assert outcome.scalar(EXEC, np.uint64).tolist() == outcome.scalar(20, np.uint64).tolist() == expected
    assert outcome.scc.tolist() == [int(e != 0) for e in expected]


@pytest.mark.parametrize("text", RELATIVE)
def test_relative_moves_add_m0(snippets: Snippets, text: str) -> None:
    target, bits, source, _ = RELATIVE[text]
    registers = {i: 0x1000 + i for i in range(12)} | {124: 2 if bits == 64 else 3}
    outcome = snippets.run(text, {}, registers)

    wanted = [0x1000 + source + i for i in range(bits // 32)]
    assert [int(outcome.scalar(target + i)[0]) for i in range(bits // 32)] == wanted
