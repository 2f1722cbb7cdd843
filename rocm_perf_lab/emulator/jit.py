"""Native code for a program: LLVM IR compiled through llvmlite, with object code cached on disk.

Blocks are optimised, with their operations in place, or consist of calls of shared operations and are compiled without
optimisation, about ten times as fast. A cached object is used only if its checksum matches; its key covers the program, the
optimised blocks, the translator, LLVM and the CPU.
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
from rocm_perf_lab.emulator.translate.shared_operations import SharedOperations

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.emulator.program import Program


@dataclass(frozen=True)
class NativeKernel:
    """Executable code, owned by `engine`, which has to live as long as `address` is used."""

    address: int
    engine: Any


def compile_program(
    program: Program,
    helpers: Mapping[str, int],
    *,
    optimised: frozenset[int] | None = None,
    cache_directory: Path | None = None,
) -> NativeKernel:
    """Translate and compile a program, or load its object code from the cache.

    Args:
        program: Program of a kernel.
        helpers: Addresses of runtime functions by name.
        optimised: Indices of the blocks to optimise; all by default.
        cache_directory: Directory of the object code; the user's cache by default.

    Raises:
        UnsupportedInstruction: The program contains an instruction that the emulator does not implement.
    """
    import llvmlite.binding as llvm
    import msgpack

    _initialise()
    for name, address in helpers.items():
        llvm.add_symbol(name, address)
    optimised = _all_as_none(program, optimised)
    path = (cache_directory or cache_dir() / "jit") / f"{program_key(program, optimised)}.o"
    stored = read_sealed(path)
    if stored is None:
        stored = msgpack.packb(compile_objects(program, optimised))
        write_sealed(path, stored)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    for content in msgpack.unpackb(stored):
        engine.add_object_file(llvm.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return NativeKernel(engine.get_function_address(FUNCTION_NAME), engine)


def compile_objects(
    program: Program, optimised: frozenset[int] | None = None, *, position_independent: bool = False
) -> list[bytes]:
    """Return the object files of a program, which refer to each other.

    Args:
        program: Program of a kernel.
        optimised: Indices of the blocks to optimise; all by default.
        position_independent: Compile for a shared library instead of this process.

    Raises:
        UnsupportedInstruction: The program contains an instruction that the emulator does not implement.
    """
    _initialise()
    if _all_as_none(program, optimised) is None:
        texts = [(kernel_ir(program), True)]
    else:
        shared = SharedOperations()
        kernel = kernel_ir(program, shared, optimised or ())
        texts = [(kernel, bool(optimised)), (shared.ir(), True)]
    return [_object(text, optimise=optimise, position_independent=position_independent) for text, optimise in texts]


def _all_as_none(program: Program, optimised: frozenset[int] | None) -> frozenset[int] | None:
    return None if optimised is not None and len(optimised) == len(program.blocks) else optimised


def _object(text: str, *, optimise: bool, position_independent: bool) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    target_machine = _target_machine(level=1 if optimise else 0, position_independent=position_independent)
    if optimise:
        _optimise(module, target_machine)
    compiled: bytes = target_machine.emit_object(module)
    return compiled


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


def _target_machine(level: int = 1, *, position_independent: bool = False) -> Any:
    import llvmlite.binding as llvm

    return llvm.Target.from_default_triple().create_target_machine(
        opt=level,
        cpu=llvm.get_host_cpu_name(),
        features=_host_features(),
        reloc="pic" if position_independent else "default",
        jit=not position_independent,
        codemodel="default" if position_independent else "jitdefault",
    )


def _host_features() -> str:
    """Return the features of this CPU for LLVM, without AVX512-FP16: there LLVM 22 saturates NaN to -32768 instead of 0."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    features["avx512fp16"] = False
    flattened: str = features.flatten()
    return flattened


def program_key(program: Program, optimised: frozenset[int] | None = None) -> str:
    """Return a hash of everything on which the object code depends.

    Args:
        program: Program of a kernel.
        optimised: Indices of the optimised blocks; all by default.
    """
    import llvmlite.binding as llvm

    optimised = _all_as_none(program, optimised)
    digest = hashlib.sha256(f"{program.isa} {program.entry} {program.mode}".encode())
    for instruction in program.instructions:
        digest.update(f" {instruction.address}:{instruction.raw:x}".encode())
    for missing in program.missing:
        digest.update(f" missing {missing.address}".encode())
    blocks = "all" if optimised is None else " ".join(map(str, sorted(optimised)))
    host = (str(llvm.llvm_version_info), llvm.get_host_cpu_name(), _host_features())
    digest.update("\0".join((blocks, translator_fingerprint(), *host)).encode())
    return digest.hexdigest()
