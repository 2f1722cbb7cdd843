"""Kernels in Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError, evaluate, evaluate_integer
from rocm_perf_lab.languages.arguments import BufferArgument, StructArgument
from rocm_perf_lab.languages.language import Language

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.languages.arguments import ScalarArgument
    from rocm_perf_lab.languages.language import CompileSettings
    from rocm_perf_lab.languages.spec import KernelSpec
    from rocm_perf_lab.languages.triton_build import TritonArgument
    from rocm_perf_lab.toolchain.build import BuildResult

TRITON_TYPES: Mapping[str, str] = {
    "i8": "i8", "u8": "u8", "i16": "i16", "u16": "u16", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64",
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64",
    "f8e4m3fnuz": "fp8e4b8", "f8e5m2fnuz": "fp8e5b16", "f8e4m3fn": "fp8e4nv", "f8e5m2": "fp8e5",
}  # fmt: skip


class TritonLanguage(Language):
    """Triton, compiled by the `triton` package; the number of warps decides the workgroup size."""

    name = "triton"
    fields = frozenset({"constexprs", "options"})
    needs_block = False
    accepts_structs = False

    def compile(self, kernel: KernelSpec, source: Path, settings: CompileSettings) -> BuildResult:
        """Compile a `@triton.jit` function; see :meth:`Language.compile`.

        The compiler and the optimisation level do not apply. The sandbox limits the Python program that compiles the source.
        """
        from rocm_perf_lab.languages.triton_build import TritonRequest, compile_triton

        request = TritonRequest(
            source=source,
            entry=kernel.entry,
            arguments=_triton_arguments(kernel),
            constexprs=_constexprs(kernel),
            options=_options(kernel),
            architecture=settings.architecture,
            import_dirs=kernel.include_paths,
        )
        return compile_triton(request, cache_dir=settings.cache_dir, sandbox=settings.sandbox)

    def build_values(self, kernel: KernelSpec) -> Mapping[str, object]:
        """Return constants, options, and the properties of arguments for which Triton specialises."""
        from rocm_perf_lab.languages.triton_build import specialising

        arguments = {argument.name: specialising(argument) for argument in _triton_arguments(kernel)}
        return {**_constexprs(kernel), **_options(kernel), **arguments}


def _triton_arguments(kernel: KernelSpec) -> tuple[TritonArgument, ...]:
    return tuple(_triton_argument(a, kernel) for a in kernel.arguments if not isinstance(a, StructArgument))


def _constexprs(kernel: KernelSpec) -> dict[str, Any]:
    return {name: _constexpr(name, value, kernel) for name, value in kernel.constexprs.items()}


def _options(kernel: KernelSpec) -> dict[str, Any]:
    return {name: evaluate(value, kernel.params, where=f"kernel.options.{name}") for name, value in kernel.options.items()}


def _constexpr(name: str, value: Any, kernel: KernelSpec) -> Any:
    """Return a name of `triton.language` as it is, and the value of any other expression."""
    if isinstance(value, str) and value.startswith("tl."):
        return value
    where = f"kernel.constexprs.{name}"
    try:
        result = evaluate(value, kernel.params, where=where)
    except ExpressionError as error:
        hint = f"""{error.hint or ""}; a string needs its own quotes: {name}: "'{value}'" """.strip("; ")
        raise ExpressionError(error.what, where=where, hint=hint) from error
    if not isinstance(result, int | float | str | None):
        raise LabError(f"{value!r} is {result!r}, not a number, a string or null", where=where)
    return result


def _triton_argument(argument: BufferArgument | ScalarArgument, kernel: KernelSpec) -> TritonArgument:
    from rocm_perf_lab.languages.data_types import DTYPES
    from rocm_perf_lab.languages.triton_build import TritonArgument

    type_name, params = TRITON_TYPES[argument.dtype], kernel.params
    where = f"kernel.arguments.{argument.name}"
    if isinstance(argument, BufferArgument):
        size = DTYPES[argument.dtype].itemsize
        for expression in argument.shape:
            size *= evaluate_integer(expression, params, where=where)
        return TritonArgument(argument.name, "buffer", type_name, bytes=size)
    is_integer = DTYPES[argument.dtype].kind in "iu"
    integer = evaluate_integer(argument.value, params, where=where) if is_integer else None
    return TritonArgument(argument.name, "scalar", type_name, integer=integer)
