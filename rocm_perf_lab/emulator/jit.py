"""Native code for a program: LLVM IR compiled through llvmlite, with object code cached on disk.

A cached object is used only if its checksum matches; its key covers the program, the translator, LLVM and the CPU.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.fingerprint import translator_fingerprint
from rocm_perf_lab.emulator.translate.function import FUNCTION_NAME, kernel_ir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.emulator.program import Program


@dataclass(frozen=True)
class NativeKernel:
    """Executable code, owned by `engine`, which has to live as long as `address` is used."""

    address: int
    engine: Any


def compile_program(program: Program, helpers: Mapping[str, int], *, cache_directory: Path | None = None) -> NativeKernel:
    """Translate and compile a program, or load its object code from the cache.

    Args:
        program: Program of a kernel.
        helpers: Addresses of runtime functions by name.
        cache_directory: Directory of the object code; the user's cache by default.

    Raises:
        UnsupportedInstruction: The program contains an instruction that the emulator does not implement.
    """
    import llvmlite.binding as llvm

    _initialise()
    for name, address in helpers.items():
        llvm.add_symbol(name, address)
    directory = cache_directory or cache_dir() / "jit"
    path = directory / f"{_key(program)}.o"
    target_machine = _target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine)
    stored = read_sealed(path)
    if stored is None:
        module = llvm.parse_assembly(kernel_ir(program))
        module.verify()
        _optimise(module, target_machine)
        stored = target_machine.emit_object(module)
        write_sealed(path, stored)
    engine.add_object_file(llvm.ObjectFileRef.from_data(stored))
    engine.finalize_object()
    return NativeKernel(engine.get_function_address(FUNCTION_NAME), engine)


def _optimise(module: Any, target_machine: Any) -> None:
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target_machine, options)
    builder.getModulePassManager().run(module, builder)


@cache
def _initialise() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    return llvm.Target.from_default_triple().create_target_machine(
        opt=1, cpu=llvm.get_host_cpu_name(), features=_host_features(), jit=True
    )


def _host_features() -> str:
    """Return the features of this CPU for LLVM, without AVX512-FP16: there LLVM 22 saturates NaN to -32768 instead of 0."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    features["avx512fp16"] = False
    flattened: str = features.flatten()
    return flattened


def _key(program: Program) -> str:
    import llvmlite.binding as llvm

    digest = hashlib.sha256(f"{program.entry} {program.load_address} {program.mode}".encode())
    for instruction in program.instructions:
        digest.update(f" {instruction.address}:{instruction.raw:x}".encode())
    host = (str(llvm.llvm_version_info), llvm.get_host_cpu_name(), _host_features())
    digest.update("\0".join((translator_fingerprint(), *host)).encode())
    return digest.hexdigest()
