"""Arguments as text: every valid one survives a round trip, anything else is refused with the wrong part."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.device.argument_text import (
    GRAMMAR,
    ArgumentTextError,
    TextArgument,
    format_argument,
    format_dim3,
    parse_argument,
    parse_dim3,
)
from rocm_perf_lab.device.protocol import ScalarValue
from rocm_perf_lab.languages.arguments import (
    ArangeInit,
    BufferArgument,
    ConstantInit,
    FileInit,
    IntegersInit,
    NormalInit,
    PoisonInit,
    ScalarArgument,
    ScalarType,
    UniformInit,
)
from rocm_perf_lab.languages.data_types import DTYPES

DTYPE_NAMES = st.sampled_from(get_args(ScalarType))
NUMBERS = st.floats(-1e6, 1e6)
SEEDS = st.integers(0, 2**64 - 1)
RANGES = st.tuples(NUMBERS, NUMBERS).map(sorted)
WHOLE_RANGES = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2, unique=True).map(sorted)
PATHS = st.text("abc/_. :=", min_size=1).map(Path)
INITS = st.one_of(
    st.none(),
    st.builds(NormalInit, seed=SEEDS, mean=NUMBERS, std=st.floats(0, 100)),
    st.builds(lambda seed, limits: UniformInit(seed=seed, low=limits[0], high=limits[1]), SEEDS, RANGES),
    st.builds(lambda seed, limits: IntegersInit(seed=seed, low=limits[0], high=limits[1]), SEEDS, WHOLE_RANGES),
    st.builds(ConstantInit, value=st.integers(0, 100).map(float)),
    st.just(ArangeInit()),
    st.just(PoisonInit()),
    st.builds(FileInit, path=PATHS),
)


@st.composite
def buffers(draw: st.DrawFn) -> BufferArgument:
    init = draw(INITS)
    access = draw(st.sampled_from(["in", "out", "inout"])) if init is not None else "out"
    shape = tuple(draw(st.lists(st.integers(1, 64), min_size=1, max_size=4)))
    return BufferArgument.model_validate(
        {"name": "x", "dtype": draw(DTYPE_NAMES), "shape": shape, "access": access, "init": init}
    )


@st.composite
def scalars(draw: st.DrawFn) -> ScalarArgument:
    dtype = draw(DTYPE_NAMES)
    if DTYPES[dtype].kind in "iu":
        limits = np.iinfo(DTYPES[dtype])
        return ScalarArgument(kind="scalar", name="x", dtype=dtype, value=draw(st.integers(int(limits.min), int(limits.max))))
    value = draw(st.one_of(st.floats(-100, 100), st.just(math.inf)))
    return ScalarArgument(kind="scalar", name="x", dtype=dtype, value=value)


ARGUMENTS = st.one_of(buffers(), scalars(), st.builds(ScalarValue, st.just("x"), st.binary(min_size=1, max_size=64)))


@given(ARGUMENTS)
def test_the_text_of_an_argument_reads_back_as_the_same_argument(argument: TextArgument) -> None:
    assert parse_argument(format_argument(argument), "x") == argument


@given(st.one_of(st.text(), st.text("f32[]:=x0a.-intoumzeros"), st.builds("f32[4]:{}".format, st.text())))
def test_any_other_text_raises_only_argument_text_error(text: str) -> None:
    try:
        argument = parse_argument(text, "x")
    except ArgumentTextError as error:
        assert text in (error.where or "")
    else:
        assert parse_argument(format_argument(argument), "x") == argument or "nan" in text.lower()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[1048576]:normal:seed=1", BufferArgument(name="x", dtype="f32", shape=(1048576,), init=NormalInit(seed=1))),
        ("f32[8]:zeros:out", BufferArgument(name="x", dtype="f32", shape=(8,), access="out", init=ConstantInit(value=0.0))),
        ("u8[8]:ones:inout", BufferArgument(name="x", dtype="u8", shape=(8,), access="inout", init=ConstantInit(value=1.0))),
        ("f16[512x4096]:out", BufferArgument(name="x", dtype="f16", shape=(512, 4096), access="out")),
        ("fp8[16]:poison", BufferArgument(name="x", dtype="f8e4m3fnuz", shape=(16,), init=PoisonInit())),
        ("i32[4]:integers:low=-5:high=5", BufferArgument(name="x", dtype="i32", shape=(4,), init=IntegersInit(low=-5, high=5))),
        ("f64[4]:file=a:b/c.npy:in", BufferArgument(name="x", dtype="f64", shape=(4,), init=FileInit(path=Path("a:b/c.npy")))),
        ("i32=0x10", ScalarArgument(kind="scalar", name="x", dtype="i32", value=16)),
        ("f32=1e-3", ScalarArgument(kind="scalar", name="x", dtype="f32", value=1e-3)),
        ("hex=0000803f", ScalarValue("x", b"\0\0\x80\x3f")),
    ],
)
def test_the_examples_of_the_guide(text: str, expected: TextArgument) -> None:
    assert parse_argument(text, "x") == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "''"),
        ("f32", "'f32'"),
        ("f33[4]:zeros", "did you mean f32?"),
        ("float=1", "'float' is not a data type; did you mean f32?"),
        ("f32[]:zeros", "'[]' is not a shape"),
        ("f32[0]:zeros", "'[0]' is not a shape"),
        ("f32[4x-1]:zeros", "'[4x-1]' is not a shape"),
        ("f32[n]:zeros", "'[n]' is not a shape"),
        ("f32[9999999999999]:zeros", "elements"),
        ("f32[4", "expected DTYPE[SHAPE]"),
        ("f32[4]zeros", "expected DTYPE[SHAPE]"),
        ("f32[4]", "no initialiser"),
        ("f32[4]:inout", "no initialiser"),
        ("f32[4]:normla", "did you mean normal?"),
        ("f32[4]:normal:sed=1", "'sed=1' is not a setting of normal; expected seed=..., mean=..., std=..."),
        ("f32[4]:normal:seed", "'seed' is not a setting"),
        ("f32[4]:normal:seed=x", "'seed=x' is not a whole number"),
        ("f32[4]:normal:seed=-1", "'seed=-1' is not a whole number of at least 0"),
        ("f32[4]:normal:seed=1:seed=2", "sets seed twice"),
        ("f32[4]:normal:std=-1", "negative"),
        ("f32[4]:normal:mean=nan", "'mean=nan' is not a finite number"),
        ("f32[4]:uniform:low=2:high=1", "empty range"),
        ("i32[4]:integers:low=2:high=2", "empty range"),
        ("i32[4]:integers:high=99999999999999999999", "64-bit"),
        ("f32[4]:zeros:value=1", "it has none"),
        ("f32[4]:out:zeros", "'out' is not an initialiser"),
        ("u8[4]:constant:value=300", "does not fit in u8"),
        ("i8[4]:constant:value=nan", "does not fit in i8"),
        ("f32[4]:file=", "has no file name"),
        ("i32=1.5", "'1.5' is not a whole number"),
        ("i32=", "'' is not a whole number"),
        ("i32=4294967296", "does not fit in i32"),
        ("u8=-1", "does not fit in u8"),
        ("f32=1e39", "does not fit in f32"),
        ("f8e4m3fnuz=1000", "does not fit in f8e4m3fnuz"),
        ("f32=one", "'one' is not a number"),
        ("f32=0x1p99999", "'0x1p99999' is not a number"),
        ("hex=", "'' is not a sequence of bytes"),
        ("hex=abc", "'abc' is not a sequence of bytes"),
        ("hex=zz", "'zz' is not a sequence of bytes"),
    ],
)
def test_an_error_shows_the_wrong_part_and_the_grammar(text: str, part: str) -> None:
    with pytest.raises(ArgumentTextError) as caught:
        parse_argument(text, "x")

    assert part in caught.value.what
    assert caught.value.where == f"--arg {text}"
    assert all(line in (caught.value.hint or "") for line in GRAMMAR.splitlines())


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=3))
def test_missing_dimensions_of_a_geometry_are_one(sizes: list[int]) -> None:
    assert parse_dim3("x".join(map(str, sizes)), "--grid") == (*sizes, 1, 1)[:3]


def test_a_geometry_is_shown_without_trailing_ones() -> None:
    assert format_dim3((64, 16, 1)) == "64 x 16"
    assert format_dim3((1, 1, 1)) == "1"
    assert format_dim3((1, 4096, 1)) == "1 x 4,096"


@pytest.mark.parametrize("text", ["", "0", "4x0", "-1", "4x", "1x2x3x4", "1,2", "1.5", "x", "٣", "9" * 30, "4 x 4"])
def test_a_geometry_of_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTextError) as caught:
        parse_dim3(text, "--block")

    assert "--block" in caught.value.what
