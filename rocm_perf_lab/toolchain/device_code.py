"""Compilation of the device code of one source: `compile_device_code(request, ...) -> CachedBuild`.

The source is compiled as it is. If that fails because of its host code, headers of host libraries that are not installed get
empty stand-ins, and host code that does not compile is left out; device code is never changed. The build has a note on each.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.build_cache import CachedBuild
from rocm_perf_lab.toolchain.checked_build import CheckedBuild
from rocm_perf_lab.toolchain.compile_request import request_flags
from rocm_perf_lab.toolchain.compiler_run import (
    CompileError,
    call_compiler,
    compile_error,
    dependency_options,
    front_end,
    places_of_errors,
    read_prerequisites,
    reproducible_paths,
    run_compiler,
)
from rocm_perf_lab.toolchain.cpp_structure import CppStructure, UnbalancedBrackets
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.host_code import without_host_errors
from rocm_perf_lab.toolchain.missing_headers import StandIn, host_library, make_stand_in, missing_header
from rocm_perf_lab.toolchain.precompiled_headers import header_text, precompiled_header
from rocm_perf_lab.toolchain.preprocessed import PreprocessedText

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocm_perf_lab.toolchain.compile_request import CompileRequest
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.host_code import HostError
    from rocm_perf_lab.toolchain.sandbox import Sandbox

_PREPROCESSED = ("-nogpuinc", "-Xclang", "-x", "-Xclang", "hip-cpp-output")
"""Input that is preprocessed already: the driver accepts it for device-only compilations only in this form."""
_LINES_OF_THE_TEXT = (
    *("-fsyntax-only", "-Xclang", "-fno-diagnostics-use-presumed-location"),
    *("-ferror-limit=0", "-fno-caret-diagnostics", "-Wno-everything"),
)
_HIPRTC_HEADER = Path(__file__).parent / "headers" / "hiprtc" / "rocm_perf_lab_hiprtc.h"


def compile_device_code(
    request: CompileRequest, compiler: Compiler, cache_dir: Path, sandbox: Sandbox | None = None
) -> CachedBuild:
    """Compile the kernels of a source to a code object.

    Args:
        request: Source, architecture and flags.
        compiler: A clang for AMD GPUs.
        cache_dir: Directory of stand-ins and of the ROCm directory for compilers that need one.
        sandbox: Sandbox for untrusted sources.

    Raises:
        CompileError: The device code does not compile, or a header is missing that it may depend on.
    """
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
        command = device_command(request, compiler, cache_dir)
        compilation = _Compilation(request, compiler, command, cache_dir, Path(directory), sandbox)
        try:
            return compilation.build(request.source)
        except CompileError as error:
            if request.language != "hip" or not _may_be_host_code(request, error.log):
                raise
            return compilation.without_host_code(error)


def device_command(request: CompileRequest, compiler: Compiler, cache_dir: Path) -> tuple[str, ...]:
    """Return the compiler and its flags, without source and output."""
    return (
        *compiler.command,
        *("-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-c"),
        *compiler.hip_flags(cache_dir),
        *("-fuse-cuid=none", "-fhip-kernel-arg-name"),
        *reproducible_paths(request.source),
        *language_flags(request),
        *request_flags(request),
    )


def language_flags(request: CompileRequest) -> tuple[str, ...]:
    """Return the flags that make the compiler accept the language of a request."""
    if request.language == "hip":
        return ()
    return ("-D__HIPCC_RTC__", "-std=c++17", "-include", str(_HIPRTC_HEADER))


@dataclass(frozen=True)
class _Compilation:
    """A compilation in a directory for temporary files, with stand-ins for missing headers."""

    request: CompileRequest
    compiler: Compiler
    base: tuple[str, ...]
    cache_dir: Path
    directory: Path
    sandbox: Sandbox | None
    stand_ins: tuple[StandIn, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """Compiler and flags with the directories of the stand-ins, which are searched last."""
        return (*self.base, *(f"-idirafter{stand_in.directory}" for stand_in in self.stand_ins))

    @property
    def readable(self) -> tuple[Path, ...]:
        """Directories that a sandboxed compiler may read."""
        return (*self.request.include_dirs, self.cache_dir, self.request.source.parent)

    def build(self, source: Path, *flags: str) -> CachedBuild:
        """Compile a file.

        Raises:
            CompileError: The file does not compile.
        """
        command = (*self.command, *flags)
        header = None
        if source == self.request.source and not flags and not self.stand_ins:
            header = precompiled_header(self.request, self.command, self.compiler, self.cache_dir)
        content, dependencies, log = self._compiled_with(header, command, source)
        return CachedBuild(
            content=read_code_object(content, bundle_architecture=self.request.architecture).data,
            dependencies=dependencies,
            command=(*command, str(self.request.source)),
            log=log,
            notes=self._notes(),
            absent=self._absent(),
        )

    def _compiled_with(self, header: Path | None, command: tuple[str, ...], source: Path) -> tuple[bytes, tuple[Path, ...], str]:
        """Return the results of :meth:`_compiled` with a precompiled header, which is removed if the compiler rejects it."""
        if header is None:
            return self._compiled(command, source)
        try:
            content, read, log = self._compiled((*command, *front_end("-include-pch", str(header))), source)
        except CompileError as error:
            if str(header) not in error.log:
                raise
            header.unlink(missing_ok=True)  # its headers were installed again
            return self._compiled(command, source)
        return content, tuple(path for path in read if path != header_text(header)), log

    def _compiled(self, command: tuple[str, ...], source: Path) -> tuple[bytes, tuple[Path, ...], str]:
        """Return the compiler's output, the files that it read, and its diagnostics."""
        if self.request.promise_checks:
            build = CheckedBuild(self.compiler, self.request.architecture, self.sandbox, self.readable, self.directory)
            return build.run(command, source, self.request.source)
        output = self.directory / "kernel.hsaco"
        dependencies, log = run_compiler(
            command, source, output, sandbox=self.sandbox, readable=self.readable, origin=self.request.source
        )
        return output.read_bytes(), dependencies, log

    def without_host_code(self, error: CompileError) -> CachedBuild:
        """Compile the source with stand-ins, and without the host code that does not compile.

        Raises:
            CompileError: The device code does not compile, or a header is missing that it may depend on.
        """
        with_stand_ins, output, dependencies = self._preprocessed(error)
        try:
            return with_stand_ins._without_host_errors(output, dependencies)
        except CompileError as refused:
            raise with_stand_ins._explained(refused) from error

    def _preprocessed(self, error: CompileError) -> tuple[_Compilation, str, tuple[Path, ...]]:
        """Return the compilation with all stand-ins, and the preprocessor's output and dependencies."""
        compilation = self
        if missing_header(error.log) is not None:
            compilation = replace(self, stand_ins=self._needed_stand_ins())
        output = self.directory / "preprocessed.hip"
        command = (*(word for word in compilation.command if word != "-c"), "-E")
        dependencies, _ = run_compiler(command, self.request.source, output, sandbox=self.sandbox, readable=self.readable)
        return compilation, output.read_text(encoding="latin-1"), dependencies

    def _needed_stand_ins(self) -> tuple[StandIn, ...]:
        """Return stand-ins for the headers of host libraries that are not installed; the compiler lists all of them."""
        output = self.directory / "listed.d"
        lists = front_end(*dependency_options(output), "-MG", "-sys-header-deps")
        command = (
            *(word for word in self.base if word != "-c"),
            "-E",
            "-o",
            str(output.with_suffix(".i")),
            *lists,
            str(self.request.source),
        )
        call_compiler(command, self.request.source, self.sandbox, self.directory, self.readable)
        listed = read_prerequisites(output) if output.is_file() else ()
        libraries = ((name, host_library(name, self.request.host_headers)) for name in listed if not Path(name).is_absolute())
        return tuple(make_stand_in(name, library, self.cache_dir) for name, library in libraries if library is not None)

    def _without_host_errors(self, output: str, dependencies: tuple[Path, ...]) -> CachedBuild:
        removal = without_host_errors(PreprocessedText.parse(output), self._check)
        if removal.note is None:
            return self.build(self.request.source)
        text = self.directory / "device.hip"
        text.write_text(removal.text.output, encoding="latin-1")
        try:
            built = self.build(text, *_PREPROCESSED)
        except CompileError as error:
            raise self._with_places_in_the_source(error, removal.declarations) from error
        self._require_unseen(built, removal.changed_classes)
        return replace(built, dependencies=dependencies, notes=(*built.notes, removal.note))

    def _require_unseen(self, built: CachedBuild, classes: Iterable[str]) -> None:
        """Check that no kernel uses a class from which a member was removed: it would have another layout."""
        names = [kernel.name for kernel in read_code_object(built.content).kernels]
        for used in sorted(classes):
            kernel = next((name for name in names if re.search(rf"\b{used}\b", name)), None)
            if kernel is not None:
                raise CompileError(
                    f"{kernel} uses {used}, which has a member of a type that is not declared",
                    log="",
                    where=str(self.request.source),
                )

    def _check(self, text: PreprocessedText) -> str:
        """Return the diagnostics of a text, with lines of the text itself; its system headers are precompiled once."""
        leading, rest = text.split()
        precompiled = self.directory / "leading.pch"
        if not precompiled.is_file():
            self._parse(leading, *front_end("-emit-pch", "-o", str(precompiled)))
        if not precompiled.is_file():  # then the headers themselves do not compile
            return self._parse(text.output)
        return self._parse(rest, *front_end("-include-pch", str(precompiled)))

    def _parse(self, text: str, *flags: str) -> str:
        """Return the diagnostics of preprocessed text."""
        path = self.directory / f"{hashlib.sha256(text.encode('latin-1')).hexdigest()[:12]}.hip"
        path.write_text(text, encoding="latin-1")
        command = (*(word for word in self.command if word != "-c"), *_PREPROCESSED, *_LINES_OF_THE_TEXT, *flags, str(path))
        return call_compiler(command, self.request.source, self.sandbox, self.directory, self.readable)[1]

    def _with_places_in_the_source(self, error: CompileError, removed: Sequence[HostError]) -> CompileError:
        """Return the errors that remain without host code, as the compiler reports them for the source as it is written.

        Errors of declarations that were removed come first: device code may have used one of them.
        """
        command = (*(word for word in self.command if word != "-c"), "-fsyntax-only", "-ferror-limit=0", str(self.request.source))
        _, log = call_compiler(command, self.request.source, self.sandbox, self.directory, self.readable)
        remaining = {place.rpartition(":")[0] for place, _ in places_of_errors(error.log)} | {found.place for found in removed}
        lines = [
            f"{place}: error: {message}" for place, message in places_of_errors(log) if place.rpartition(":")[0] in remaining
        ]
        return compile_error(self.request.source, "\n".join(lines)) if lines else error

    def _explained(self, error: CompileError) -> CompileError:
        """Return an error in device code whose hint names the headers that are treated as empty."""
        if not self.stand_ins:
            return error
        names = ", ".join(stand_in.name for stand_in in self.stand_ins)
        hint = (
            f"{error.hint or ''} Treated as empty because they are not installed: {names}; if kernels need one of them, add its "
        )
        return CompileError(error.what, log=error.log, where=error.where, hint=f"{hint}directory to include_dirs.".strip())

    def _notes(self) -> tuple[str, ...]:
        if not self.stand_ins:
            return ()
        listed = ", ".join(f"{stand_in.name} ({stand_in.library})" for stand_in in self.stand_ins)
        return (f"headers that are not installed are treated as empty, which only affects host code: {listed}",)

    def _absent(self) -> tuple[Path, ...]:
        """Return the files that the compiler would read instead of the stand-ins if they existed."""
        if not self.stand_ins:
            return ()
        directories = [*self._search_directories(), self.request.source.parent.absolute()]
        return tuple(directory / stand_in.name for stand_in in self.stand_ins for directory in dict.fromkeys(directories))

    def _search_directories(self) -> tuple[Path, ...]:
        """Return the directories in which the compiler looks for headers."""
        command = (*(word for word in self.base if word != "-c"), "-E", "-v", os.devnull)
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        listed = re.search(r"search starts here:\n(.*?)End of search list", run.stderr, re.DOTALL)
        return tuple(Path(line.strip()) for line in listed[1].splitlines() if line.startswith(" ")) if listed else ()


def _may_be_host_code(request: CompileRequest, log: str) -> bool:
    """Return whether the errors of a source may be in host code, without running the compiler again."""
    header = missing_header(log)
    if header is not None:
        return host_library(header.name, request.host_headers) is not None
    places = [re.match(r"(.*):(\d+):(\d+)", place) for place, _ in places_of_errors(log)]
    try:
        structure = CppStructure.of(request.source.read_text(encoding="latin-1"))
    except UnbalancedBrackets:
        return bool(places)
    lines = structure.text.split("\n")
    for place in filter(None, places):
        if place[1] != str(request.source) or int(place[2]) > len(lines):
            return True
        offset = sum(len(line) + 1 for line in lines[: int(place[2]) - 1]) + int(place[3]) - 1
        index = structure.token_at(offset)
        if index is None or not any(declaration.is_device for declaration in structure.enclosing(index)):
            return True
    return False
