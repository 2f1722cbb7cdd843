"""Translations of HIP sources that are no objects: preprocessed text, assembly, LLVM modules; and their bundles of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.fat_binary import HOST_TARGET
from rocm_perf_lab.toolchain.hip_program import BuiltObject, compile_part
from rocm_perf_lab.toolchain.host_environment import c_flags, program_flags
from rocm_perf_lab.toolchain.program_options import is_c, translation_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.toolchain.hip_program import HipProgram


def translate(program: HipProgram, source: Path, architecture: str | None, output: tuple[str, ...], cache: Path) -> BuiltObject:
    """Return one part of a source as the compiler translates it.

    Args:
        program: The program of the source, with its arguments.
        source: The source.
        architecture: Architecture of device code; None for the host part.
        output: Options for the kind of output: `-E`, `-S`, or `-c -emit-llvm`.
        cache: Cache directory.

    Raises:
        CompileError: The source does not compile.
        CompilerNotFound: The packages with the compiler are not installed.
    """
    compiler = find_compiler(("pip",))
    flags = program_flags(compiler, cache)
    options = translation_options(source, architecture, program.arguments, program.architectures[0], output)
    built = compile_part(source, (*compiler.command, *(c_flags(flags) if is_c(source) else flags), *options))
    return BuiltObject(built.content, built.log, tuple(source.parent / path for path in built.dependencies))


def text_bundle(texts: Mapping[str | None, bytes], comment: bytes) -> bytes:
    """Return texts by architecture, None for that of the host, as one text in clang's format.

    Args:
        texts: The texts.
        comment: Beginning of a comment in them.
    """
    if len(texts) == 1:
        return next(iter(texts.values()))
    parts = []
    for architecture, text in texts.items():
        target = HOST_TARGET if architecture is None else f"hip-amdgcn-amd-amdhsa--{architecture}"
        start, end = (comment + f" __CLANG_OFFLOAD_BUNDLE____{word}__ {target}".encode() for word in ("START", "END"))
        parts.append(b"\n".join((b"", start, text, end)))
    return b"\n".join((*parts, b""))
