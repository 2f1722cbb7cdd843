"""The declarative description of one GPU kernel: what a `kernel.yaml` may say.

A description is data. Expressions (shapes, scalar values, geometry, work model) are strings over `params`; they are
evaluated by :mod:`rocm_perf_lab.core.expressions`, never by `eval`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, NonNegativeInt, model_validator

from rocm_perf_lab.core.models import StrictModel

Expression = int | float | str
"""A number, or an expression over the kernel's `params`."""

ScalarType = Literal[
    "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64",
    "f8e4m3fnuz", "f8e5m2fnuz", "f8e4m3fn", "f8e5m2",
]  # fmt: skip
"""gfx942 computes with the `fnuz` variants of 8-bit floats (Triton: fp8e4b8, fp8e5b16)."""


class NormalInit(StrictModel):
    """Normally distributed values."""

    kind: Literal["normal"] = "normal"
    seed: NonNegativeInt = 0
    mean: float = 0.0
    std: float = 1.0


class UniformInit(StrictModel):
    """Uniform values in [low, high)."""

    kind: Literal["uniform"] = "uniform"
    seed: NonNegativeInt = 0
    low: float = 0.0
    high: float = 1.0


class IntegersInit(StrictModel):
    """Uniform integers in [low, high)."""

    kind: Literal["integers"] = "integers"
    seed: NonNegativeInt = 0
    low: Expression = 0
    high: Expression = 256


class ConstantInit(StrictModel):
    """One value everywhere."""

    kind: Literal["constant"] = "constant"
    value: float = 0.0


class ArangeInit(StrictModel):
    """0, 1, 2, ... in memory order."""

    kind: Literal["arange"] = "arange"


class FileInit(StrictModel):
    """The content of a `.npy` file beside the kernel description."""

    kind: Literal["file"] = "file"
    path: Path


class PoisonInit(StrictModel):
    """Bytes 0xFF (0x80 for `fnuz` floats), NaN in every float: the default of outputs, so that an unwritten element is seen."""

    kind: Literal["poison"] = "poison"


Initialiser = Annotated[
    NormalInit | UniformInit | IntegersInit | ConstantInit | ArangeInit | FileInit | PoisonInit,
    Field(discriminator="kind"),
]


class BufferArgument(StrictModel):
    """A pointer argument with the device memory behind it."""

    kind: Literal["buffer"] = "buffer"
    name: str
    dtype: ScalarType
    shape: tuple[Expression, ...]
    access: Literal["in", "out", "inout"] = "in"
    init: Initialiser | None = None


class ScalarArgument(StrictModel):
    """A by-value argument."""

    kind: Literal["scalar"]
    name: str
    dtype: ScalarType
    value: Expression


class StructField(StrictModel):
    """One member; `offset` in bytes where it does not lie at the next multiple of its own size."""

    dtype: ScalarType
    value: Expression
    offset: NonNegativeInt | None = None


class StructArgument(StrictModel):
    """A struct by value, its members in the order of the declaration, those of nested structs one by one."""

    kind: Literal["struct"]
    name: str
    fields: tuple[StructField, ...] = Field(min_length=1)


Argument = Annotated[BufferArgument | ScalarArgument | StructArgument, Field(discriminator="kind")]


class ModuleVariable(StrictModel):
    """A `__constant__` or `__device__` variable that the host fills before the launch; `name` is its symbol."""

    name: str
    dtype: ScalarType
    shape: tuple[Expression, ...] = (1,)
    init: Initialiser


class Tolerance(StrictModel):
    """Element-wise |actual - expected| <= atol + rtol * |expected|, as `numpy.allclose`."""

    rtol: float = Field(1e-5, ge=0)
    atol: float = Field(1e-6, ge=0)


class WorkModel(StrictModel):
    """Algorithmic work of one dispatch, for the reader; never used in place of a counter."""

    flops: Expression | None = None
    bytes: Expression | None = None


class KernelDescription(StrictModel):
    """One kernel, its arguments, its launch and its truth.

    `reference` maps output names to NumPy expressions over input names and params, or to `file.py:function` whose result
    is that output; or it is one `file.py:function` that returns one array or a mapping. Functions are called with the
    inputs and params by keyword. `"baseline output"` is what the unmodified kernel computes.

    A Triton kernel has `constexprs` (or types: `tl.float16`) and compiler `options` (num_warps, num_stages,
    waves_per_eu, matrix_instr_nonkdim, ...) in place of `defines`, `flags` and `block`; its arguments are taken by name.
    """

    name: str
    language: Literal["hip", "triton"] = "hip"
    source: Path
    entry: str
    directory: Path = Field(default=Path(), validation_alias=AliasChoices("directory", "folder"))
    """Of the kernel.yaml; relative paths start here. `folder` is its older name."""
    params: dict[str, int | float | str] = {}
    defines: dict[str, Expression] = {}
    flags: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    constexprs: dict[str, Expression | None] = {}
    options: dict[str, Expression] = {}
    arguments: tuple[Argument, ...]
    variables: tuple[ModuleVariable, ...] = ()
    grid: tuple[Expression, ...] = Field(default=(), max_length=3)
    work_items: tuple[Expression, ...] = Field(default=(), max_length=3)
    """In place of `grid`, as a dispatch packet counts: the last workgroup of an axis may be partial."""
    cooperative: bool = False
    """All workgroups are resident at once and may wait for each other, as `this_grid().sync()` needs it."""
    block: tuple[Expression, ...] = Field((), max_length=3)
    dynamic_lds_bytes: Expression = 0
    reference: dict[str, str] | str = "baseline output"
    tolerance: dict[str, Tolerance] = {}
    work: WorkModel = WorkModel()
    trials: tuple[dict[str, int | float | str], ...] = ()
    """Other params under which a rewrite has to be right as well; without them the optimizer chooses some itself."""

    @model_validator(mode="after")
    def _fits_the_language(self) -> Self:
        foreign = (
            ("block", "work_items", "cooperative", "variables", "defines", "flags")
            if self.language == "triton"
            else ("constexprs", "options")
        )
        given = [name for name in foreign if getattr(self, name)]
        if given:
            raise ValueError(f"a {self.language} kernel has no {', '.join(given)}")
        if self.language == "triton" and any(argument.kind == "struct" for argument in self.arguments):
            raise ValueError("a triton kernel has no struct arguments")
        if self.language == "hip" and not self.block:
            raise ValueError("a hip kernel needs block: the work-items of a workgroup, for example [256]")
        if bool(self.grid) == bool(self.work_items):
            or_items = "" if self.language == "triton" else ", or else work_items, which the last workgroup need not fill"
            raise ValueError(f"a kernel needs grid: the number of workgroups, for example [64]{or_items}")
        return self

    @property
    def source_path(self) -> Path:
        """The source file, relative paths taken from the directory of the description."""
        return self.source if self.source.is_absolute() else self.directory / self.source
