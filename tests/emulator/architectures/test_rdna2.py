"""Instructions and forms of RDNA2 that CDNA lacks or executes in another way, against NumPy."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.program import DEFAULT_MODE
from rocm_perf_lab.emulator.structures import EXEC, M0, VCC
from tests.builders.opcodes import (
    JUNK,
    TYPES,
    Row,
    Snippets,
    assemble,
    check_floats,
    check_integers,
    edge_floats,
    edge_integers,
    pairs,
    same,
)
from tests.builders.rdna2 import ARCHITECTURE
from tests.emulator.opcodes.test_compares import ACTIVE, EXEC_ROWS
from tests.emulator.opcodes.test_float import fma

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

F16, F32, U16, U32 = np.float16, np.float32, np.uint16, np.uint32
WAVES = (32, 64)
SOME = 0x5A5A_0FF0_C33C_9669


def legacy(product: Any, a: Any, b: Any, otherwise: Any) -> Any:
    return np.where((a == 0) | (b == 0), otherwise, product).astype(F32)


def fused(a: Any, b: Any, c: Any) -> Any:
    return fma(a.dtype.type)(a, b, c)


def fused_legacy(a: Any, b: Any, c: Any) -> Any:
    return legacy(fused(a, b, c), a, b, c)


INTEGERS = [
    Row("v_xor3_b32", lambda a, b, c: a ^ b ^ c, "u32 u32 u32"),
    Row("v_add_nc_i16", lambda a, b: a + b & 0xFFFF, "i16 i16", "u16"),
    Row("v_sub_nc_i16", lambda a, b: a - b & 0xFFFF, "i16 i16", "u16"),
    Row("v_add_nc_u32_e32", lambda a, b: a + b, "u32 u32"),
    Row("v_subrev_nc_u32_e32", lambda a, b: b - a, "u32 u32"),
]
FLOATS = [
    Row("v_mul_legacy_f32_e32", lambda a, b: legacy(a * b, a, b, 0), "f32 f32", "f32"),
    Row("v_fma_legacy_f32", fused_legacy, "f32 f32 f32", "f32"),
    Row(
        "v_fmac_legacy_f32_e32",
        fused_legacy,
        "f32 f32 f32",
        "f32",
        operands="v4, v0, v2",
        target=4,
    ),
    Row("v_fmac_f16_e32", fused, "f16 f16 f16", "f16", operands="v4, v0, v2", target=4),
    Row("v_fmamk_f16", lambda a, b: fused(a, np.full_like(a, 1.5), b), "f16 f16", "f16", operands="v20, v0, 0x3e00, v2"),
    Row("v_fmaak_f16", lambda a, b: fused(a, b, np.full_like(a, 1.5)), "f16 f16", "f16", operands="v20, v0, v2, 0x3e00"),
    Row("v_add_f16_e64", lambda a: a + F16(1.5), "f16", "f16", operands="v20, v0, 0x3e00"),
    Row("v_fma_f32", lambda a, b: fused(a, b, np.full_like(a, 100)), "f32 f32", "f32", operands="v20, v0, v2, 0x42c80000"),
]
HALVES = ("v_add_f16_e32 v20, v0, v2", "v_cvt_f16_f32_e32 v20, v0", "v_mul_lo_u16 v20, v0, v2", "v_rcp_f16_e32 v20, v0",
          "v_cvt_u16_f16_e32 v20, v0", "v_max_f16_e32 v20, v0, v2", "v_lshlrev_b16 v20, v0, v2")  # fmt: skip
UPPER = "v_add_nc_u16 v20, v0, v2 op_sel:[1,0,1]"
MODIFIED = ("v_mov_b32_dpp v20, v0 {} row_mask:0xf bank_mask:0xf", "v_mov_b32_dpp v20, v0 {} row_mask:0xf bank_mask:0xf fi:1",
            "v_mov_b32_dpp v20, v0 {} row_mask:0xf bank_mask:0xf bound_ctrl:1")  # fmt: skip
CONTROLS: dict[str, Callable[[int], int | None]] = {
    "row_share:5": lambda lane: lane & ~15 | 5,
    "row_xmask:6": lambda lane: lane ^ 6,
    "row_mirror": lambda lane: lane & ~15 | 15 - (lane & 15),
    "row_half_mirror": lambda lane: lane ^ 7,
    "row_shl:3": lambda lane: lane + 3 if lane & 15 < 13 else None,
    "row_shr:1": lambda lane: lane - 1 if lane & 15 else None,
    "row_ror:7": lambda lane: lane & ~15 | (lane - 7) & 15,
    "quad_perm:[2,3,0,1]": lambda lane: lane ^ 2,
}
EIGHT = (7, 0, 3, 3, 1, 2, 6, 5)
DPP8 = f"v_mov_b32_dpp v20, v0 dpp8:{list(EIGHT)}"
DPP8_SUM = f"v_add_f32_dpp v20, v0, v2 dpp8:{list(EIGHT)} fi:1"
LOW, HIGH = 0x76543201, 0x0FEDCBA9
PERMUTES = {f"v_permlane{kind}_b32 v20, v0, s2, s3{modifiers}": (kind == "x16", modifiers)
            for kind in ("16", "x16") for modifiers in ("", " op_sel:[1,0]", " op_sel:[0,1]")}  # fmt: skip
MOVES = {
    "v_movreld_b32_e32 v4, v0": lambda rows: {7: rows[0]},
    "v_movrels_b32_e32 v20, v1": lambda rows: {20: rows[4]},
    "v_movrelsd_b32_e32 v20, v1": lambda rows: {23: rows[4]},
}
MOVES_2 = {
    "v_movrelsd_2_b32_e32 v20, v1": lambda rows: {25: rows[4]},
    "v_swaprel_b32 v2, v1": lambda rows: {7: rows[4], 4: rows[7]},
}
SAVES: dict[str, Callable[[int, int], int]] = {
    "and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e, "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e), "andn1": lambda s, e: ~s & e, "andn2": lambda s, e: s & ~e,
    "orn1": lambda s, e: ~s | e, "orn2": lambda s, e: s | ~e,
}  # fmt: skip
WRITES = ("andn1", "andn2")
ROUND = "s_round_mode 0x3\nv_add_f32_e32 v20, v0, v2\ns_round_mode 0x0\nv_add_f32_e32 v21, v0, v2"
FLUSH = "s_denorm_mode 0xc\nv_add_f32_e32 v20, v0, v2\ns_denorm_mode 0xf\nv_add_f32_e32 v21, v0, v2"
NULL = "v_mad_u64_u32 v[20:21], null, v0, v2, v[4:5]\ns_and_b64 null, s[2:3], s[4:5]\nv_mov_b32_e32 v22, null"
MASKS = """\
v_cmp_lt_u32_e64 s2, v0, v2
v_cndmask_b32_e64 v20, v0, v2, s2
v_add_co_u32 v21, s5, v0, v2
v_add_co_ci_u32_e64 v22, s6, v0, v2, s5"""
NEIGHBOURS = (1, 3, 4, 7)
READS = "v_readlane_b32 s20, v0, 45\nv_readlane_b32 s21, v0, s4\nv_readfirstlane_b32 s22, v0"
EXEC_HIGH = (
    "s_mov_b32 exec_hi, -1\ns_bcnt1_i32_b64 s20, exec\ns_mov_b64 exec, -1\ns_bcnt1_i32_b64 s21, exec\nv_mov_b32_e32 v20, 1"
)
COUNTS = "v_mbcnt_lo_u32_b32 v20, v0, v2\nv_mbcnt_hi_u32_b32 v21, v0, v2"
PULL, PUSH = "ds_bpermute_b32 v20, v2, v0", "ds_permute_b32 v20, v2, v0"
COMPARES = [f"{name} {'v[0:1], v[2:3]' if kind.endswith('64') else 'v0, v2'}" for name, kind, _ in EXEC_ROWS
            if not name.startswith(("v_cmpx_f_i16", "v_cmpx_f_u16", "v_cmpx_t_i16", "v_cmpx_t_u16"))]  # fmt: skip
REGISTERS = (
    "s_getreg_b32 s20, hwreg(HW_REG_STATUS)\ns_getreg_b32 s21, hwreg(HW_REG_HW_ID1)\ns_getreg_b32 s22, hwreg(HW_REG_FLAT_SCR_LO)"
)


def dpp_texts() -> list[str]:
    return [form.format(control) for form in MODIFIED for control in CONTROLS]


def of_32_lanes() -> list[str]:
    saves = [f"s_{name}_saveexec_b32 s20, s0" for name in SAVES] + [f"s_{name}_wrexec_b32 s20, s0" for name in WRITES]
    return [*saves, MASKS, EXEC_HIGH]


def texts() -> list[str]:
    """Return instructions that assemble for wavefronts of either size."""
    rows = [row.text for row in (*INTEGERS, *FLOATS)]
    own = [DPP8, DPP8_SUM, UPPER, ROUND, FLUSH, NULL, READS, COUNTS, PULL, PUSH, REGISTERS]
    return [*rows, *HALVES, *dpp_texts(), *PERMUTES, *MOVES, *MOVES_2, *own, *COMPARES, *of_32_lanes()[:-2]]


@cache
def snippets(wave_size: int, mode: int = DEFAULT_MODE) -> Snippets:
    return Snippets(
        texts() if wave_size == 64 else [*texts(), *of_32_lanes()], mode=mode, architecture=ARCHITECTURE, wave_size=wave_size
    )


def active(execute: int, wave_size: int) -> NDArray[np.bool_]:
    return np.array([bool(execute >> lane & 1) for lane in range(wave_size)])


@pytest.mark.parametrize("wave_size", WAVES)
def test_own_operations_equal_their_oracles(wave_size: int) -> None:
    assert snippets(wave_size).unsupported == {}
    for row in INTEGERS:
        check_integers(snippets(wave_size), row, limit=256)
    for row in FLOATS:
        check_floats(snippets(wave_size), row, limit=512)


@pytest.mark.parametrize("text", HALVES)
def test_the_upper_half_of_a_result_is_kept(text: str) -> None:
    values = np.full(32, 0x3C00, U32)

    assert set(snippets(32).run(text, {0: values, 2: values}).row(20) >> U32(16)) == {JUNK >> 16}


def test_op_sel_selects_halves_of_integers() -> None:
    x, y = (c[:256] for c in pairs(edge_integers(32), edge_integers(32, seed=2), limit=256))
    result = snippets(32).run(UPPER, {0: x, 2: y}).row(20)[:256]

    assert np.array_equal(result, (x.astype(U32) >> U32(16)) + y.astype(U32) << U32(16) | U32(JUNK & 0xFFFF))


@pytest.mark.parametrize("wave_size", WAVES)
@pytest.mark.parametrize("execute", [(1 << 64) - 1, SOME])
@pytest.mark.parametrize("control", CONTROLS)
def test_dpp_moves_lanes_within_a_row(control: str, execute: int, wave_size: int) -> None:
    x, on = np.arange(100, 100 + wave_size, dtype=U32), active(execute, wave_size)
    for form, text in enumerate(MODIFIED):
        expected = np.full(wave_size, JUNK, U32)
        for lane in np.flatnonzero(on):
            source = CONTROLS[control](int(lane))
            valid = source is not None and (on[source] or form == 1)
            if valid or form == 2:
                expected[lane] = x[source] if valid else 0
        actual = snippets(wave_size).run(text.format(control), {0: x}, execute=execute).row(20)
        assert np.array_equal(actual, expected), text


@pytest.mark.parametrize("wave_size", WAVES)
def test_dpp8_selects_any_lane_of_eight(wave_size: int) -> None:
    x, lanes = edge_floats(F32)[:wave_size], np.arange(wave_size)
    source = (lanes & ~7) + np.array(EIGHT)[lanes & 7]
    on = active(SOME, wave_size)
    moved = snippets(wave_size).run(DPP8, {0: x}, execute=SOME).row(20)
    summed = snippets(wave_size).run(DPP8_SUM, {0: x, 2: x}, execute=SOME).row(20, F32)

    assert np.array_equal(moved, np.where(on, np.where(on[source], x.view(U32)[source], 0), JUNK))
    with np.errstate(all="ignore"):
        expected = (x[source] + x).astype(F32)
    assert same(summed[on], expected[on]).all()


@pytest.mark.parametrize("wave_size", WAVES)
@pytest.mark.parametrize("text", PERMUTES)
def test_permlane_selects_lanes_of_a_row(text: str, wave_size: int) -> None:
    crosses, modifiers = PERMUTES[text]
    x, lanes, on = np.arange(7, 7 + wave_size, dtype=U32), np.arange(wave_size), active(SOME, wave_size)
    selector = np.array([(LOW | HIGH << 32) >> 4 * i & 15 for i in range(16)])[lanes & 15]
    source = (lanes & ~15 ^ (16 if crosses else 0)) + selector
    missing = {"": JUNK, " op_sel:[1,0]": x[source], " op_sel:[0,1]": 0}[modifiers]
    outcome = snippets(wave_size).run(text, {0: x}, {2: LOW, 3: HIGH}, execute=SOME)

    assert np.array_equal(outcome.row(20), np.where(on, np.where(on[source], x[source], missing), JUNK))


@pytest.mark.parametrize("text", [*MOVES, *MOVES_2])
def test_relative_moves_add_parts_of_m0(text: str) -> None:
    rows = {n: np.arange(32, dtype=U32) + 1000 * n for n in range(10)}
    outcome = snippets(32).run(text, rows, {M0: 3 if text in MOVES else 5 << 16 | 3}, execute=SOME)
    on = active(SOME, 32)

    for row, value in (MOVES | MOVES_2)[text](rows).items():
        before = rows.get(row, np.full(32, JUNK, U32))
        assert np.array_equal(outcome.row(row), np.where(on, value, before))


@pytest.mark.parametrize("name", SAVES)
def test_exec_of_32_lanes_is_saved_and_written(name: str) -> None:
    for mask, execute in ((0xF0F01234, 0x00FF00FF), (0, 0), (0xFFFFFFFF, 0x80000001)):
        after = SAVES[name](mask, execute) & 0xFFFFFFFF
        saved = snippets(32).run(f"s_{name}_saveexec_b32 s20, s0", {}, {0: mask}, execute=execute)
        assert (saved.scalar(20)[0], saved.scalar(EXEC)[0], saved.scalar(EXEC + 1)[0]) == (execute, after, 0)
        assert saved.scc[0] == (after != 0)
        if name in WRITES:
            written = snippets(32).run(f"s_{name}_wrexec_b32 s20, s0", {}, {0: mask}, execute=execute)
            assert (written.scalar(20)[0], written.scalar(EXEC)[0]) == (after, after)


def test_masks_of_32_lanes_use_one_register() -> None:
    x, y = (c[:32].astype(U32) for c in pairs(edge_integers(32), edge_integers(32, seed=2), limit=32))
    known = {register: 1000 + register for register in NEIGHBOURS}
    outcome = snippets(32).run(MASKS, {0: x, 2: y}, known)
    carry = (x.astype(np.uint64) + y) >> np.uint64(32)

    assert np.array_equal(outcome.mask(2), x < y)
    assert np.array_equal(outcome.row(20), np.where(x < y, y, x))
    assert np.array_equal(outcome.mask(5), carry == 1)
    assert np.array_equal(outcome.row(22), x + y + carry.astype(U32))
    assert [outcome.scalar(register)[0] for register in NEIGHBOURS] == list(known.values())


def test_lanes_beyond_the_wavefront_are_never_active() -> None:
    outcome = snippets(32).run(EXEC_HIGH, {})

    assert (outcome.scalar(20)[0], outcome.scalar(21)[0]) == (32, 32)
    assert set(outcome.row(20)) == {1}


@pytest.mark.parametrize("wave_size", WAVES)
def test_lane_numbers_wrap_at_the_wave_size(wave_size: int) -> None:
    x = np.arange(500, 500 + wave_size, dtype=U32)
    outcome = snippets(wave_size).run(READS, {0: x}, {4: 70}, execute=0xF0)

    assert [outcome.scalar(n)[0] for n in (20, 21, 22)] == [500 + 45 % wave_size, 500 + 70 % wave_size, 504]


@pytest.mark.parametrize("wave_size", WAVES)
def test_counts_of_bits_below_the_lane(wave_size: int) -> None:
    mask, start = np.full(wave_size, 0xC33C9669, U32), np.full(wave_size, 5, U32)
    outcome = snippets(wave_size).run(COUNTS, {0: mask, 2: start})
    below = [((1 << lane) - 1, 0xC33C9669) for lane in range(wave_size)]

    assert list(outcome.row(20)) == [(b & 0xFFFFFFFF & m).bit_count() + 5 for b, m in below]
    assert list(outcome.row(21)) == [(b >> 32 & m).bit_count() + 5 for b, m in below]


@pytest.mark.parametrize("wave_size", WAVES)
def test_permutes_stay_within_32_lanes(wave_size: int) -> None:
    lanes = np.arange(wave_size)
    x, to = np.arange(900, 900 + wave_size, dtype=U32), (lanes * 5 + 3) % 64
    group = lanes & ~31
    pushed = np.zeros(wave_size, U32)
    pushed[group + to % 32] = x
    given = {0: x, 2: (to * 4).astype(U32)}

    assert np.array_equal(snippets(wave_size).run(PULL, given).row(20), x[group + to % 32])
    assert np.array_equal(snippets(wave_size).run(PUSH, given).row(20), pushed)


@pytest.mark.parametrize("wave_size", WAVES)
def test_cmpx_writes_exec_only(wave_size: int) -> None:
    for name, kind, oracle in EXEC_ROWS:
        text = f"{name} {'v[0:1], v[2:3]' if kind.endswith('64') else 'v0, v2'}"
        if text not in COMPARES:
            continue
        values = edge_floats(TYPES[kind]) if kind[0] == "f" else edge_integers(int(kind[1:])).view(TYPES[kind])
        a, b = (c[:64] for c in pairs(values, np.roll(values, 3), limit=64))
        outcome = snippets(wave_size).run(text, {0: a, 2: b}, {VCC: 77}, execute=ACTIVE)
        with np.errstate(invalid="ignore"):
            expected = np.asarray(oracle(a, b), bool) & np.array([ACTIVE >> n % wave_size & 1 for n in range(64)], bool)
        assert np.array_equal(outcome.mask(EXEC), expected), text
        assert set(outcome.scalar(VCC)) == {77}


def test_mode_instructions_change_rounding_and_denormals() -> None:
    one, tiny = np.full(32, 1, F32), np.full(32, 1e-9, F32)
    rounded = snippets(32).run(ROUND, {0: one, 2: -tiny})
    small = np.full(32, 1e-39, F32)
    flushed = snippets(32).run(FLUSH, {0: small, 2: small})

    assert (rounded.row(20, F32)[0], rounded.row(21, F32)[0]) == (np.nextafter(F32(1), F32(0)), 1)
    assert (flushed.row(20, F32)[0], flushed.row(21, F32)[0]) == (0, small[0] + small[0])


@pytest.mark.parametrize("wave_size", WAVES)
def test_the_null_register_reads_as_zero_and_keeps_nothing(wave_size: int) -> None:
    x = edge_integers(32)[:wave_size]
    sums = np.full(wave_size, 1 << 40, np.uint64)
    outcome = snippets(wave_size).run(NULL, {0: x, 2: x, 4: sums}, {2: 0xFFFFFFFF, 3: 1, 4: 3, 5: 1})

    assert np.array_equal(outcome.row(20, np.uint64), x.astype(np.uint64) ** 2 + sums)
    assert set(outcome.row(22)) == {0}
    assert outcome.mask(EXEC).all()
    assert outcome.scc[0] == 1


def test_hardware_registers_have_the_numbers_of_rdna() -> None:
    outcome = snippets(32).run(REGISTERS, {}, scc=1)

    assert outcome.scalar(20)[0] & 1 == 1
    assert [outcome.scalar(n)[0] for n in (21, 22)] == [0, 0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s_subvector_loop_begin s0, 4", "no pseudo-code"), ("ds_gws_sema_v gds", "global data share"),
        ("buffer_load_format_x v0, off, s[4:7], 0", "formats of buffers"), ("ds_add_u32 v0, v2 gds", "global data share"),
        ("buffer_load_dword v[0:1], off, s[4:7], 0 tfe", "TFE"), ("s_movrelsd_2_b32 s0, s1", "two indices"),
    ],
)  # fmt: skip
def test_what_is_not_executed_is_refused_by_name(text: str, reason: str) -> None:
    refused = Snippets([text], architecture=ARCHITECTURE, wave_size=32)

    with pytest.raises(AssertionError, match=f"does not support {text.split()[0]} \\(.*{reason}"):
        refused.run(text)


@pytest.mark.parametrize("text", ["image_load v0, v[0:1], s[0:7] dmask:0x1 dim:SQ_RSRC_IMG_2D", "exp mrt0 v0, v0, v0, v0"])
def test_graphics_instructions_are_refused_by_name(text: str) -> None:
    code = assemble([text], ARCHITECTURE)

    with pytest.raises(IllegalInstruction, match="not supported"):
        decode_one(code, 0, snippets(32).isa)
