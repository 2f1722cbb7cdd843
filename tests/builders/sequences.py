"""Random sequences of instructions with their results: each item is assembly text and a function on a NumPy wavefront.

Sequences have data dependences, EXEC masks with branches around them, loops, LDS and device memory. They use instructions that
all emulated architectures have with equal semantics. Undefined cases do not occur: no two lanes store to one address, and DPP
reads active lanes only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

LANES = 64
REGISTERS, SCALARS = 12, 4
"""VGPRs and SGPRs that sequences compute with: v0 and up, s8 and up."""
FIRST_SCALAR = 8
LDS_WORDS = MEMORY_WORDS = 64
_LANE, _T = 12, 14  # v12: lane number times 4; v14 to v21 are temporary
_FULL = np.ones(LANES, bool)


@dataclass
class Wavefront:
    """State that sequences change. All numbers are 32-bit words."""

    vgprs: Words
    sgprs: Words
    lds: Words
    memory: Words
    active: NDArray[np.bool_] = field(default_factory=lambda: _FULL.copy())

    def set(self, register: int, values: Any) -> None:
        """Write a VGPR in the active lanes."""
        self.vgprs[register] = np.where(self.active, np.asarray(values).astype(np.uint32), self.vgprs[register])


@dataclass(frozen=True)
class Item:
    """Instructions and their effect."""

    lines: tuple[str, ...]
    apply: Callable[[Wavefront], None]


def _signed(x: Words) -> NDArray[np.int64]:
    return x.view(np.int32).astype(np.int64)


def _wide(x: Words) -> NDArray[np.uint64]:
    return x.astype(np.uint64)


def _bits(x: Words) -> Words:
    return np.array([int(word).bit_count() for word in x], np.uint32)


def _reversed(x: Words) -> Words:
    return np.array([int(f"{int(word):032b}"[::-1], 2) for word in x], np.uint32)


def _halves(f: Callable[[Any, Any], Any]) -> Callable[[Words, Words], Words]:
    def pairwise(a: Words, b: Words) -> Words:
        low, high = (
            f(a >> s & 0xFFFF, b >> s & 0xFFFF).astype(np.uint32) & np.uint32(0xFFFF) for s in (np.uint32(0), np.uint32(16))
        )
        joined: Words = low | high << np.uint32(16)
        return joined

    return pairwise


_M = np.uint32(31)
VECTOR: dict[str, tuple[int, Callable[..., Any]]] = {
    "v_add_u32": (2, lambda a, b: a + b),
    "v_sub_u32": (2, lambda a, b: a - b),
    "v_subrev_u32": (2, lambda a, b: b - a),
    "v_mul_lo_u32": (2, lambda a, b: a * b),
    "v_mul_hi_u32": (2, lambda a, b: _wide(a) * _wide(b) >> np.uint64(32)),
    "v_mul_i32_i24": (2, lambda a, b: (_signed(a << 8 & 0xFFFFFFFF) >> 8) * (_signed(b << 8 & 0xFFFFFFFF) >> 8) & 0xFFFFFFFF),
    "v_and_b32": (2, lambda a, b: a & b),
    "v_or_b32": (2, lambda a, b: a | b),
    "v_xor_b32": (2, lambda a, b: a ^ b),
    "v_lshlrev_b32": (2, lambda a, b: b << (a & _M)),
    "v_lshrrev_b32": (2, lambda a, b: b >> (a & _M)),
    "v_ashrrev_i32": (2, lambda a, b: _signed(b) >> (a & _M).astype(np.int64) & 0xFFFFFFFF),
    "v_min_u32": (2, np.minimum),
    "v_max_i32": (2, lambda a, b: np.maximum(_signed(a), _signed(b)) & 0xFFFFFFFF),
    "v_bcnt_u32_b32": (2, lambda a, b: _bits(a) + b),
    "v_not_b32": (1, lambda a: ~a),
    "v_bfrev_b32": (1, _reversed),
    "v_pk_add_u16": (2, _halves(lambda a, b: a + b)),
    "v_pk_mul_lo_u16": (2, _halves(lambda a, b: a * b)),
    "v_pk_max_u16": (2, _halves(np.maximum)),
    "v_add3_u32": (3, lambda a, b, c: a + b + c),
    "v_xad_u32": (3, lambda a, b, c: (a ^ b) + c),
    "v_lshl_add_u32": (3, lambda a, b, c: (a << (b & _M)) + c),
    "v_and_or_b32": (3, lambda a, b, c: a & b | c),
    "v_bfi_b32": (3, lambda a, b, c: a & b | ~a & c),
    "v_bfe_u32": (3, lambda a, b, c: a >> (b & _M) & ((np.uint32(1) << (c & _M)) - np.uint32(1))),
    "v_alignbit_b32": (3, lambda a, b, c: (_wide(a) << np.uint64(32) | _wide(b)) >> _wide(c & _M) & np.uint64(0xFFFFFFFF)),
    "v_mad_u32_u24": (3, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "v_med3_u32": (3, lambda a, b, c: np.sort(np.stack([a, b, c]), axis=0)[1]),
    "v_sad_u32": (3, lambda a, b, c: np.where(a > b, a - b, b - a) + c),
}
COMPARISONS: dict[str, Callable[[Words, Words], NDArray[np.bool_]]] = {
    "lt_u32": lambda a, b: a < b,
    "ge_i32": lambda a, b: _signed(a) >= _signed(b),
    "eq_u16": lambda a, b: (a & 0xFFFF) == (b & 0xFFFF),
    "gt_u32": lambda a, b: a > b,
    "ne_u32": lambda a, b: a != b,
}
SCALAR: dict[str, Callable[[int, int], int]] = {
    "s_add_u32": lambda a, b: a + b,
    "s_sub_u32": lambda a, b: a - b,
    "s_mul_i32": lambda a, b: a * b,
    "s_mul_hi_u32": lambda a, b: a * b >> 32,
    "s_xor_b32": lambda a, b: a ^ b,
    "s_andn2_b32": lambda a, b: a & ~b,
    "s_lshl_b32": lambda a, b: a << (b & 31),
    "s_max_u32": max,
    "s_pack_lh_b32_b16": lambda a, b: a & 0xFFFF | b & 0xFFFF0000,
}


class Generator:
    """Generator of one sequence; labels have its prefix."""

    def __init__(self, seed: int, prefix: str) -> None:
        self.random = np.random.default_rng(seed)
        self._prefix = prefix
        self._labels = 0

    def sequence(self, length: int) -> tuple[str, Callable[[Wavefront], None]]:
        """Return the text of a sequence and its effect."""
        item = self._block(length, depth=0)
        return "\n".join([f"v_lshlrev_b32 v{_LANE}, 2, v{_LANE}", *item.lines]), item.apply

    def _block(self, length: int, depth: int) -> Item:
        items = [self._item(depth) for _ in range(length)]

        def apply(wave: Wavefront) -> None:
            for item in items:
                item.apply(wave)

        return Item(tuple(line for item in items for line in item.lines), apply)

    def _item(self, depth: int) -> Item:
        simple: Sequence[Callable[[], Item]] = (
            self._vector, self._vector, self._vector, self._with_scalar, self._select, self._scalar, self._first_lane,
            self._floats, self._doubles, self._packed_floats, self._product, self._lds, self._lds_sum, self._memory,
            self._memory_sum, self._permuted,
        )  # fmt: skip
        nested: Sequence[Callable[[int], Item]] = (self._branch, self._loop, self._uniform_branch)
        if depth < 2 and self.random.random() < 0.2:
            return nested[self._below(len(nested))](depth)
        if depth == 0 and self.random.random() < 0.08:
            return self._lane_pattern()
        return simple[self._below(len(simple))]()

    def _below(self, limit: int) -> int:
        return int(self.random.integers(limit))

    def _register(self) -> int:
        return self._below(REGISTERS)

    def _label(self) -> str:
        self._labels += 1
        return f"{self._prefix}_{self._labels}"

    # ---- vector instructions ----

    def _vector(self) -> Item:
        name = list(VECTOR)[self._below(len(VECTOR))]
        count, function = VECTOR[name]
        target, sources = self._register(), [self._register() for _ in range(count)]

        def apply(wave: Wavefront) -> None:
            with np.errstate(over="ignore"):
                wave.set(target, function(*[wave.vgprs[source].copy() for source in sources]))

        return Item((f"{name} v{target}, {', '.join(f'v{source}' for source in sources)}",), apply)

    def _with_scalar(self) -> Item:
        target, scalar, source = self._register(), self._below(SCALARS), self._register()
        constant = int(self.random.choice([1, 64, -16, 0x12345678, 0xFFFF0000]))

        def apply(wave: Wavefront) -> None:
            with np.errstate(over="ignore"):
                wave.set(target, (wave.sgprs[scalar] ^ wave.vgprs[source]) + np.uint32(constant & 0xFFFFFFFF))

        operand = hex(constant) if constant > 64 else str(constant)
        lines = (f"v_xor_b32 v{_T}, s{FIRST_SCALAR + scalar}, v{source}", f"v_add_u32 v{target}, {operand}, v{_T}")
        return Item(lines, apply)

    def _select(self) -> Item:
        name = list(COMPARISONS)[self._below(len(COMPARISONS))]
        target, a, b, c, d = (self._register() for _ in range(5))

        def apply(wave: Wavefront) -> None:
            v = wave.vgprs
            wave.set(target, np.where(COMPARISONS[name](v[a], v[b]), v[d], v[c]))

        return Item((f"v_cmp_{name} vcc, v{a}, v{b}", f"v_cndmask_b32 v{target}, v{c}, v{d}, vcc"), apply)

    def _product(self) -> Item:
        """64-bit product and sum: V_MAD_U64_U32."""
        target, a, b, c = (self._register() for _ in range(4))

        def apply(wave: Wavefront) -> None:
            v = wave.vgprs
            with np.errstate(over="ignore"):
                total = _wide(v[a]) * _wide(v[b]) + _wide(v[c])
            wave.set(target, total >> np.uint64(32) ^ total & np.uint64(0xFFFFFFFF))

        return Item(
            (
                f"v_mov_b32 v{_T}, v{c}", f"v_mov_b32 v{_T + 1}, 0",
                f"v_mad_u64_u32 v[{_T}:{_T + 1}], vcc, v{a}, v{b}, v[{_T}:{_T + 1}]",
                f"v_xor_b32 v{target}, v{_T}, v{_T + 1}",
            ),
            apply,
        )  # fmt: skip

    def _floats(self) -> Item:
        """Integers below 2 ** 24 as f32, so that every result is exact."""
        target, a, b = (self._register() for _ in range(3))

        def apply(wave: Wavefront) -> None:
            v = wave.vgprs
            wave.set(target, (v[a] & 255) * (v[b] >> 8 & 255) + (v[a] & 255))

        return Item(
            (
                f"v_cvt_f32_ubyte0 v{_T}, v{a}", f"v_cvt_f32_ubyte1 v{_T + 1}, v{b}",
                f"v_fma_f32 v{_T + 2}, v{_T}, v{_T + 1}, v{_T}", f"v_cvt_u32_f32 v{target}, v{_T + 2}",
            ),
            apply,
        )  # fmt: skip

    def _doubles(self) -> Item:
        target, a, b = (self._register() for _ in range(3))

        def apply(wave: Wavefront) -> None:
            v = wave.vgprs
            total = (v[a] & 0xFFFF).astype(np.float64) * (v[b] & 0x7FFF).astype(np.float64) + 0.5
            wave.set(target, np.trunc(total).astype(np.uint64))

        return Item(
            (
                f"v_and_b32 v{_T}, 0xffff, v{a}", f"v_and_b32 v{_T + 1}, 0x7fff, v{b}",
                f"v_cvt_f64_u32 v[{_T + 2}:{_T + 3}], v{_T}", f"v_cvt_f64_u32 v[{_T + 4}:{_T + 5}], v{_T + 1}",
                f"v_fma_f64 v[{_T + 2}:{_T + 3}], v[{_T + 2}:{_T + 3}], v[{_T + 4}:{_T + 5}], 0.5",
                f"v_cvt_u32_f64 v{target}, v[{_T + 2}:{_T + 3}]",
            ),
            apply,
        )  # fmt: skip

    def _packed_floats(self) -> Item:
        target, a, b = (self._register() for _ in range(3))

        def apply(wave: Wavefront) -> None:
            low, high = ((wave.vgprs[a] >> np.uint32(s) & 255) for s in (0, 16))
            factor = wave.vgprs[b] & 255
            wave.set(target, (low * factor + high) + (high * factor + low) * 2)

        return Item(
            (
                f"v_cvt_f32_ubyte0 v{_T}, v{a}", f"v_cvt_f32_ubyte2 v{_T + 1}, v{a}", f"v_cvt_f32_ubyte0 v{_T + 2}, v{b}",
                f"v_pk_fma_f32 v[{_T + 4}:{_T + 5}], v[{_T}:{_T + 1}], v[{_T + 2}:{_T + 3}], v[{_T}:{_T + 1}] "
                "op_sel:[0,0,1] op_sel_hi:[1,0,0]",
                f"v_cvt_u32_f32 v{_T}, v{_T + 4}", f"v_cvt_u32_f32 v{_T + 1}, v{_T + 5}",
                f"v_lshl_add_u32 v{target}, v{_T + 1}, 1, v{_T}",
            ),
            apply,
        )  # fmt: skip

    def _lane_pattern(self) -> Item:
        """DPP, for which all lanes have to be active."""
        target, source = self._register(), self._register()
        lane = np.arange(LANES)
        patterns = {
            "quad_perm:[3,0,2,1]": lane & ~3 | np.array([3, 0, 2, 1])[lane & 3],
            "row_ror:5": lane & ~15 | (lane - 5) & 15,
            "row_mirror": lane ^ 15,
            "row_half_mirror": lane ^ 7,
        }
        pattern = list(patterns)[self._below(len(patterns))]

        def apply(wave: Wavefront) -> None:
            with np.errstate(over="ignore"):
                wave.set(target, wave.vgprs[source][patterns[pattern]] + wave.vgprs[target])

        return Item((f"v_add_u32_dpp v{target}, v{source}, v{target} {pattern} row_mask:0xf bank_mask:0xf",), apply)

    # ---- scalar instructions ----

    def _scalar(self) -> Item:
        name = list(SCALAR)[self._below(len(SCALAR))]
        target, a, b = (self._below(SCALARS) for _ in range(3))

        def apply(wave: Wavefront) -> None:
            wave.sgprs[target] = SCALAR[name](int(wave.sgprs[a]), int(wave.sgprs[b])) & 0xFFFFFFFF

        return Item((f"{name} s{FIRST_SCALAR + target}, s{FIRST_SCALAR + a}, s{FIRST_SCALAR + b}",), apply)

    def _first_lane(self) -> Item:
        target, source = self._below(SCALARS), self._register()

        def apply(wave: Wavefront) -> None:
            wave.sgprs[target] = wave.vgprs[source][np.argmax(wave.active)]

        return Item((f"v_readfirstlane_b32 s{FIRST_SCALAR + target}, v{source}",), apply)

    # ---- memory ----

    def _lds(self) -> Item:
        """Store to a permutation of the words, and load from any."""
        target, source, at, mask = self._register(), self._register(), self._register(), self._below(LDS_WORDS)

        def apply(wave: Wavefront) -> None:
            place = np.arange(LANES) ^ mask
            wave.lds[place[wave.active]] = wave.vgprs[source][wave.active]
            wave.set(target, wave.lds[wave.vgprs[at] >> np.uint32(2) & np.uint32(63)])

        return Item(
            (
                f"v_xor_b32 v{_T}, {hex(4 * mask)}, v{_LANE}", f"ds_write_b32 v{_T}, v{source} offset:256",
                f"v_and_b32 v{_T + 1}, 0xfc, v{at}", f"ds_read_b32 v{target}, v{_T + 1} offset:256", "s_waitcnt lgkmcnt(0)",
            ),
            apply,
        )  # fmt: skip

    def _lds_sum(self) -> Item:
        source, at = self._register(), self._register()

        def apply(wave: Wavefront) -> None:
            place = wave.vgprs[at] >> np.uint32(2) & np.uint32(63)
            with np.errstate(over="ignore"):
                np.add.at(wave.lds, place[wave.active], wave.vgprs[source][wave.active])

        return Item((f"v_and_b32 v{_T}, 0xfc, v{at}", f"ds_add_u32 v{_T}, v{source} offset:256"), apply)

    def _memory(self) -> Item:
        target, source, at, mask = self._register(), self._register(), self._register(), self._below(MEMORY_WORDS)

        def apply(wave: Wavefront) -> None:
            place = np.arange(LANES) ^ mask
            wave.memory[place[wave.active]] = wave.vgprs[source][wave.active]
            wave.set(target, wave.memory[wave.vgprs[at] >> np.uint32(2) & np.uint32(63)])

        return Item(
            (
                f"v_xor_b32 v{_T}, {hex(4 * mask)}, v{_LANE}", f"global_store_dword v{_T}, v{source}, s[2:3]",
                f"v_and_b32 v{_T + 1}, 0xfc, v{at}", f"global_load_dword v{target}, v{_T + 1}, s[2:3]", "s_waitcnt vmcnt(0)",
            ),
            apply,
        )  # fmt: skip

    def _memory_sum(self) -> Item:
        source, at = self._register(), self._register()

        def apply(wave: Wavefront) -> None:
            place = wave.vgprs[at] >> np.uint32(2) & np.uint32(63)
            np.bitwise_xor.at(wave.memory, place[wave.active], wave.vgprs[source][wave.active])

        return Item((f"v_and_b32 v{_T}, 0xfc, v{at}", f"global_atomic_xor v{_T}, v{source}, s[2:3]"), apply)

    def _permuted(self) -> Item:
        """Read of any lane; inactive lanes are read as zero."""
        target, source, at = (self._register() for _ in range(3))

        def apply(wave: Wavefront) -> None:
            visible = np.where(wave.active, wave.vgprs[source], 0)
            wave.set(target, visible[wave.vgprs[at] >> np.uint32(2) & np.uint32(63)])

        return Item((f"ds_bpermute_b32 v{target}, v{at}, v{source}", "s_waitcnt lgkmcnt(0)"), apply)

    # ---- control ----

    def _branch(self, depth: int) -> Item:
        """Two sides of a condition, each skipped without active lanes."""
        name = list(COMPARISONS)[self._below(len(COMPARISONS))]
        a, b = self._register(), self._register()
        saved, other, end = f"s[{20 + 4 * depth}:{21 + 4 * depth}]", self._label(), self._label()
        first, second = self._block(1 + self._below(4), depth + 1), self._block(1 + self._below(3), depth + 1)

        def apply(wave: Wavefront) -> None:
            before = wave.active
            taken = before & COMPARISONS[name](wave.vgprs[a], wave.vgprs[b])
            for side, active in ((first, taken), (second, before & ~taken)):
                wave.active = active
                if active.any():
                    side.apply(wave)
            wave.active = before

        return Item(
            (
                f"v_cmp_{name} vcc, v{a}, v{b}", f"s_and_saveexec_b64 {saved}, vcc", f"s_xor_b64 {saved}, exec, {saved}",
                f"s_cbranch_execz {other}", *first.lines, f"{other}:", f"s_or_saveexec_b64 {saved}, {saved}",
                f"s_xor_b64 exec, exec, {saved}", f"s_cbranch_execz {end}", *second.lines, f"{end}:",
                f"s_or_b64 exec, exec, {saved}",
            ),
            apply,
        )  # fmt: skip

    def _loop(self, depth: int) -> Item:
        turns, counter, start = 1 + self._below(4), 30 + depth, self._label()
        body = self._block(1 + self._below(4), depth + 1)

        def apply(wave: Wavefront) -> None:
            for _ in range(turns):
                body.apply(wave)

        return Item(
            (
                f"s_mov_b32 s{counter}, {turns}", f"{start}:", *body.lines, f"s_sub_u32 s{counter}, s{counter}, 1",
                f"s_cmp_lg_u32 s{counter}, 0", f"s_cbranch_scc1 {start}",
            ),
            apply,
        )  # fmt: skip

    def _uniform_branch(self, depth: int) -> Item:
        a, b, end = self._below(SCALARS), self._below(SCALARS), self._label()
        body = self._block(1 + self._below(4), depth + 1)

        def apply(wave: Wavefront) -> None:
            if wave.sgprs[a] < wave.sgprs[b]:
                body.apply(wave)

        compare = f"s_cmp_ge_u32 s{FIRST_SCALAR + a}, s{FIRST_SCALAR + b}"
        return Item((compare, f"s_cbranch_scc1 {end}", *body.lines, f"{end}:"), apply)
