"""The fields of a `kernel.yaml`.

A description is data. Expressions (shapes, scalar values, geometry, work model) are strings over `params`, evaluated by
:mod:`rocm_perf_lab.core.expressions`. :class:`~rocm_perf_lab.languages.description.KernelDescription` adds the validation
by the language of the kernel.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.core.expressions import evaluate
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.languages.arguments import Argument, Expression, ModuleVariable


class Tolerance(StrictModel):
    """Element-wise tolerance: |actual - expected| <= atol + rtol * |expected|, as in `numpy.allclose`.

    Without a note, the derived error bound applies to elements for which it is tighter
    (:mod:`rocm_perf_lab.verify.tolerances`).
    """

    rtol: float = Field(1e-5, ge=0)
    atol: float = Field(1e-6, ge=0)
    note: str | None = Field(default=None, min_length=1)
    """Reason why results may differ by more than the derived error bound, for example an approximation in the kernel."""


class SizeLimits(StrictModel):
    """Values of a size that a kernel supports: multiples of `multiple_of` from `min` to `max`."""

    multiple_of: PositiveInt = 1
    min: NonNegativeInt = 1
    max: PositiveInt | None = None


class WorkModel(StrictModel):
    """Algorithmic work of one dispatch, for information; it never replaces a counter."""

    flops: Expression | None = None
    bytes: Expression | None = None


class KernelSpec(StrictModel):
    """One kernel: its source, arguments, launch configuration and reference.

    `reference` maps output names to NumPy expressions over arguments and params, or to `file.py:function`, which returns
    that output; or it is one `file.py:function` that returns an array or a mapping. Functions are called with arguments and
    params by keyword. With `"baseline output"` the output of the unmodified kernel is the reference.

    Which of `defines`, `flags`, `host_headers`, `constexprs`, `options`, `block`, `work_items`, `cooperative` and `variables` a
    kernel may have depends on its language: a Triton kernel has `constexprs` (also types: `tl.float16`) and compiler `options`
    (num_warps, num_stages, waves_per_eu, matrix_instr_nonkdim, ...) instead of `defines`, `flags` and `block`, and its
    arguments are matched by name.
    """

    name: str
    language: str = "hip"
    """`hip`, `hiprtc`, `triton`, `assembly`, the name of an installed language, or the dotted path of a class:
    `my_module.MyLanguage`."""
    source: Path
    entry: str
    directory: Path = Field(default=Path(), validation_alias=AliasChoices("directory", "folder"))
    """Directory of the kernel.yaml; relative paths start here. Also accepted under its former name, `folder`."""
    params: dict[str, int | float | str] = {}
    defines: dict[str, Expression] = {}
    flags: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    host_headers: tuple[str, ...] = ()
    """Patterns of headers that only host code includes: they are treated as empty if they are not found."""
    constexprs: dict[str, Expression | None] = {}
    options: dict[str, Expression] = {}
    arguments: tuple[Argument, ...]
    variables: tuple[ModuleVariable, ...] = ()
    grid: tuple[Expression, ...] = Field(default=(), max_length=3)
    work_items: tuple[Expression, ...] = Field(default=(), max_length=3)
    """Grid size in work-items, instead of `grid`: the last workgroup of an axis may be partial."""
    cooperative: bool = False
    """Whether all workgroups are resident at the same time and may wait for each other, as `this_grid().sync()` requires."""
    block: tuple[Expression, ...] = Field((), max_length=3)
    dynamic_lds_bytes: Expression = 0
    reference: dict[str, str] | str = "baseline output"
    tolerance: dict[str, Tolerance] = {}
    work: WorkModel = WorkModel()
    trials: tuple[dict[str, int | float | str], ...] = ()
    """Further params under which a rewrite must be correct, besides those that trials choose. Sizes that are equal in the
    description and in all of them stay equal."""
    sizes: dict[str, SizeLimits] = {}
    """Values of `params` that the kernel supports; by default trials find out which ones the unmodified kernel supports."""

    @property
    def source_path(self) -> Path:
        """The source file; a relative path starts at the directory of the description."""
        return self.source if self.source.is_absolute() else self.directory / self.source

    @property
    def include_paths(self) -> tuple[Path, ...]:
        """Directories searched for headers and imports: `include_dirs`, then the directory of the source."""
        return (*(self.directory / d for d in self.include_dirs), self.source_path.parent)

    def compile_defines(self) -> dict[str, str]:
        """Return the preprocessor definitions, with their expressions evaluated.

        Raises:
            ExpressionError: An expression cannot be evaluated over `params`.
        """
        return {name: str(evaluate(value, self.params, where=f"kernel.defines.{name}")) for name, value in self.defines.items()}
