"""MODE register: rounding, denormals, DX10_CLAMP, IEEE and output modifiers, set by the descriptor or S_SETREG."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.program import DEFAULT_MODE
from tests.builders.opcodes import (
    TYPES,
    Row,
    Snippets,
    assert_same,
    check_floats,
    edge_floats,
    exactly,
    pairs,
)
from tests.emulator.opcodes.test_float import clamp, fma, high, without_denormals

F16, F32, F64 = np.float16, np.float32, np.float64
ROUNDINGS = {"nearest": 0, "up": 1, "down": 2, "zero": 3}
KEEP_F32, KEEP_F64 = 3 << 4, 3 << 6
DX10_CLAMP, IEEE = 1 << 8, 1 << 9
OPERATIONS = ("add", "mul", "fma")


def instruction(operation: str, bits: int) -> Row:
    count = 3 if operation == "fma" else 2
    return Row(f"v_{operation}_f{bits}", lambda *_: None, " ".join([f"f{bits}"] * count), f"f{bits}")


@cache
def rounding_snippets(mode: str) -> Snippets:
    value = ROUNDINGS[mode]
    texts = [instruction(operation, bits).text for operation in OPERATIONS for bits in (16, 32, 64)]
    conversions = ["v_cvt_f16_f32_e32 v20, v0", "v_cvt_f32_f64_e32 v20, v[0:1]", "v_cvt_f32_i32_e32 v20, v0"]
    return Snippets([*texts, *conversions], mode=DEFAULT_MODE | value | value << 2)


def expected(operation: str, dtype: Any, mode: str) -> Any:
    if operation == "fma":
        return fma(dtype, mode)

    def one(a: Any, b: Any) -> Any:
        if isinstance(a, float):
            with np.errstate(all="ignore"):
                return float(F64(a) + F64(b) if operation == "add" else F64(a) * F64(b))
        return a + b if operation == "add" else a * b

    return exactly(one, dtype, mode, sums=operation == "add")


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mode", ROUNDINGS)
def test_arithmetic_rounds_by_the_mode_of_the_descriptor(mode: str, operation: str, bits: int) -> None:
    row = instruction(operation, bits)
    columns = [
        c[:256] for c in pairs(*[edge_floats(TYPES[f"f{bits}"], seed=i) for i in range(len(row.inputs.split()))], limit=256)
    ]
    oracle = expected(operation, TYPES[f"f{bits}"], mode)
    check_floats(rounding_snippets(mode), Row(row.name, oracle, row.inputs, row.out), columns=columns)


@pytest.mark.parametrize("mode", ROUNDINGS)
def test_conversions_round_by_the_mode_of_the_descriptor(mode: str) -> None:
    snippets = rounding_snippets(mode)
    for name, kind, out in (("f16_f32", "f32", "f16"), ("f32_f64", "f64", "f32"), ("f32_i32", "i32", "f32")):
        values = edge_floats(TYPES[kind]) if kind[0] == "f" else np.arange(-(1 << 31), 1 << 31, 67_108_859, dtype=np.int32)
        oracle = exactly(lambda x: x, TYPES[out], mode)
        check_floats(snippets, Row(f"v_cvt_{name}_e32", oracle, kind, out), columns=[values])


def test_a_kernel_may_change_its_rounding_in_between() -> None:
    text = """\
v_add_f32_e32 v20, v0, v2
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1
v_add_f32_e32 v21, v0, v2
s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s4
v_add_f32_e32 v22, v0, v2
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0
v_add_f32_e32 v23, v0, v2"""
    a, b = pairs(edge_floats(F32), edge_floats(F32), limit=512)
    outcome = Snippets([text]).run(text, {0: a, 2: b}, {4: 3})

    for row, mode in ((20, "nearest"), (21, "up"), (22, "zero"), (23, "nearest")):
        assert_same(mode, outcome.row(row, F32), expected("add", F32, mode)(a, b), [a, b])


@pytest.mark.parametrize("path", [0, 1])
def test_a_mode_that_depends_on_the_path_is_read_at_run_time(path: int) -> None:
    text = """\
s_cmp_eq_u32 s4, 0
s_cbranch_scc1 1f
s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), 2
1:
v_add_f32_e32 v20, v0, v2
v_mul_f32_e32 v21, v0, v2"""
    a, b = pairs(edge_floats(F32, nan=False), edge_floats(F32, nan=False), limit=512)
    outcome = Snippets([text]).run(text, {0: a, 2: b}, {4: path})

    inputs = [without_denormals(a), without_denormals(b)] if path else [a, b]
    for row, operation in ((20, "add"), (21, "mul")):
        result = expected(operation, F32, "down" if path else "nearest")(*inputs)
        assert_same(operation, outcome.row(row, F32), without_denormals(result) if path else result, [a, b])


@pytest.mark.parametrize("flushed", ["f32", "f16", "f64"])
def test_denormals_are_flushed_by_the_mode_of_the_descriptor(flushed: str) -> None:
    mode = DEFAULT_MODE & ~(KEEP_F32 if flushed == "f32" else KEEP_F64)
    texts = [instruction(operation, bits).text for operation in ("add", "mul", "max") for bits in (16, 32, 64)]
    packed = {16: "v_pk_mul_f16 v20, v0, v2", 32: "v_pk_mul_f32 v[20:21], v[0:1], v[2:3]"}
    mixed = "v_fma_mix_f32 v20, v0, 1.0, v2 op_sel_hi:[0,0,0]"
    snippets = Snippets([*texts, mixed, "v_mov_b32_e32 v20, v0", "v_cmp_lg_f32_e32 vcc, 0, v0", *packed.values()], mode=mode)

    for bits in (16, 32, 64):
        dtype = TYPES[f"f{bits}"]
        change = without_denormals if (bits == 32) == (flushed == "f32") else lambda x: x
        columns = pairs(edge_floats(dtype), edge_floats(dtype))
        for operation, oracle in {"add": np.add, "mul": np.multiply, "max": high}.items():
            row = instruction(operation, bits)
            wanted = lambda a, b, oracle=oracle, change=change: change(oracle(change(a), change(b)))  # noqa: E731
            check_floats(snippets, Row(row.name, wanted, row.inputs, row.out), columns=columns)
    x = edge_floats(F32)
    assert np.array_equal(snippets.run("v_mov_b32_e32 v20, v0", {0: x}).row(20)[: len(x)], x.view(np.uint32))
    seen = snippets.run("v_cmp_lg_f32_e32 vcc, 0, v0", {0: x}).mask()[: len(x)]
    smallest = np.finfo(F32).tiny if flushed == "f32" else 0
    assert np.array_equal(seen, (np.abs(x) > 0) & (np.abs(x) >= smallest))
    tiny = np.full(64, 1e-40, F32)
    product = snippets.run(packed[32], {0: tiny, 1: tiny, 2: tiny * 0 + 1, 3: tiny * 0 + 1}).row(21, F32)
    assert (product == (0 if flushed == "f32" else F32(1e-40))).all()
    total = snippets.run(mixed, {0: tiny, 2: tiny}).row(20, F32)
    assert (total == (0 if flushed == "f32" else tiny + tiny)).all()


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("dx10_clamp", [True, False])
def test_clamp_makes_nan_zero_only_under_dx10_clamp(dx10_clamp: bool, bits: int) -> None:
    text = f"v_max_f{bits}{'' if bits == 64 else '_e64'}"
    row = Row(text, lambda x: clamp(x) if dx10_clamp else np.where(np.isnan(x), x, clamp(x)), f"f{bits}", f"f{bits}",
              operands="v[20:21], v[0:1], v[0:1] clamp" if bits == 64 else "v20, v0, v0 clamp")  # fmt: skip
    snippets = Snippets([row.text], mode=DEFAULT_MODE if dx10_clamp else DEFAULT_MODE & ~DX10_CLAMP)
    check_floats(snippets, row)


@pytest.mark.parametrize(
    "mode", [DEFAULT_MODE, DEFAULT_MODE & ~IEEE, DEFAULT_MODE & ~(IEEE | KEEP_F32), DEFAULT_MODE & ~KEEP_F32]
)
def test_output_modifiers_need_ieee_and_output_denormals_off(mode: int) -> None:
    applies = not mode & (IEEE | KEEP_F32)

    def oracle(a: Any, b: Any, factor: float) -> Any:
        change = without_denormals if not mode & KEEP_F32 else lambda x: x
        result = change(a) * change(b)
        if not applies:
            return change(result)
        scaled = without_denormals(result * F32(factor))
        return np.where(scaled == 0, F32(0), scaled)

    rows = [
        Row("v_mul_f32_e64", lambda a, b, f=factor: oracle(a, b, f), "f32 f32", "f32", f" {text}")
        for text, factor in (("mul:2", 2.0), ("mul:4", 4.0), ("div:2", 0.5))
    ]
    snippets = Snippets([row.text for row in rows], mode=mode)
    for row in rows:
        check_floats(snippets, row)


def test_without_ieee_a_signalling_nan_is_a_missing_number() -> None:
    signalling = np.full(64, 0x7F800001, np.uint32).view(F32)
    one = np.ones(64, F32)
    text = "v_min_f32_e32 v20, v0, v2"

    assert (Snippets([text], mode=DEFAULT_MODE & ~IEEE).run(text, {0: signalling, 2: one}).row(20, F32) == 1).all()
    assert np.isnan(Snippets([text]).run(text, {0: signalling, 2: one}).row(20, F32)).all()
