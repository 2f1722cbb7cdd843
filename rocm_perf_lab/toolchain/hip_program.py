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
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.core.slow_work import slow_work
from rocm_perf_lab.toolchain.build_arguments import BuildArguments
from rocm_perf_lab.toolchain.build_cache import BuildCache, CachedBuild
from rocm_perf_lab.toolchain.compiler_run import CompileError, run_compiler
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.fat_binary import assembly_of_bundle, offload_bundle
from rocm_perf_lab.toolchain.host_environment import HOST_TRIPLE, c_flags, call_zig, program_flags
from rocm_perf_lab.toolchain.linked_files import is_linked_file, linked_digest
from rocm_perf_lab.toolchain.program_headers import explained
from rocm_perf_lab.toolchain.recorded_commands import record_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocm_perf_lab.toolchain.compilers import Compiler

HIP_SUFFIXES = (".hip", ".cu", ".cpp", ".cc", ".cxx")
"""File names of sources in HIP C++."""
_C_SUFFIX = ".c"
SOURCE_SUFFIXES = (*HIP_SUFFIXES, _C_SUFFIX)
"""File names of sources of programs, in HIP C++ and in C."""
_LINKER = ("c++", "-target", HOST_TRIPLE, "-O2")
_STANDARDS_OF_CPP = ("-std=c++", "-std=gnu++", "--std=c++", "--std=gnu++")
_OPTIMISATION, _LINE_TABLES = "-O2", "-gline-tables-only"
_FAT_BINARY = re.compile(rb"__hip_fatbin(?:_[0-9a-f]+)?(?=\0)")
_HANDLE = re.compile(rb"__hip_gpubin_handle(?:_[0-9a-f]+)?(?=\0)")
_LAYOUT = 1
"""Increase it if this module builds other programs from the same inputs."""
Part = Literal["host", "device"]


@dataclass(frozen=True)
class HipProgram:
    """Sources of a program, the architecture of its device code, and arguments of compiler and linker."""

    sources: tuple[Path, ...]
    architecture: str
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
    """Sources, and headers that do not belong to the system."""


@dataclass(frozen=True)
class BuiltObject:
    """An object file of one source, with its device code, and the messages of the compiler if it was compiled now."""

    content: bytes
    warnings: str
    dependencies: tuple[Path, ...]
    """Source, and headers that do not belong to the system."""


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
    names = ", ".join(source.name for source in program.sources) or "objects"
    with slow_work(f"compiling {names}"):
        parts = _compiled(program, compiler, cache)
    hosts = [part.build.content for part in parts if part.kind == "host"]
    devices = [part.build.content for part in parts if part.kind == "device"]
    now = [part for part in parts if not part.is_cached]
    library = find_library()
    inputs = [_LAYOUT, compiler.fingerprint, program.architecture, program.arguments.linker, linked]
    digest = hashlib.sha256(json.dumps(inputs).encode())
    for content in (*hosts, *devices, str(library.resolve()).encode()):
        digest.update(hashlib.sha256(content).digest())
    path = cache / "programs" / digest.hexdigest()[:32] / (program.sources[0].stem if program.sources else "program")
    if not _is_intact(path):
        with slow_work(f"linking {names} (the first program also builds the C++ library, a minute or two)"):
            _link(program, compiler, hosts, devices, library, path)
    return BuiltProgram(path, _warnings(parts), len(now), _dependencies(parts))


def build_objects(program: HipProgram, cache: Path) -> tuple[BuiltObject, ...]:
    """Return an object file per source, to link with `build_program` later: its host part, which registers its device code.

    Args:
        program: Sources and arguments.
        cache: Cache directory.

    Raises:
        CompileError: A source does not exist or does not compile, or its device code needs that of other sources.
        CompilerNotFound: The packages with the compiler are not installed.
    """
    program.check()
    if program.arguments.is_relocatable:
        raise CompileError(
            "object files cannot have device code that refers to that of other files",
            log="",
            where="-fgpu-rdc",
            hint="Name all sources in one command without -c, or remove -fgpu-rdc.",
        )
    compiler = find_compiler(("pip",))
    with slow_work(f"compiling {', '.join(source.name for source in program.sources)}"):
        parts = _compiled(program, compiler, cache)
    found = []
    for source in program.sources:
        own = [part for part in parts if part.source == source]
        content = _object(source, own, compiler, program.architecture)
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
    kind: Part
    build: CachedBuild
    is_cached: bool


def _compiled(program: HipProgram, compiler: Compiler, cache: Path) -> list[_BuiltPart]:
    """Return the parts of all sources: host and device of the first, of the second and so on."""
    flags = program_flags(compiler, cache)
    wanted = [(source, kind) for source in program.sources for kind in _kinds(source)]
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(_part, source, kind, program, compiler, flags, cache) for source, kind in wanted]
        return [future.result() for future in futures]


def _is_c(source: Path) -> bool:
    return source.suffix == _C_SUFFIX


def _kinds(source: Path) -> tuple[Part, ...]:
    return ("host",) if _is_c(source) else ("host", "device")


def _warnings(parts: Sequence[_BuiltPart]) -> str:
    return "".join(part.build.log for part in parts if part.kind == "host" and not part.is_cached)


def _dependencies(parts: Sequence[_BuiltPart]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(part.source.parent / path for part in parts for path in part.build.dependencies))


def _part(source: Path, kind: Part, program: HipProgram, compiler: Compiler, flags: Sequence[str], cache: Path) -> _BuiltPart:
    options = _options(kind, program, source)
    if _is_c(source):
        flags = c_flags(flags)
    key = hashlib.sha256(
        json.dumps([_LAYOUT, "program", compiler.fingerprint, [*flags], options, str(source), str(Path.cwd())]).encode()
    ).hexdigest()
    builds = BuildCache(cache / "builds")
    earlier = builds.load(key, source.parent)
    if earlier is not None:
        _record(kind, earlier.content, source, program, cache)
        return _BuiltPart(source, kind, earlier, is_cached=True)
    command = (*compiler.command, *flags, *options)
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-program-") as directory:
        output = Path(directory) / "part.o"
        try:
            dependencies, log = run_compiler(command, source, output)
        except CompileError as error:
            raise explained(error) from None
        build = CachedBuild(output.read_bytes(), dependencies, command, log)
    builds.store(key, build, source.parent)
    _record(kind, build.content, source, program, cache)
    return _BuiltPart(source, kind, build, is_cached=False)


def _record(kind: Part, content: bytes, source: Path, program: HipProgram, cache: Path) -> None:
    """Record how a code object was compiled, so that the source of a captured kernel can be found."""
    if kind == "device" and not program.arguments.is_relocatable:
        record_command(content, source, (_OPTIMISATION, *program.arguments.compiler), cache)


def _options(kind: Part, program: HipProgram, source: Path) -> tuple[str, ...]:
    """Return the options that decide about one part; the user's come last, so that they win."""
    if _is_c(source):
        # One command may have sources in both languages.
        own = [word for word in program.arguments.compiler if not word.startswith(_STANDARDS_OF_CPP)]
        return ("-x", "c", _OPTIMISATION, _LINE_TABLES, "-fPIC", "-c", *own)
    common: tuple[str, ...] = ("-x", "hip", f"--offload-arch={program.architecture}", _OPTIMISATION, _LINE_TABLES)
    if program.arguments.is_relocatable:
        # Both parts name static kernels and variables after the source: by default the name depends on all options.
        common = (*common, f"-cuid={hashlib.sha256(str(source.absolute()).encode()).hexdigest()[:16]}")
    if kind == "host":
        return (*common, "--cuda-host-only", "-fPIC", "-c", *program.arguments.compiler)
    if program.arguments.is_relocatable:
        return (*common, "--cuda-device-only", "--no-gpu-bundle-output", "-c", "-emit-llvm", *program.arguments.compiler)
    return (*common, "--cuda-device-only", "--no-gpu-bundle-output", *program.arguments.compiler)


def _object(source: Path, parts: Sequence[_BuiltPart], compiler: Compiler, architecture: str) -> bytes:
    """Return the host part of a source and the bundle of its device code as one object."""
    host = next(part.build.content for part in parts if part.kind == "host")
    code = [part.build.content for part in parts if part.kind == "device"]
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-object-") as name:
        directory = Path(name)
        bundles = _bundles(compiler, [host], code, architecture, directory) if code else []
        if not bundles:
            return host
        file, output = directory / "host.o", directory / "object.o"
        file.write_bytes(host)
        # The symbol of the bundle has a hash of source and options in its name: objects of a program do not conflict.
        command = ["ld.lld", "-m", "elf_x86_64", "-r", "-o", str(output), str(file), *map(str, bundles)]
        call_zig(compiler, command, what="the device code cannot be added to the object", where=str(source))
        return output.read_bytes()


def _link(
    program: HipProgram, compiler: Compiler, hosts: Sequence[bytes], devices: Sequence[bytes], library: Path, path: Path
) -> None:
    """Link the executable and write it to `path` with its checksum."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-link-") as name:
        directory = Path(name)
        objects = [directory / f"{number}.o" for number in range(len(hosts))]
        for file, content in zip(objects, hosts, strict=True):
            file.write_bytes(content)
        with_code = [content for source, content in zip(program.sources, hosts, strict=True) if not _is_c(source)]
        code = (
            [_linked_device_code(compiler, devices, program.architecture, directory)]
            if program.arguments.is_relocatable and devices
            else devices
        )
        output = directory / "program"
        command = [
            *(*_LINKER, "-o", str(output), *map(str, objects)),
            *map(str, _bundles(compiler, with_code, code, program.architecture, directory)),
            *(*program.arguments.linker, str(library), f"-L{library.parent}"),
            *("-Wl,--allow-shlib-undefined", "-lpthread", "-ldl", "-lm"),
        ]
        inputs = [*map(str, program.sources), *filter(is_linked_file, program.arguments.linker)]
        call_zig(compiler, command, what="the program cannot be linked", where=", ".join(inputs))
        content = output.read_bytes()
    write_bytes(path, content)
    path.chmod(0o755)
    write_text(_checksum(path), hashlib.sha256(content).hexdigest())


def _linked_device_code(compiler: Compiler, devices: Sequence[bytes], architecture: str, directory: Path) -> bytes:
    """Return one code object of LLVM modules that refer to each other (-fgpu-rdc)."""
    files = [directory / f"{number}.bc" for number in range(len(devices))]
    for file, content in zip(files, devices, strict=True):
        file.write_bytes(content)
    output = directory / "device.hsaco"
    # Functions name their processor in an attribute; the flags of the ELF file are those of the linker's option.
    processor = f"-plugin-opt=mcpu={architecture}"
    command = ["ld.lld", "-m", "elf64_amdgpu", processor, "-shared", "--no-undefined", "-o", str(output), *map(str, files)]
    call_zig(compiler, command, what="the device code cannot be linked", where="-fgpu-rdc")
    return output.read_bytes()


def _bundles(compiler: Compiler, hosts: Sequence[bytes], code: Sequence[bytes], architecture: str, directory: Path) -> list[Path]:
    """Return object files with the bundles of device code, under the symbols by which the host parts refer to them."""
    symbols = [(_FAT_BINARY.findall(host), _HANDLE.findall(host)) for host in hosts]
    if len(code) < len(hosts):  # one code object of all sources: they share it and its handle
        symbols = [([name for names, _ in symbols for name in names], [name for _, names in symbols for name in names])]
    found = []
    for number, ((binaries, handles), content) in enumerate(zip(symbols, code, strict=True)):
        if binaries:
            bundle, assembly, output = (directory / f"bundle{number}{suffix}" for suffix in (".hipfb", ".s", ".bundle.o"))
            bundle.write_bytes(offload_bundle({architecture: content}))
            assembly.write_text(assembly_of_bundle(bundle, _texts(binaries), _texts(handles)))
            command = ["clang", "-target", "x86_64-linux-gnu", "-c", str(assembly), "-o", str(output)]
            call_zig(compiler, command, what="the device code cannot be bundled", where=str(assembly))
            found.append(output)
    return found


def _texts(names: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.decode() for name in names))


def _checksum(path: Path) -> Path:
    return path.parent / "sha256"


def _is_intact(path: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == _checksum(path).read_text()
    except OSError:
        return False
