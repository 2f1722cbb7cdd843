"""Compile a HIP source to a code object, with a cache: `compile_source(CompileRequest(...)) -> BuildResult`.

The cache key is the content of the source and of every header it includes, the flags and the compiler. It does not depend on
the directory of the source; line tables name files relative to it. Line tables are on by default: they do not change the
instructions.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.resources import cache_dir as default_cache_dir
from rocm_perf_lab.toolchain.build_cache import BuildCache, CachedBuild, CachedError, ErrorCache
from rocm_perf_lab.toolchain.compile_request import CompileRequest, request_flags
from rocm_perf_lab.toolchain.compiler_run import CompileError, redacted_error, reproducible_paths, run_compiler
from rocm_perf_lab.toolchain.compilers import Compiler, find_compiler
from rocm_perf_lab.toolchain.device_code import compile_device_code
from rocm_perf_lab.toolchain.diagnostics import redacted
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.missing_headers import rules_identity
from rocm_perf_lab.toolchain.promise_checks import checks_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.toolchain.code_object import CodeObject, LaunchContract
    from rocm_perf_lab.toolchain.sandbox import Sandbox

__all__ = [
    "BuildResult",
    "CompileError",
    "CompileRequest",
    "built_once",
    "compile_source",
    "reproducible_paths",
    "request_flags",
    "require_source",
    "run_compiler",
]

_KEY_FORMAT = 3


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
    notes: tuple[str, ...] = ()
    """Parts that the build omitted: headers that are treated as empty, host code that does not compile."""

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
            notes=build.notes,
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
        sandbox: Sandbox for untrusted sources; the compiler's output about other files is omitted.
        fresh: Whether to compile even if there is a cached result.

    Raises:
        CompileError: The source is missing or does not compile.
        CompilerNotFound: No compiler is usable.
    """
    require_source(request.source)
    compiler = compiler or find_compiler()
    cache_dir = cache_dir or default_cache_dir()
    key = _cache_key(request, compiler)
    try:
        build, cached = built_once(
            lambda: compile_device_code(request, compiler, cache_dir, sandbox), key, request.source.parent, cache_dir, fresh=fresh
        )
    except CompileError as error:
        if sandbox is None:
            raise
        raise redacted_error(error, request.source) from None
    if sandbox is not None:
        build = replace(build, log=redacted(build.log, request.source))
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
        request.host_headers,
        rules_identity(),
        str(Path.cwd()) if request.flags else "",  # they may name relative directories
        *(["promise checks", checks_identity()] if request.promise_checks else []),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
