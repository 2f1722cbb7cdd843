"""`rocm-perf hipcc`: programs, shared libraries and object files from HIP and C sources, for rocm-perf-lab's HIP runtime."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from rocm_perf_lab.arch.registry import compilable_targets
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.jobs.run.dependency_file import DependencyOptions, rule
from rocm_perf_lab.jobs.run.launch import compile_sources
from rocm_perf_lab.target.catalog import DEFAULT_TARGET, load_target
from rocm_perf_lab.toolchain.build_arguments import BuildArguments
from rocm_perf_lab.toolchain.bundles import unpack_code_objects
from rocm_perf_lab.toolchain.hip_program import SOURCE_SUFFIXES, HipProgram, build_device_code, build_objects
from rocm_perf_lab.toolchain.hip_translations import text_bundle, translate
from rocm_perf_lab.toolchain.linked_files import is_linked_file
from rocm_perf_lab.toolchain.program_options import is_c
from rocm_perf_lab.toolchain.target_id import parse_target_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.toolchain.hip_program import BuiltObject

_OUTPUT, _OBJECTS = "-o", "-c"
_ARCHITECTURES = ("--offload-arch=", "--amdgpu-target=")
_NATIVE = "native"
_OPENMP = "-openmp"
_TEXTS = ("-E", "-S", "-emit-llvm")
_RULES = ("-M", "-MM")
_CHECK = "-fsyntax-only"
_DEVICE_ONLY = ("--genco", "--cuda-device-only", "--offload-device-only")
_HOST_ONLY = ("--cuda-host-only", "--offload-host-only")
_NO_BUNDLE = "--no-gpu-bundle-output"
_WITHOUT_EFFECT = ("-pipe", "--gpu-bundle-output")
_QUERIES, _PRINTS = ("--version", "-v", "-dumpversion", "-dumpmachine"), ("-print-", "--print-")
_COMMANDS = "-###"
_STANDARD_OUTPUT = Path("-")
_DEFAULT_OUTPUT = "a.out"
_WHERE = "rocm-perf hipcc"


@dataclass(frozen=True)
class CompilationRequest:
    """Sources to compile, and objects and archives to link."""

    sources: tuple[Path, ...]
    output: Path | None
    """None: `a.out`, or the name of each source with another suffix."""
    architectures: tuple[str, ...]
    """Empty: architecture of the default target."""
    options: str
    """Other compiler and linker options, quoted for a shell, including names of objects and archives."""
    kind: frozenset[str] = frozenset()
    """Options for the kind of output: `-c`, `-S`, `-E`, `-M`, `-emit-llvm`, `-fsyntax-only`; empty: a program."""
    part: Literal["host", "device"] | None = None
    """Part to compile; None: host and device code."""
    is_bundled: bool = True
    """Whether device code is written as an offload bundle, without host code."""
    dependencies: DependencyOptions = field(default_factory=DependencyOptions)

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Self:
        """Sort the arguments of hipcc.

        Raises:
            LabError: No source or object, no name after -o, one name for several files, or no known architecture.
        """
        dependencies, words = DependencyOptions.take(_without_response_files(arguments))
        rest = list(words)
        sources, options, architectures = [], [], []
        output = None
        while rest:
            word = rest.pop(0)
            if word.startswith(_OUTPUT) and word != _OPENMP:
                if word == _OUTPUT and not rest:
                    raise LabError("-o has no file name", where=_WHERE)
                output = Path(word.removeprefix(_OUTPUT) or rest.pop(0))
            elif word.startswith(_ARCHITECTURES):
                architectures += word.partition("=")[2].split(",")
            elif word.endswith(SOURCE_SUFFIXES) and not word.startswith("-"):
                sources.append(Path(word))
            elif word not in (_OBJECTS, _CHECK, *_TEXTS, *_RULES, *_DEVICE_ONLY, *_HOST_ONLY, _NO_BUNDLE, *_WITHOUT_EFFECT):
                options.append(word)
        kind = frozenset(word for word in words if word in (_OBJECTS, _CHECK, *_TEXTS, *_RULES))
        part = _part(words)
        is_linked = not kind and part != "device"
        if not sources and not (is_linked and any(map(is_linked_file, options))):
            raise LabError("no source to compile", where=_WHERE, hint="rocm-perf hipcc main.hip -o app")
        if len(sources) > 1 and not is_linked and (output is not None or part == "device"):
            name = output or Path(_DEFAULT_OUTPUT)
            raise LabError(f"{name} cannot be the output of {len(sources)} sources", where=_WHERE, hint="compile them one by one")
        return cls(
            tuple(sources),
            output,
            _known(architectures),
            shlex.join(options),
            kind,
            part,
            _NO_BUNDLE not in words,
            dependencies,
        )

    @property
    def is_linked(self) -> bool:
        """Return whether the output is a program or a shared library."""
        return not self.kind and self.part != "device"


def _part(words: Sequence[str]) -> Literal["host", "device"] | None:
    if any(word in _DEVICE_ONLY for word in words):
        return "device"
    return "host" if any(word in _HOST_ONLY for word in words) else None


def _known(architectures: Sequence[str]) -> tuple[str, ...]:
    """Return the architectures that the compiler supports; `native` becomes the default one.

    Raises:
        LabError: The compiler supports none of them.
    """
    default = load_target(DEFAULT_TARGET).architecture
    wanted = dict.fromkeys(default if name == _NATIVE else name for name in architectures)
    found = tuple(name for name in wanted if parse_target_id(name).processor in compilable_targets())
    if wanted and not found:
        known = ", ".join(sorted(compilable_targets()))
        raise LabError(f"unknown architecture {', '.join(wanted)}", where="--offload-arch", hint=f"use one of {known}")
    return found


def run_compilation(request: CompilationRequest) -> None:
    """Write the program, the shared library, the object files or the translations; messages go to standard error.

    Raises:
        LabError: The sources do not compile, or a file cannot be written.
    """
    target = load_target(DEFAULT_TARGET)
    architectures = request.architectures or (target.architecture,)
    if request.is_linked:
        built = compile_sources(request.sources, target, request.options, "lab", None, where=_WHERE, architectures=architectures)
        output = request.output or Path(_DEFAULT_OUTPUT)
        _report(built.warnings)
        _write(output, built.path.read_bytes(), mode=0o755)
        request.dependencies.write(output, built.dependencies)
        return
    arguments = BuildArguments.parse(request.options, _WHERE)
    _report("".join(f"rocm-perf: {note}\n" for note in arguments.notes))
    program = HipProgram(request.sources, architectures, arguments)
    if request.kind & {_CHECK, *_TEXTS, *_RULES}:
        program.check()
        for source in request.sources:
            _translate(request, program, source)
    elif request.part == "device":
        _write_device_code(request, program)
    else:
        _compile_objects(request, program)


def is_query(arguments: Sequence[str]) -> bool:
    """Return whether arguments of hipcc only query the compiler: `--version`, `-dumpmachine`, `-print-...`, `-###`."""
    if _COMMANDS in arguments:
        return True
    asks = any(word in _QUERIES or word.startswith(_PRINTS) for word in arguments)
    return asks and not any(word.endswith(SOURCE_SUFFIXES) or is_linked_file(word) for word in arguments)


def _compile_objects(request: CompilationRequest, program: HipProgram) -> None:
    objects = build_objects(program, cache_dir(), with_device_code=request.part is None)
    for source, built in zip(request.sources, objects, strict=True):
        _finish(request, Path(f"{source.stem}.o"), built)


def _write_device_code(request: CompilationRequest, program: HipProgram) -> None:
    built = build_device_code(program, cache_dir())
    if not request.is_bundled:
        built = replace(built, content=unpack_code_objects(built.content, parse_target_id(program.architectures[0]).processor)[0])
    _finish(request, Path(f"{request.sources[0].stem}.o" if request.kind else _DEFAULT_OUTPUT), built)


def _translate(request: CompilationRequest, program: HipProgram, source: Path) -> None:
    """Write the translation of a source, several parts as a bundle. Without -o, preprocessed text goes to standard output."""
    is_checked = _CHECK in request.kind
    is_preprocessed = not request.kind & {_CHECK, *_TEXTS} or "-E" in request.kind
    options = ("-E",) if is_preprocessed else ("-S",) if is_checked else tuple(sorted(request.kind))
    parts: tuple[str | None, ...] = () if request.part == "device" else (None,)
    if request.part != "host" and not is_c(source) and not request.kind & {*_RULES}:
        parts = (*program.architectures, *parts)
    built = {part: translate(program, source, part, options, cache_dir()) for part in parts}
    if is_checked:
        _report("".join(each.warnings for each in built.values()))
        return
    if len(built) > 1 and not {"-E", "-S"} & set(options):
        raise LabError("LLVM bitcode of several parts cannot be one file", where=_WHERE, hint="add --offload-device-only")
    first = next(iter(built.values()))
    if request.kind & {*_RULES}:
        content = rule(_quoted_name(request, source), first.dependencies).encode()
    else:
        content = text_bundle({part: each.content for part, each in built.items()}, b"//" if is_preprocessed else b"#")
    output = replace(first, content=content)
    if request.output == _STANDARD_OUTPUT or (is_preprocessed and request.output is None):
        _report(output.warnings)
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    suffix = ".s" if "-S" in request.kind and "-emit-llvm" not in request.kind else ".ll" if "-S" in request.kind else ".bc"
    _finish(request, Path(f"{source.stem}{suffix}"), output)


def _quoted_name(request: CompilationRequest, source: Path) -> str:
    return " ".join(request.dependencies.targets) or f"{source.stem}.o"


def _finish(request: CompilationRequest, default: Path, built: BuiltObject) -> None:
    output = request.output or default
    _report(built.warnings)
    _write(output, built.content)
    request.dependencies.write(output, built.dependencies)


def _without_response_files(arguments: Sequence[str]) -> list[str]:
    """Replace arguments of the form @FILE, which build systems use for long command lines, by the contents of the files.

    Raises:
        LabError: A file cannot be read.
    """
    found = []
    for word in arguments:
        if not word.startswith("@"):
            found.append(word)
            continue
        try:
            found += shlex.split(Path(word[1:]).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LabError(f"the arguments in {word[1:]} cannot be read: {error}", where=_WHERE) from error
    return found


def _report(messages: str) -> None:
    print(messages, file=sys.stderr, end="", flush=True)


def _write(output: Path, content: bytes, mode: int | None = None) -> None:
    try:
        if output.exists() and not output.is_file():
            output.write_bytes(content)  # Devices such as /dev/null must not be replaced by a file.
            return
        write_bytes(output, content)
        if mode is not None:
            output.chmod(mode)
    except OSError as error:
        raise LabError(f"the output cannot be written: {error.strerror}", where=str(output)) from error
