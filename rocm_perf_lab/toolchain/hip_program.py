"""Builds executables from HIP sources without ROCm: `build_program(HipProgram(...), find_library, cache)`; also object files.

The wheels' clang compiles the host and the device part of every source at the same time; C sources have a host part alone. The
code objects are bundled into a section of the executable, to which the host parts refer by a symbol; their linker adds libc++
and the HIP runtime. Everything is cached by content: sources, headers that the compiler read, arguments and compiler.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.core.slow_work import slow_work
from rocm_perf_lab.toolchain.build_arguments import BuildArguments
from rocm_perf_lab.toolchain.build_cache import BuildCache, CachedBuild
from rocm_perf_lab.toolchain.compiler_run import CompileError, run_compiler
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.device_modules import assembly_of_modules, objects_with_modules
from rocm_perf_lab.toolchain.fat_binary import assembly_of_bundle, offload_bundle
from rocm_perf_lab.toolchain.host_environment import HOST_TRIPLE, c_flags, call_zig, program_flags
from rocm_perf_lab.toolchain.linked_files import gnu_cpp_library, is_linked_file, linked_digest, linked_files
from rocm_perf_lab.toolchain.program_headers import explained
from rocm_perf_lab.toolchain.program_options import OPTIMISATION, is_c, part_options
from rocm_perf_lab.toolchain.recorded_commands import record_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocm_perf_lab.toolchain.compilers import Compiler

HIP_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx")
"""File names of sources in HIP C++."""
SOURCE_SUFFIXES = (*HIP_SUFFIXES, ".c")
"""File names of sources of programs, in HIP C++ and in C."""
_LINKER = ("c++", "-target", HOST_TRIPLE, "-O2")
_FAT_BINARY = re.compile(rb"__hip_fatbin(?:_[0-9a-f]+)?(?=\0)")
_HANDLE = re.compile(rb"__hip_gpubin_handle(?:_[0-9a-f]+)?(?=\0)")
_LAYOUT = 1
"""Increase it if this module builds other programs from the same inputs."""


@dataclass(frozen=True)
class HipProgram:
    """Sources of a program, the architectures of its device code, and arguments of compiler and linker."""

    sources: tuple[Path, ...]
    architectures: tuple[str, ...]
    arguments: BuildArguments = field(default_factory=BuildArguments)

    def check(self) -> None:
        """Check that the sources exist.

        Raises:
            CompileError: One does not exist.
        """
        for source in self.sources:
            if not source.is_file():
                raise CompileError("the source file does not exist", log="", where=str(source), hint="Check its path.")


@dataclass(frozen=True)
class BuiltProgram:
    """An executable, and the messages of the compiler about its sources if they were compiled now."""

    path: Path
    warnings: str
    """Empty if every part was in the cache."""
    compiled: int
    """Parts that were not in the cache."""
    dependencies: tuple[Path, ...] = ()
    """Sources, and headers except system headers."""


@dataclass(frozen=True)
class BuiltObject:
    """An object file of one source, with its device code, and the messages of the compiler if it was compiled now."""

    content: bytes
    warnings: str
    dependencies: tuple[Path, ...]
    """Source, and headers except system headers."""


def build_program(program: HipProgram, find_library: Callable[[], Path], cache: Path) -> BuiltProgram:
    """Return the executable; compile the parts that are not in the cache.

    Args:
        program: Sources, which may be none if the arguments name objects, and arguments.
        find_library: Returns the HIP runtime to link, `libamdhip64.so...`; called when all parts have compiled, because it may
            be built now.
        cache: Cache directory.

    Raises:
        CompileError: A source does not exist or does not compile, or the program cannot be linked.
        CompilerNotFound: The packages with the compiler are not installed.
    """
    program.check()
    linked = linked_digest(program.arguments.linker)
    compiler = find_compiler(("pip",))
    parts = _compiled(program, compiler, cache)
    now = [part for part in parts if not part.is_cached]
    library = find_library()
    inputs = [_LAYOUT, compiler.fingerprint, program.architectures, program.arguments.linker, linked]
    digest = hashlib.sha256(json.dumps(inputs).encode())
    for content in (*(part.build.content for part in parts), str(library.resolve()).encode()):
        digest.update(hashlib.sha256(content).digest())
    path = cache / "programs" / digest.hexdigest()[:32] / (program.sources[0].stem if program.sources else "program")
    if not _is_intact(path):
        with slow_work(f"linking {_names(program)} (the first program also builds the C++ library, a minute or two)"):
            _link(program, compiler, parts, library, path)
    return BuiltProgram(path, _warnings(parts), len(now), _dependencies(parts))


def build_device_code(program: HipProgram, cache: Path) -> BuiltObject:
    """Return the device code of one source as an offload bundle, which hipModuleLoad reads.

    Args:
        program: A program of one source.
        cache: Cache directory.

    Raises:
        CompileError: The source does not exist or does not compile.
        CompilerNotFound: The packages with the compiler are not installed.
    """
    program.check()
    compiler = find_compiler(("pip",))
    parts = _compiled(program, compiler, cache)
    code = _by_architecture(parts)
    if program.arguments.is_relocatable:
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-link-") as name:
            code = {each: _linked_device_code(compiler, [code], each, Path(name)) for each in code}
    return BuiltObject(offload_bundle(code), _warnings(parts), _dependencies(parts))


def build_objects(program: HipProgram, cache: Path, *, with_device_code: bool = True) -> tuple[BuiltObject, ...]:
    """Return an object file per source, to link with `build_program` later: its host part, which registers its device code.

    Args:
        program: Sources and arguments.
        cache: Cache directory.
        with_device_code: Whether the objects have it; else they are for a build that adds it.

    Raises:
        CompileError: A source does not exist or does not compile.
        CompilerNotFound: The packages with the compiler are not installed.
    """
    program.check()
    compiler = find_compiler(("pip",))
    parts = _compiled(program, compiler, cache)
    found = []
    for source in program.sources:
        own = [part for part in parts if part.source == source]
        content = _object(source, own, compiler, program) if with_device_code else _host(own)
        found.append(BuiltObject(content, _warnings(own), _dependencies(own)))
    return tuple(found)


def build_cpp_library(directory: Path) -> None:
    """Build the C++ library of the wheels, which stays in the cache of their linker.

    Args:
        directory: Directory for an empty program, which is linked with it.

    Raises:
        CompileError: It cannot be built.
        CompilerNotFound: The packages with the compiler are not installed.
    """
    source = directory / "empty.cpp"
    source.write_text("int main() {}\n", encoding="utf-8")
    command = [*_LINKER, "-o", str(directory / "empty"), str(source)]
    call_zig(find_compiler(("pip",)), command, what="the C++ library cannot be built", where=str(source))


@dataclass(frozen=True)
class _BuiltPart:
    source: Path
    architecture: str | None
    """None: the host part."""
    build: CachedBuild
    is_cached: bool


def _compiled(program: HipProgram, compiler: Compiler, cache: Path) -> list[_BuiltPart]:
    """Return the parts of all sources: the host part of the first and its device parts, those of the second and so on."""
    flags = program_flags(compiler, cache)
    wanted = [(source, part) for source in program.sources for part in (None, *_architectures(source, program))]
    with slow_work(f"compiling {_names(program)}"), ThreadPoolExecutor() as pool:
        futures = [pool.submit(_part, source, part, program, compiler, flags, cache) for source, part in wanted]
        return [future.result() for future in futures]


def _names(program: HipProgram) -> str:
    return ", ".join(source.name for source in program.sources) or "objects"


def _architectures(source: Path, program: HipProgram) -> tuple[str, ...]:
    return () if is_c(source) else program.architectures


def _warnings(parts: Sequence[_BuiltPart]) -> str:
    return "".join(part.build.log for part in parts if part.architecture is None and not part.is_cached)


def _dependencies(parts: Sequence[_BuiltPart]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(part.source.parent / path for part in parts for path in part.build.dependencies))


def _part(
    source: Path, architecture: str | None, program: HipProgram, compiler: Compiler, flags: Sequence[str], cache: Path
) -> _BuiltPart:
    options = part_options(source, architecture, program.arguments, program.architectures[0])
    flags = c_flags(flags) if is_c(source) else flags
    key = hashlib.sha256(
        json.dumps([_LAYOUT, "program", compiler.fingerprint, [*flags], options, str(source), str(Path.cwd())]).encode()
    ).hexdigest()
    builds = BuildCache(cache / "builds")
    earlier = builds.load(key, source.parent)
    if earlier is not None:
        _record(architecture, earlier.content, source, program, cache)
        return _BuiltPart(source, architecture, earlier, is_cached=True)
    build = compile_part(source, (*compiler.command, *flags, *options))
    builds.store(key, build, source.parent)
    _record(architecture, build.content, source, program, cache)
    return _BuiltPart(source, architecture, build, is_cached=False)


def compile_part(source: Path, command: tuple[str, ...]) -> CachedBuild:
    """Return the output of the compiler for one part of a source.

    Raises:
        CompileError: The source does not compile; the message names missing parts of ROCm.
    """
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-program-") as directory:
        output = Path(directory) / "part.o"
        try:
            dependencies, log = run_compiler(command, source, output)
        except CompileError as error:
            raise explained(error) from None
        return CachedBuild(output.read_bytes(), dependencies, command, log)


def _record(architecture: str | None, content: bytes, source: Path, program: HipProgram, cache: Path) -> None:
    """Record how a code object was compiled, so that the source of a captured kernel can be found."""
    if architecture is not None and not program.arguments.is_relocatable:
        record_command(content, source, (OPTIMISATION, *program.arguments.compiler), cache)


def _object(source: Path, parts: Sequence[_BuiltPart], compiler: Compiler, program: HipProgram) -> bytes:
    """Return the host part of a source and the bundle or the modules of its device code as one object."""
    host = _host(parts)
    code = _by_architecture(parts)
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-object-") as name:
        directory = Path(name)
        if program.arguments.is_relocatable:
            added = [_modules(compiler, code, directory)] if code else []
        else:
            # The symbol of the bundle has a hash of source and options in its name: objects of a program do not conflict.
            added = _bundles(compiler, [host], code, directory, "bundle") if code else []
        if not added:
            return host
        file, output = directory / "host.o", directory / "object.o"
        file.write_bytes(host)
        command = ["ld.lld", "-m", "elf_x86_64", "-r", "-o", str(output), str(file), *map(str, added)]
        call_zig(compiler, command, what="the device code cannot be added to the object", where=str(source))
        return output.read_bytes()


def _link(program: HipProgram, compiler: Compiler, parts: Sequence[_BuiltPart], library: Path, path: Path) -> None:
    """Link the executable and write it to `path` with its checksum."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-link-") as name:
        directory = Path(name)
        sources = [[part for part in parts if part.source == source] for source in program.sources]
        objects = [directory / f"{number}.o" for number in range(len(sources))]
        for file, own in zip(objects, sources, strict=True):
            file.write_bytes(_host(own))
        output = directory / "program"
        gnu = gnu_cpp_library(program.arguments.linker)
        command = [
            *(*_LINKER, "-o", str(output), *map(str, objects)),
            *map(str, _device_code(program, compiler, sources, directory)),
            *(*program.arguments.linker, *([str(gnu)] if gnu else []), str(library), f"-L{library.parent}"),
            *("-Wl,--allow-shlib-undefined", "-lpthread", "-ldl", "-lm"),
        ]
        inputs = [*map(str, program.sources), *filter(is_linked_file, program.arguments.linker)]
        call_zig(compiler, command, what="the program cannot be linked", where=", ".join(inputs))
        content = output.read_bytes()
    write_bytes(path, content)
    path.chmod(0o755)
    write_text(_checksum(path), hashlib.sha256(content).hexdigest())


def _device_code(program: HipProgram, compiler: Compiler, sources: Sequence[Sequence[_BuiltPart]], directory: Path) -> list[Path]:
    """Return object files with the device code: a bundle per source, or one for sources and objects with -fgpu-rdc."""
    found: list[Path] = []
    objects = [each for file in linked_files(program.arguments.linker) for each in objects_with_modules(file)]
    units = [(each.content, each.modules) for each in objects]
    for number, own in enumerate(sources):
        code = _by_architecture(own)
        if code and program.arguments.is_relocatable:
            units.append((_host(own), code))
        elif code:
            found += _bundles(compiler, [_host(own)], code, directory, f"bundle{number}")
    if units:
        wanted = sorted({name for _, modules in units for name in modules})
        linked = {name: _linked_device_code(compiler, [modules for _, modules in units], name, directory) for name in wanted}
        found += _bundles(compiler, [host for host, _ in units], linked, directory, "bundle")
    return found


def _host(parts: Sequence[_BuiltPart]) -> bytes:
    return next(part.build.content for part in parts if part.architecture is None)


def _by_architecture(parts: Sequence[_BuiltPart]) -> dict[str, bytes]:
    return {part.architecture: part.build.content for part in parts if part.architecture is not None}


def _modules(compiler: Compiler, code: Mapping[str, bytes], directory: Path) -> Path:
    """Return an object file with the LLVM modules of one source."""
    files = {name: directory / f"{number}.bc" for number, name in enumerate(code)}
    for name, file in files.items():
        file.write_bytes(code[name])
    return _assembled(compiler, assembly_of_modules(files), directory / "modules.s")


def _linked_device_code(compiler: Compiler, modules: Sequence[Mapping[str, bytes]], architecture: str, directory: Path) -> bytes:
    """Return one code object of LLVM modules that refer to each other (-fgpu-rdc)."""
    if any(architecture not in each for each in modules):
        raise CompileError(
            f"an object has no device code for {architecture}, and another one has",
            log="",
            where="--offload-arch",
            hint="Compile all sources with -fgpu-rdc for the same architectures.",
        )
    files = [directory / f"{number}.bc" for number in range(len(modules))]
    for file, each in zip(files, modules, strict=True):
        file.write_bytes(each[architecture])
    output = directory / "device.hsaco"
    # Functions name their processor in an attribute; the flags of the ELF file are those of the linker's option.
    processor = f"-plugin-opt=mcpu={architecture.partition(':')[0]}"
    command = ["ld.lld", "-m", "elf64_amdgpu", processor, "-shared", "--no-undefined", "-o", str(output), *map(str, files)]
    call_zig(compiler, command, what="the device code cannot be linked", where="-fgpu-rdc")
    return output.read_bytes()


def _bundles(compiler: Compiler, hosts: Sequence[bytes], code: Mapping[str, bytes], directory: Path, stem: str) -> list[Path]:
    """Return an object file with the bundle of device code, under the symbols by which host parts refer to it; none without."""
    binaries = [name for host in hosts for name in _FAT_BINARY.findall(host)]
    handles = [name for host in hosts for name in _HANDLE.findall(host)]
    if not binaries:
        return []
    bundle = directory / f"{stem}.hipfb"
    bundle.write_bytes(offload_bundle(code))
    return [_assembled(compiler, assembly_of_bundle(bundle, _texts(binaries), _texts(handles)), directory / f"{stem}.s")]


def _assembled(compiler: Compiler, text: str, file: Path) -> Path:
    """Return the object file of assembly for the host."""
    file.write_text(text)
    output = file.with_suffix(".device.o")
    command = ["clang", "-target", "x86_64-linux-gnu", "-c", str(file), "-o", str(output)]
    call_zig(compiler, command, what="the device code cannot be bundled", where=str(file))
    return output


def _texts(names: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.decode() for name in names))


def _checksum(path: Path) -> Path:
    return path.parent / "sha256"


def _is_intact(path: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == _checksum(path).read_text()
    except OSError:
        return False
