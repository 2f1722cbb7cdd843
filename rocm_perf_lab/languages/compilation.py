"""From a kernel description to a build, whatever the language: `compile_description(description, source, ...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError, evaluate, evaluate_integer
from rocm_perf_lab.device.launch import DTYPES, compile_defines
from rocm_perf_lab.languages.description import BufferArgument, StructArgument
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription, ScalarArgument
    from rocm_perf_lab.languages.triton_build import TritonArgument
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox

TRITON_TYPES: Mapping[str, str] = {
    "i8": "i8", "u8": "u8", "i16": "i16", "u16": "u16", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64",
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64",
    "f8e4m3fnuz": "fp8e4b8", "f8e5m2fnuz": "fp8e5b16", "f8e4m3fn": "fp8e4nv", "f8e5m2": "fp8e5",
}  # fmt: skip
_PARTIAL_WORKGROUPS = ("-fno-offload-uniform-block",)
"""Without it the compiler takes blockDim for the size of every workgroup, the last one too."""


def compile_description(
    description: KernelDescription,
    source: Path,
    *,
    architecture: str,
    compiler: Callable[[], Compiler],
    optimisation: str = "-O3",
    cache_dir: Path | None = None,
    sandbox: Sandbox | None = None,
    fresh: bool = False,
) -> BuildResult:
    """Compile `source` in place of the description's own.

    Args:
        description: Language, entry, arguments, params.
        source: The file to compile.
        architecture: Processor name.
        compiler: Finds the compiler of HIP sources; not called for other languages.
        optimisation: For HIP.
        cache_dir: Cache directory; the user's by default.
        sandbox: Runs the compiler of HIP sources with limits.
        fresh: Compile a HIP source even where there is an earlier result.

    Raises:
        CompileError, CompilerNotFound: As they say.
    """
    if description.language == "triton":
        return _compile_triton(description, source, architecture, _directories(description), cache_dir)
    request = hip_request(description, source, architecture=architecture, optimisation=optimisation)
    return compile_source(request, compiler=compiler(), cache_dir=cache_dir, sandbox=sandbox, fresh=fresh)


def hip_request(description: KernelDescription, source: Path, *, architecture: str, optimisation: str = "-O3") -> CompileRequest:
    """What the compiler is asked for `source` in place of the description's own."""
    return CompileRequest(
        source=source,
        architecture=architecture,
        defines=compile_defines(description),
        flags=(*description.flags, *(_PARTIAL_WORKGROUPS if description.work_items else ())),
        include_dirs=_directories(description),
        optimisation=optimisation,
    )


def _directories(description: KernelDescription) -> tuple[Path, ...]:
    return (*(description.directory / d for d in description.include_dirs), description.source_path.parent)


def _compile_triton(
    description: KernelDescription, source: Path, architecture: str, directories: tuple[Path, ...], cache_dir: Path | None
) -> BuildResult:
    from rocm_perf_lab.languages.triton_build import TritonRequest, compile_triton

    request = TritonRequest(
        source=source,
        entry=description.entry,
        arguments=tuple(_triton_argument(a, description) for a in description.arguments if not isinstance(a, StructArgument)),
        constexprs={name: _constexpr(name, value, description) for name, value in description.constexprs.items()},
        options={
            name: evaluate(value, description.params, where=f"kernel.options.{name}")
            for name, value in description.options.items()
        },
        architecture=architecture,
        import_dirs=directories,
    )
    return compile_triton(request, cache_dir=cache_dir)


def _constexpr(name: str, value: Any, description: KernelDescription) -> Any:
    """Types of `triton.language` are named as they are in the source; anything else is an expression."""
    if isinstance(value, str) and value.startswith("tl."):
        return value
    where = f"kernel.constexprs.{name}"
    try:
        result = evaluate(value, description.params, where=where)
    except ExpressionError as error:
        hint = f"""{error.hint or ""}; a text has quotes of its own: {name}: "'{value}'" """.strip("; ")
        raise ExpressionError(error.what, where=where, hint=hint) from error
    if not isinstance(result, int | float | str | None):
        raise LabError(f"{value!r} is {result!r}, not a number, a text or nothing", where=f"kernel.constexprs.{name}")
    return result


def _triton_argument(argument: BufferArgument | ScalarArgument, description: KernelDescription) -> TritonArgument:
    from rocm_perf_lab.languages.triton_build import TritonArgument

    type_name, params = TRITON_TYPES[argument.dtype], description.params
    where = f"kernel.arguments.{argument.name}"
    if isinstance(argument, BufferArgument):
        size = DTYPES[argument.dtype].itemsize
        for expression in argument.shape:
            size *= evaluate_integer(expression, params, where=where)
        return TritonArgument(argument.name, "buffer", type_name, bytes=size)
    is_integer = DTYPES[argument.dtype].kind in "iu"
    integer = evaluate_integer(argument.value, params, where=where) if is_integer else None
    return TritonArgument(argument.name, "scalar", type_name, integer=integer)
