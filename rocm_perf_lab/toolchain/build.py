"""Compile a HIP source to a code object, with a cache: `compile_source(CompileRequest(...)) -> BuildResult`.

The cache key is the content of the source and of every header it includes, the flags and the compiler. It does not depend on
the directory of the source; line tables name files relative to it. Line tables are on by default: they do not change the
instructions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir as default_cache_dir
from rocm_perf_lab.toolchain.build_cache import BuildCache, CachedBuild, CachedError, ErrorCache
from rocm_perf_lab.toolchain.compilers import Compiler, find_compiler
from rocm_perf_lab.toolchain.elf import read_code_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.toolchain.code_object import CodeObject, LaunchContract
    from rocm_perf_lab.toolchain.sandbox import Sandbox

_KEY_FORMAT = 1
_LAB = Path(__file__).parent
_AT_A_PLACE = r"^(\S[^\n]*?:\d+:\d+): (?:fatal )?error: ([^\n]+)$"
"""Errors in the source. Errors without a location are errors of the machine: out of memory or disk space, a crash."""


class CompileError(LabError):
    """A source that the compiler rejected; `log` has the whole compiler output.

    `dependencies` are the files that the compiler had read, or None if the error may have another cause than these files.
    """

    dependencies: tuple[Path, ...] | None = None

    def __init__(self, what: str, *, log: str, where: str | None = None, hint: str | None = None) -> None:
        self.log = log
        super().__init__(what, where=where, hint=hint)


@dataclass(frozen=True)
class CompileRequest:
    """Input of one compilation.

    Args:
        source: HIP source file.
        architecture: Processor name: gfx942, gfx90a, gfx1030.
        defines: Preprocessor macros; an empty value defines the bare name.
        flags: Additional compiler flags, after those of rocm-perf-lab.
        include_dirs: Directories that are searched for headers after the directory of the source.
        optimisation: `-O0` to `-O3`, `-Os`.
        line_tables: Record which source line each instruction comes from.
    """

    source: Path
    architecture: str = "gfx942"
    language: Literal["hip"] = "hip"
    defines: Mapping[str, str | int | float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    include_dirs: tuple[Path, ...] = ()
    optimisation: str = "-O3"
    line_tables: bool = True


@dataclass(frozen=True)
class BuildResult:
    """A compiled source with its command, compiler and log.

    `key` is the key of the build in the cache; paths in `log` (warnings) are relative to the source's directory.
    """

    code_object: CodeObject
    command: tuple[str, ...]
    compiler_name: str
    compiler_version: str
    log: str
    cached: bool
    key: str
    contract: LaunchContract | None = None
    dependencies: tuple[Path, ...] = ()
    """Files that the compiler read; those found from the source's directory are relative to it."""

    @classmethod
    def of(cls, build: CachedBuild, compiler: Compiler, key: str, *, cached: bool) -> BuildResult:
        """Return the result of a build that :func:`built_once` returned for `key`."""
        return cls(
            code_object=read_code_object(build.content),
            command=build.command,
            compiler_name=compiler.name,
            compiler_version=compiler.version,
            log=build.log,
            cached=cached,
            key=key,
            dependencies=build.dependencies,
        )


def compile_source(
    request: CompileRequest,
    *,
    compiler: Compiler | None = None,
    cache_dir: Path | None = None,
    sandbox: Sandbox | None = None,
    fresh: bool = False,
) -> BuildResult:
    """Compile a source, or return the cached result if none of its inputs has changed.

    Args:
        request: Source, architecture and flags.
        compiler: Compiler to use; the first usable one by default.
        cache_dir: Cache directory; the user's by default.
        sandbox: Sandbox for untrusted sources.
        fresh: Whether to compile even if there is a cached result.

    Raises:
        CompileError: The source is missing or does not compile.
        CompilerNotFound: No compiler is usable.
    """
    require_source(request.source)
    compiler = compiler or find_compiler()
    cache_dir = cache_dir or default_cache_dir()
    key = _cache_key(request, compiler)
    build, cached = built_once(
        lambda: _run(request, compiler, cache_dir, sandbox), key, request.source.parent, cache_dir, fresh=fresh
    )
    return BuildResult.of(build, compiler, key, cached=cached)


def require_source(source: Path) -> None:
    """Check that the source exists.

    Raises:
        CompileError: The file does not exist.
    """
    if not source.is_file():
        raise CompileError("the source file does not exist", log="", where=str(source), hint="Check the path of the kernel.")


def built_once(
    compile_now: Callable[[], CachedBuild], key: str, source_dir: Path, cache_dir: Path, *, fresh: bool = False
) -> tuple[CachedBuild, bool]:
    """Return the build of a key and whether it was cached.

    Args:
        compile_now: Function that runs the compiler.
        key: Hash of all inputs that are known before the compiler runs.
        source_dir: Directory of the source; paths of files that the compiler read are relative to it.
        cache_dir: Directory with cached builds and errors.
        fresh: Whether to compile even if there is a cached result.

    Raises:
        CompileError: The compiler rejects the source, or rejected the same input before.
    """
    builds, errors = BuildCache(cache_dir / "builds"), ErrorCache(cache_dir / "refusals")
    earlier = builds.load(key, source_dir) if not fresh else None
    if earlier is not None:
        return earlier, True
    try:
        known = errors.load(key, source_dir) if not fresh else None
        if known is not None:
            raise CompileError(known.what, log=known.log, where=known.where, hint=known.hint)
        build = compile_now()
        builds.store(key, build, source_dir)
    except CompileError as error:
        _store_error(errors, key, error, source_dir)
        raise
    except OSError as error:
        raise CompileError(
            f"cannot compile: {error.strerror}",
            log="",
            where=error.filename,
            hint="The compiler must be executable and the cache writable (ROCM_PERF_LAB_CACHE sets another directory).",
        ) from error
    return build, False


def _store_error(errors: ErrorCache, key: str, error: CompileError, source_dir: Path) -> None:
    """Cache an error, unless it may have another cause than the files that the compiler read."""
    if error.dependencies is None:
        return
    cached = CachedError(what=error.what, log=error.log, where=error.where, hint=error.hint)
    with suppress(OSError):  # an unwritable cache must not hide the error in the source
        errors.store(key, cached, error.dependencies, source_dir)


def _cache_key(request: CompileRequest, compiler: Compiler) -> str:
    """Return the hash of all inputs that are known before the compiler runs; headers are checked on load."""
    parts = [
        _KEY_FORMAT,
        compiler.fingerprint,
        compiler.flags,
        request.language,
        request.source.name,
        hashlib.sha256(request.source.read_bytes()).hexdigest(),
        request_flags(request),
        str(Path.cwd()) if request.flags else "",  # they may name relative directories
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def request_flags(request: CompileRequest) -> list[str]:
    """Return the compiler flags of a request."""
    return [
        f"--offload-arch={request.architecture}",
        request.optimisation,
        *(["-gline-tables-only"] if request.line_tables else []),
        *(f"-D{name}={value}" if value != "" else f"-D{name}" for name, value in sorted(request.defines.items())),
        *(f"-I{directory.absolute()}" for directory in request.include_dirs),
        *request.flags,
    ]


def _run(request: CompileRequest, compiler: Compiler, cache_dir: Path, sandbox: Sandbox | None) -> CachedBuild:
    command = (
        *compiler.command,
        *("-x", request.language, "--cuda-device-only", "--no-gpu-bundle-output", "-c"),
        *compiler.hip_flags(cache_dir),
        *("-fuse-cuid=none", "-fhip-kernel-arg-name"),
        *reproducible_paths(request.source),
        *request_flags(request),
    )
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
        output = Path(directory) / "kernel.hsaco"
        readable = (*request.include_dirs, cache_dir)
        dependencies, log = run_compiler(command, request.source, output, sandbox=sandbox, readable=readable)
        return CachedBuild(
            content=read_code_object(output.read_bytes(), bundle_architecture=request.architecture).data,
            dependencies=dependencies,
            command=(*command, str(request.source)),
            log=log,
        )


def run_compiler(
    command: tuple[str, ...], source: Path, output: Path, *, sandbox: Sandbox | None = None, readable: tuple[Path, ...] = ()
) -> tuple[tuple[Path, ...], str]:
    """Run clang on one source file.

    Args:
        command: Compiler and flags, without source and output.
        source: The file to compile.
        output: The file to write, in a directory for temporary files.
        sandbox: Runs the compiler with limits.
        readable: Directories that a sandboxed compiler may read, in addition to those of source and output.

    Returns:
        The files that the compiler read and its diagnostics, with paths relative to the directory of the source.

    Raises:
        CompileError: The source does not compile.
    """
    dependency_file = output.with_name("dependencies.d")
    arguments = (str(source), "-o", str(output), *_dependency_flags(dependency_file))
    returncode, log = _call((*command, *arguments), source, sandbox, output.parent, readable)
    if returncode != 0 or not output.is_file():
        refused = _compile_error(source, log)
        if sandbox is None and returncode > 0 and re.search(_AT_A_PLACE, log, re.MULTILINE) and dependency_file.is_file():
            refused.dependencies = _read_dependencies(dependency_file, source.parent)
        raise refused
    return _read_dependencies(dependency_file, source.parent), _relative_log(log, source.parent)


def _call(
    command: tuple[str, ...], source: Path, sandbox: Sandbox | None, directory: Path, readable: tuple[Path, ...]
) -> tuple[int, str]:
    """Return the exit code and the output of the compiler."""
    if sandbox is None:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stderr or run.stdout
    ended = sandbox.run(command, directory, readable=(source.parent, *readable, _LAB))
    if ended.reason is not None:
        raise CompileError(
            f"the compiler was stopped: it {ended.reason}",
            log=ended.stderr,
            where=str(source),
            hint="Simplify the source, or raise the limits in optimizer.isolation.",
        )
    return ended.returncode, ended.stderr or ended.stdout


def reproducible_paths(source: Path) -> tuple[str, ...]:
    """Return flags that make line tables name files relative to the source, so that its directory does not matter."""
    return (
        f"-ffile-prefix-map={source.parent}{os.sep}=",
        f"-ffile-prefix-map={source.parent.absolute()}{os.sep}=",
        "-fdebug-compilation-dir=.",
    )


def _dependency_flags(path: Path) -> tuple[str, ...]:
    """Return options of the compiler front end: the driver drops -MD for device-only compilations."""
    arguments = ("-dependency-file", str(path), "-MT", "kernel")
    return tuple(word for argument in arguments for word in ("-Xclang", argument))


def _read_dependencies(path: Path, source_dir: Path) -> tuple[Path, ...]:
    """Return the prerequisites of the rule in a dependency file, relative to `source_dir` if they are below it."""
    prerequisites = path.read_text().partition(":")[2].replace("\\\n", " ")
    words = re.findall(r"(?:\\ |\\#|\$\$|\S)+", prerequisites)
    paths = (Path(re.sub(r"\\([ #])", r"\1", word).replace("$$", "$")) for word in words)
    return tuple(p.relative_to(source_dir) if p.is_relative_to(source_dir) else p.absolute() for p in paths)


def _relative_log(log: str, source_dir: Path) -> str:
    """Return diagnostics with paths relative to the directory of the source."""
    if source_dir == Path():
        return log
    return re.sub(rf"^((?:In file included from )?){re.escape(f'{source_dir}{os.sep}')}", r"\1", log, flags=re.MULTILINE)


def _compile_error(source: Path, log: str) -> CompileError:
    errors = re.findall(_AT_A_PLACE, log, re.MULTILINE)
    if not errors:
        first = next((line for line in log.splitlines() if "error:" in line), "the compiler failed without a message")
        return CompileError(first, log=log, where=str(source), hint="See the full log of the compiler.")
    what = "\n".join(f"{place}: {message}" for place, message in errors[:5])
    missing_header = re.search(r"'([^']+)' file not found", log)
    hint = (
        f"Add the directory of {missing_header[1]} to include_dirs."
        if missing_header
        else f"Correct {errors[0][0]} and compile again."
    )
    return CompileError(what, log=log, where=str(source), hint=hint)
