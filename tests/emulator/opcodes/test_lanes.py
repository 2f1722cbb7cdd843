"""Operations across lanes: DPP, lane reads and writes, permutations of the LDS unit, and conditional moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import VCC
from tests.builders.opcodes import ALL_LANES, JUNK, Snippets, edge_floats, edge_integers
from tests.emulator.opcodes.test_integer import masked_sad

if TYPE_CHECKING:
    from collections.abc import Callable

U32 = np.uint32
LANES = np.arange(64)
VALUES = np.arange(64, dtype=U32) * U32(2654435761)
SOME = 0x5A5A_0FF0_C33C_9669


def active(mask: int) -> Any:
    return np.array([bool(mask >> lane & 1) for lane in range(64)])


def row_shift(lane: int, by: int) -> int | None:
    return lane + by if 0 <= (lane & 15) + by < 16 else None


def row_rotation(lane: int, by: int) -> int:
    return (lane & ~15) + ((lane & 15) - by) % 16


CONTROLS: dict[str, Callable[[int], int | None]] = {
    "quad_perm:[3,1,0,2]": lambda lane: (lane & ~3) + (3, 1, 0, 2)[lane & 3],
    "quad_perm:[1,1,2,2]": lambda lane: (lane & ~3) + (1, 1, 2, 2)[lane & 3],
    **{f"row_shl:{n}": partial(row_shift, by=n) for n in (1, 7, 15)},
    **{f"row_shr:{n}": partial(row_shift, by=-n) for n in (1, 7, 15)},
    **{f"row_ror:{n}": partial(row_rotation, by=n) for n in (1, 7, 15)},
    "wave_shl:1": lambda lane: lane + 1 if lane < 63 else None,
    "wave_rol:1": lambda lane: (lane + 1) % 64,
    "wave_shr:1": lambda lane: lane - 1 if lane > 0 else None,
    "wave_ror:1": lambda lane: (lane - 1) % 64,
    "row_mirror": lambda lane: lane ^ 15,
    "row_half_mirror": lambda lane: lane ^ 7,
    "row_bcast:15": lambda lane: (lane & ~15) - 1 if lane >= 16 else None,
    "row_bcast:31": lambda lane: 31 if lane >= 32 else None,
    "row_newbcast:5": lambda lane: (lane & ~15) + 5,
}  # fmt: skip
MASKS = ("row_mask:0xf bank_mask:0xf", "row_mask:0xa bank_mask:0xf", "row_mask:0xf bank_mask:0x5", "row_mask:0x6 bank_mask:0x9")
BOUNDS = ("", " bound_ctrl:0")


@dataclass(frozen=True)
class Move:
    control: str
    masks: str
    bound: str

    @property
    def modifiers(self) -> str:
        return f"{self.control} {self.masks}{self.bound}"

    def expected(self, source: Any, execute: int, old: Any, combine: Callable[[Any], Any] = lambda x: x) -> Any:
        rows, banks = (int(part.split(":")[1], 16) for part in self.masks.split())
        result = old.copy()
        for lane in range(64):
            origin = CONTROLS[self.control](lane)
            valid = origin is not None and execute >> origin & 1
            written = execute >> lane & rows >> lane // 16 & banks >> lane // 4 % 4 & 1
            if written and (valid or self.bound):
                result[lane] = combine(source[origin] if valid else 0)
        return result


MOVES = [Move(c, m, b) for c in CONTROLS for m in MASKS for b in BOUNDS]
WIDE = "v_mov_b64_dpp v[20:21], v[0:1] row_newbcast:3 row_mask:0xf bank_mask:0xf"
FLOAT = "v_sub_f32_dpp v20, -v0, |v2| row_ror:3 row_mask:0xf bank_mask:0xf"
ADD = "v_add_u32_dpp v20, v0, v0 row_shr:1 row_mask:0xf bank_mask:0xf"
CARRY = "v_addc_co_u32_dpp v20, vcc, v0, v2, vcc row_ror:1 row_mask:0xf bank_mask:0xf"
REDUCTION = """\
v_add_u32_dpp v0, v0, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0
s_nop 1
v_add_u32_dpp v0, v0, v0 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:0
s_nop 1
v_add_u32_dpp v0, v0, v0 row_shr:4 row_mask:0xf bank_mask:0xf bound_ctrl:0
s_nop 1
v_add_u32_dpp v0, v0, v0 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:0
s_nop 1
v_add_u32_dpp v0, v0, v0 row_bcast:15 row_mask:0xa bank_mask:0xf
s_nop 1
v_add_u32_dpp v0, v0, v0 row_bcast:31 row_mask:0xc bank_mask:0xf
v_readlane_b32 s20, v0, 63"""
READ_FIRST, READ_IMMEDIATE, READ_SCALAR = (
    "v_readfirstlane_b32 s20, v0",
    "v_readlane_b32 s20, v0, 37",
    "v_readlane_b32 s20, v0, s4",
)
WRITES = ("v_writelane_b32 v20, s2, 37", "v_writelane_b32 v20, -5, s4", "v_writelane_b32 v20, s2, m0")
BPERMUTE, PERMUTE = "ds_bpermute_b32 v20, v2, v0 offset:8", "ds_permute_b32 v20, v2, v0 offset:8"
CNDMASK = "v_cndmask_b32_e64 v20, -v0, |v2|, s[10:11]"
SWAP = "v_swap_b32 v0, v2"
COUNTS = ("v_mbcnt_lo_u32_b32 v20, v0, v2", "v_mbcnt_hi_u32_b32 v20, v0, v2")
ACCUMULATORS = """\
v_accvgpr_write_b32 a3, v0
v_accvgpr_mov_b32 a4, a3
v_accvgpr_read_b32 v20, a4"""
DIFFERENCES = "v_mqsad_u32_u8 v[20:23], v[0:1], v2, v[4:7]"


def bit_mask(offset: int) -> Callable[[int], int]:
    keep, set_bits, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
    return lambda lane: lane & 32 | (lane & keep | set_bits) ^ flip


def reversed_bits(lane: int, mask: int) -> int:
    backwards = int(f"{lane & 31:05b}"[::-1], 2)
    return lane & 32 | backwards >> mask.bit_count() | lane & mask


SWIZZLES: dict[str, Callable[[int], int]] = {
    "offset:0x8072": lambda lane: lane & ~3 | (2, 0, 3, 1)[lane & 3],
    **{f"offset:{o:#x}": bit_mask(o) for o in (0x041F, 0x7C1F, 0x0018, 0x0A35, 0x401F)},
    "swizzle(BITMASK_PERM, \"01pip\")": lambda lane: lane & 32 | (lane & 0b111 | 0b01000) ^ 0b010,
    "swizzle(BROADCAST, 8, 3)": lambda lane: lane & ~7 | 3,
    "swizzle(SWAP, 4)": lambda lane: lane ^ 4,
    "swizzle(REVERSE, 8)": lambda lane: lane ^ 7,
    "offset:0xc060": lambda lane: lane & 32 | (lane + 3) & 31,
    "offset:0xc460": lambda lane: lane & 32 | (lane - 3) & 31,
    "offset:0xc078": lambda lane: lane & 56 | (lane + 3) & 7,
    **{f"offset:{0xE000 | m:#x}": partial(reversed_bits, mask=m) for m in (0, 0x10, 0x18, 0x1C, 0x1E, 0x1F)},
}  # fmt: skip


def swizzle_text(name: str) -> str:
    return f"ds_swizzle_b32 v20, v0 {name if name.startswith('offset') else 'offset:' + name}"


def texts() -> list[str]:
    """Return every instruction of this file."""
    return [
        *(f"v_mov_b32_dpp v20, v0 {move.modifiers}" for move in MOVES),
        WIDE, FLOAT, ADD, CARRY, REDUCTION, READ_FIRST, READ_IMMEDIATE, READ_SCALAR, *WRITES, BPERMUTE, PERMUTE, CNDMASK, SWAP,
        *COUNTS, ACCUMULATORS, DIFFERENCES,
        *map(swizzle_text, SWIZZLES),
    ]  # fmt: skip


@pytest.mark.parametrize("execute", [ALL_LANES, SOME])
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.modifiers)
def test_dpp_takes_the_first_source_from_another_lane(snippets: Snippets, move: Move, execute: int) -> None:
    outcome = snippets.run(f"v_mov_b32_dpp v20, v0 {move.modifiers}", {0: VALUES}, execute=execute)

    assert np.array_equal(outcome.row(20), move.expected(VALUES, execute, np.full(64, JUNK, U32)))


def test_dpp_of_pairs_of_registers(snippets: Snippets) -> None:
    wide = edge_integers(64)[:64]
    expected = wide[(LANES & ~15) + 3]

    assert np.array_equal(snippets.run(WIDE, {0: wide}).row(20, np.uint64), expected)


def test_dpp_with_modifiers_and_in_place(snippets: Snippets) -> None:
    x, y = edge_floats(np.float32)[:64], np.roll(edge_floats(np.float32)[:64], 5)
    moved = x[(LANES & ~15) + (LANES - 3) % 16]
    with np.errstate(all="ignore"):
        expected = -moved - np.abs(y)
    actual = snippets.run(FLOAT, {0: x, 2: y}).row(20, np.float32)
    assert np.array_equal(actual, expected, equal_nan=True)

    before = np.where(LANES % 16 > 0, VALUES[LANES - 1] + VALUES, U32(JUNK))
    assert np.array_equal(snippets.run(ADD, {0: VALUES}).row(20), before)
    turned = VALUES[(LANES & ~15) + (LANES - 1) % 16].astype(np.uint64) + VALUES[::-1] + active(SOME)
    outcome = snippets.run(CARRY, {0: VALUES, 2: VALUES[::-1].copy()}, {VCC: SOME, VCC + 1: SOME >> 32})
    assert np.array_equal(outcome.row(20), turned.astype(U32))
    assert np.array_equal(outcome.mask(), turned >> np.uint64(32) != 0)


def test_the_reduction_that_compilers_write_sums_all_lanes(snippets: Snippets) -> None:
    assert snippets.run(REDUCTION, {0: VALUES}).scalar(20)[0] == VALUES.sum(dtype=U32)


@pytest.mark.parametrize("execute", [ALL_LANES, SOME, 1 << 40, 0])
def test_lane_reads_ignore_exec_except_for_the_first_lane(snippets: Snippets, execute: int) -> None:
    first = (execute & -execute).bit_length() - 1 if execute else 0

    assert snippets.run(READ_FIRST, {0: VALUES}, execute=execute).scalar(20)[0] == VALUES[first]
    assert snippets.run(READ_IMMEDIATE, {0: VALUES}, execute=execute).scalar(20)[0] == VALUES[37]
    assert snippets.run(READ_SCALAR, {0: VALUES}, {4: 64 + 11}, execute=execute).scalar(20)[0] == VALUES[11]


@pytest.mark.parametrize(("text", "lane", "value"), [(WRITES[0], 37, 77), (WRITES[1], 11, -5), (WRITES[2], 12, 77)])
def test_lane_writes_change_one_lane_with_any_exec(snippets: Snippets, text: str, lane: int, value: int) -> None:
    for execute in (ALL_LANES, 0):
        expected = np.full(64, JUNK, U32)
        expected[lane] = value & 0xFFFFFFFF
        outcome = snippets.run(text, {0: VALUES}, {2: 77, 4: 64 + 11, 124: 12}, execute=execute)
        assert np.array_equal(outcome.row(20), expected)


@pytest.mark.parametrize("execute", [ALL_LANES, SOME])
def test_permutations_pull_and_push(snippets: Snippets, execute: int) -> None:
    on = active(execute)
    address = (LANES * 12 + 256).astype(U32)
    place = (address + 8) // 4 % 64
    pulled = np.where(on, np.where(on[place], VALUES[place], 0), JUNK)
    pushed = np.zeros(64, U32)
    for lane in range(64):
        if on[lane]:
            pushed[place[lane]] = VALUES[lane]

    assert np.array_equal(snippets.run(BPERMUTE, {0: VALUES, 2: address}, execute=execute).row(20), pulled)
    assert np.array_equal(snippets.run(PERMUTE, {0: VALUES, 2: address}, execute=execute).row(20), np.where(on, pushed, JUNK))


@pytest.mark.parametrize("execute", [ALL_LANES, SOME])
@pytest.mark.parametrize("name", SWIZZLES)
def test_swizzles(snippets: Snippets, name: str, execute: int) -> None:
    on = active(execute)
    source = np.array([SWIZZLES[name](lane) for lane in range(64)])
    expected = np.where(on, np.where(on[source], VALUES[source], 0), JUNK)

    assert np.array_equal(snippets.run(swizzle_text(name), {0: VALUES}, execute=execute).row(20), expected)


def test_a_conditional_move_takes_any_mask_and_float_signs(snippets: Snippets) -> None:
    x, y = VALUES, VALUES[::-1].copy()
    outcome = snippets.run(CNDMASK, {0: x, 2: y}, {10: SOME & 0xFFFFFFFF, 11: SOME >> 32})

    assert np.array_equal(outcome.row(20), np.where(active(SOME), y & U32(0x7FFFFFFF), x ^ U32(0x80000000)))


def test_swap_exchanges_active_lanes(snippets: Snippets) -> None:
    x, y = VALUES, VALUES[::-1].copy()
    outcome = snippets.run(SWAP, {0: x, 2: y}, execute=SOME)

    assert np.array_equal(outcome.row(0), np.where(active(SOME), y, x))
    assert np.array_equal(outcome.row(2), np.where(active(SOME), x, y))


@pytest.mark.parametrize(("text", "half"), list(zip(COUNTS, (0, 1), strict=True)))
def test_bits_below_the_own_lane_are_counted(snippets: Snippets, text: str, half: int) -> None:
    below = [((1 << lane) - 1) >> 32 * half & 0xFFFFFFFF for lane in range(64)]
    expected = [(int(v) & b).bit_count() + 7 for v, b in zip(VALUES, below, strict=True)]

    assert snippets.run(text, {0: VALUES, 2: np.full(64, 7, U32)}).row(20).tolist() == expected


def test_accumulation_registers_hold_the_written_value(snippets: Snippets) -> None:
    assert np.array_equal(snippets.run(ACCUMULATORS, {0: VALUES}).row(20), VALUES)


def test_masked_differences_of_four_windows(snippets: Snippets) -> None:
    windows, reference = edge_integers(64)[:64], edge_integers(32)[:64]
    sums = np.arange(256, dtype=U32).reshape(4, 64)
    outcome = snippets.run(DIFFERENCES, {0: windows, 2: reference} | {4 + i: sums[i] for i in range(4)})

    for i in range(4):
        expected = [
            masked_sad(int(w) >> 8 * i & 0xFFFFFFFF, int(r), int(s)) for w, r, s in zip(windows, reference, sums[i], strict=True)
        ]
        assert outcome.row(20 + i).tolist() == expected
