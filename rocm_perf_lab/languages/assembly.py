"""Kernels in AMDGPU assembly.

A source holds the instructions, an `.amdhsa_kernel` descriptor and an `.amdgpu_metadata` block. It passes through the C
preprocessor, so `defines` and `#include` work; comments start with `;` or `//`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.language import Language

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.languages.language import CompileSettings
    from rocm_perf_lab.languages.spec import KernelSpec
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.build_cache import CachedBuild
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox

_KEY_FORMAT = 1
_LLVM_OF_ROCM = ("lib/llvm/bin/clang", "llvm/bin/clang")
"""clang in a ROCm installation: the assembler behind hipcc, which itself accepts HIP only."""


class AssemblyLanguage(Language):
    """AMDGPU assembly, assembled by clang and linked by lld."""

    name = "assembly"
    fields = frozenset({"block", "work_items", "cooperative", "variables", "defines", "flags"})

    def compile(self, kernel: KernelSpec, source: Path, settings: CompileSettings) -> BuildResult:
        """Assemble and link a source; see :meth:`Language.compile`. The optimisation level does not apply."""
        from rocm_perf_lab.core.resources import cache_dir as default_cache_dir
        from rocm_perf_lab.toolchain.build import BuildResult, built_once, require_source

        require_source(source)
        compiler = settings.find_compiler()
        flags = _flags(kernel, settings.architecture)
        cache_dir = settings.cache_dir or default_cache_dir()
        key = _cache_key(source, compiler, flags)
        build, cached = built_once(
            lambda: _assemble(source, compiler, flags, kernel.include_paths, settings.sandbox),
            key,
            source.parent,
            cache_dir,
            fresh=settings.fresh,
        )
        return BuildResult.of(build, compiler, key, cached=cached)

    def build_values(self, kernel: KernelSpec) -> Mapping[str, object]:
        """Return the preprocessor definitions."""
        return kernel.compile_defines()


def _flags(kernel: KernelSpec, architecture: str) -> tuple[str, ...]:
    return (
        *("--target=amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-nogpulib", "-x", "assembler-with-cpp", "-g"),
        *(f"-D{name}={value}" if value != "" else f"-D{name}" for name, value in sorted(kernel.compile_defines().items())),
        *(f"-I{directory.absolute()}" for directory in kernel.include_paths),
        *kernel.flags,
    )


def _cache_key(source: Path, compiler: Compiler, flags: tuple[str, ...]) -> str:
    content = hashlib.sha256(source.read_bytes()).hexdigest()
    parts = ["assembly", _KEY_FORMAT, compiler.fingerprint, source.name, content, flags]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _assemble(
    source: Path, compiler: Compiler, flags: tuple[str, ...], include_dirs: tuple[Path, ...], sandbox: Sandbox | None
) -> CachedBuild:
    from rocm_perf_lab.toolchain.build import reproducible_paths, run_compiler
    from rocm_perf_lab.toolchain.build_cache import CachedBuild

    assembler = (*_assembler(compiler), *flags, *reproducible_paths(source))
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
        output = Path(directory) / "kernel.hsaco"
        if compiler.linker is None:
            command = assembler
            dependencies, log = run_compiler(command, source, output, sandbox=sandbox, readable=include_dirs)
        else:
            command = (*assembler, "-c")
            relocatable = Path(directory) / "kernel.o"
            dependencies, log = run_compiler(command, source, relocatable, sandbox=sandbox, readable=include_dirs)
            _link(compiler.linker, relocatable, output, source)
        return CachedBuild(output.read_bytes(), dependencies, (*command, str(source)), log)


def _assembler(compiler: Compiler) -> tuple[str, ...]:
    """Return the clang that assembles: the compiler itself, or the clang of ROCm if the compiler is its hipcc."""
    driver = Path(compiler.command[0])
    if driver.name != "hipcc":
        return (*compiler.command, *(flag for flag in compiler.flags if flag.startswith("-B")))
    found = (driver.resolve().parent.parent / clang for clang in _LLVM_OF_ROCM)
    return (next((str(path) for path in found if path.is_file()), str(driver)),)


def _link(linker: tuple[str, ...], relocatable: Path, output: Path, source: Path) -> None:
    from rocm_perf_lab.toolchain.build import CompileError

    command = (*linker, "-shared", "--no-undefined", "-o", str(output), str(relocatable))
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        log = (run.stderr or run.stdout).replace(str(relocatable), source.name)
        first = next(iter(log.strip().splitlines()), "the linker failed without a message")
        raise CompileError(first, log=log, where=str(source), hint="Define every symbol in this file.")
