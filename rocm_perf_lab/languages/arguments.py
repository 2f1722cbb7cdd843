"""Arguments, variables and initial values of a kernel in `kernel.yaml`.

Expressions (shapes, scalar values) are strings over the `params` of the kernel;
:mod:`rocm_perf_lab.core.expressions` evaluates them.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt
from pydantic_core import PydanticCustomError

from rocm_perf_lab.core.models import StrictModel

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_ALIGNMENT, LARGEST_ALIGNMENT = 256, 65536

Expression = int | float | str
"""A number, or an expression over the `params` of the kernel."""

ScalarType = Literal[
    "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64",
    "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2",
]  # fmt: skip
"""Data types of arguments. gfx942 computes with the `fnuz` variants of 8-bit floats (Triton: fp8e4b8, fp8e5b16)."""

_OTHER_NAMES: Mapping[str, ScalarType] = {
    "int8": "i8", "char": "i8", "uint8": "u8", "uchar": "u8", "byte": "u8", "bool": "u8",
    "int16": "i16", "short": "i16", "uint16": "u16", "ushort": "u16",
    "int": "i32", "int32": "i32", "uint": "u32", "uint32": "u32", "u": "u32",
    "int64": "i64", "long": "i64", "uint64": "u64", "ulong": "u64", "sizet": "u64",
    "half": "f16", "float16": "f16", "fp16": "f16", "bfloat16": "bf16", "float": "f32", "float32": "f32", "fp32": "f32",
    "single": "f32", "double": "f64", "float64": "f64", "fp64": "f64",
    "fp8": "f8e4m3fnuz", "bf8": "f8e5m2fnuz", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2fnuz": "f8e5m2fnuz",
    "float8e4m3fn": "f8e4m3fn", "float8e5m2": "f8e5m2",
}  # fmt: skip
"""Names of NumPy, C and Triton, in lower case without underscores, `unsigned` shortened to `u`."""


def nearest_type(word: str) -> ScalarType | None:
    """Return the data type that a name of another system, or a misspelt name, most likely means."""
    known: tuple[ScalarType, ...] = get_args(ScalarType)
    cleaned = re.sub(r"[\s_]", "", word.lower()).replace("unsigned", "u")
    for name in (cleaned, cleaned.removesuffix("t")):  # int32_t
        if name in _OTHER_NAMES:
            return _OTHER_NAMES[name]
    near = difflib.get_close_matches(cleaned, known, n=1)
    return next((name for name in known if name in near), None)


def _check_type(value: Any) -> Any:
    if value in get_args(ScalarType):
        return value
    near = nearest_type(value) if isinstance(value, str) else None
    hint = f"use {near}" if near else f"data types: {', '.join(get_args(ScalarType))}"
    raise PydanticCustomError("data_type", "unknown data type", {"hint": hint})


DataType = Annotated[ScalarType, BeforeValidator(_check_type)]
"""A :data:`ScalarType` whose validation error suggests the right name."""


class NormalInit(StrictModel):
    """Normally distributed values."""

    kind: Literal["normal"] = "normal"
    seed: NonNegativeInt = 0
    mean: float = 0.0
    std: float = 1.0


class UniformInit(StrictModel):
    """Uniformly distributed values in [low, high)."""

    kind: Literal["uniform"] = "uniform"
    seed: NonNegativeInt = 0
    low: float = 0.0
    high: float = 1.0


class IntegersInit(StrictModel):
    """Uniformly distributed integers in [low, high)."""

    kind: Literal["integers"] = "integers"
    seed: NonNegativeInt = 0
    low: Expression = 0
    high: Expression = 256


class ConstantInit(StrictModel):
    """The same value in every element."""

    kind: Literal["constant"] = "constant"
    value: float = 0.0


class ArangeInit(StrictModel):
    """0, 1, 2, ... in memory order."""

    kind: Literal["arange"] = "arange"


class FileInit(StrictModel):
    """The content of a `.npy` file; a relative path starts at the directory of the kernel description."""

    kind: Literal["file"] = "file"
    path: Path


class PoisonInit(StrictModel):
    """Bytes 0xFF (0x80 for `fnuz` floats), which are NaN in every float: the default of outputs, to reveal unwritten elements."""

    kind: Literal["poison"] = "poison"


Initialiser = Annotated[
    NormalInit | UniformInit | IntegersInit | ConstantInit | ArangeInit | FileInit | PoisonInit,
    Field(discriminator="kind"),
]


def _check_alignment(value: int | str) -> int | str:
    if value != "element" and (not isinstance(value, int) or value < 1 or value & (value - 1) or value > LARGEST_ALIGNMENT):
        raise PydanticCustomError(
            "alignment",
            f"alignment must be element, or a power of two up to {LARGEST_ALIGNMENT}",
            {"hint": "256 bytes: hipMalloc"},
        )
    return value


Alignment = Annotated[int | Literal["element"], AfterValidator(_check_alignment)]
"""Bytes by which the address of a buffer is divisible, or `element`: only by the size of its data type."""


class BufferArgument(StrictModel):
    """A pointer argument and the device memory that it points to.

    `alignment` is what callers promise: kernels may rely on it. hipMalloc promises 256 bytes, a view into a larger buffer only
    that of its elements.
    """

    kind: Literal["buffer"] = "buffer"
    name: str
    dtype: DataType
    shape: tuple[Expression, ...]
    access: Literal["in", "out", "inout"] = "in"
    init: Initialiser | None = None
    alignment: Alignment = DEFAULT_ALIGNMENT


class ScalarArgument(StrictModel):
    """An argument passed by value."""

    kind: Literal["scalar"]
    name: str
    dtype: DataType
    value: Expression


class StructField(StrictModel):
    """One member of a struct; `offset` in bytes, by default the next multiple of the member's size."""

    dtype: DataType
    value: Expression
    offset: NonNegativeInt | None = None


class StructArgument(StrictModel):
    """A struct passed by value: its members in order of declaration, with those of nested structs flattened."""

    kind: Literal["struct"]
    name: str
    fields: tuple[StructField, ...] = Field(min_length=1)


Argument = Annotated[BufferArgument | ScalarArgument | StructArgument, Field(discriminator="kind")]


class ModuleVariable(StrictModel):
    """A `__constant__` or `__device__` variable that the host fills before the launch; `name` is its symbol."""

    name: str
    dtype: DataType
    shape: tuple[Expression, ...] = (1,)
    init: Initialiser
