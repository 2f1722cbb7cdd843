"""Precompiled system headers, for kernels take a tenth of a second to compile and HIP's headers more than a second.

A precompiled header serves all sources that begin with the same system headers up to HIP's, if their macros do not occur in these
headers and their directories of headers have none of the same names. The code object is the same as without it, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import locked, write_bytes, write_text
from rocm_perf_lab.toolchain.compiler_run import dependency_options, front_end, read_prerequisites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rocm_perf_lab.toolchain.compile_request import CompileRequest
    from rocm_perf_lab.toolchain.compilers import Compiler

_RUNTIME = "<hip/hip_runtime.h>"
_FORMAT = "2"
_KEPT = 24
"""Precompiled headers in the cache, of about 17 MB each."""
_HARMLESS = re.compile(r"-(?:O|D|W|g|std=|f(?!module|plugin|pass-plugin)|m(?!llvm))")
_OF_ONE_SOURCE = ("-c", "-D", "-I", "-ffile-prefix-map=", "-fdebug-compilation-dir=")
_BACKEND_OPTION = "-mllvm"
_RESERVED = re.compile(r"_|HIP|NDEBUG\b")
"""Macros that are meant for headers, which are precompiled with them."""
_HEADER = r"""#\s*include\s*(<[^>\n]*>|"[^"\n]*")"""
_PREAMBLE_LINE = re.compile(
    rf"\s*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|{_HEADER}[^\n]*|#\s*pragma\s+once[^\n]*)?\r?(?:\n|\Z)".encode()
)
_INCLUDE = re.compile(rf"^\s*{_HEADER}".encode(), re.MULTILINE)
_NAMED_HEADER = re.compile(
    rb"""^\s*#\s*(?:include|include_next|import)\b\s*([<"][^>"\n]*|[^\n]*)|__has_include(?:_next)?\s*\(\s*([<"][^>"\n]*)""",
    re.MULTILINE,
)
_COMPUTED = "*"
"""Name of a header that is a macro."""
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IDENTIFIER = re.compile(rb"[A-Za-z_]\w*")


def leading_includes(content: bytes) -> tuple[str, ...]:
    """Return the headers that are included before any other code, with their brackets or quotes."""
    end = 0
    while end < len(content) and (match := _PREAMBLE_LINE.match(content, end)) and match.end() > end:
        end = match.end()
    return tuple(name.decode(errors="replace") for name in _INCLUDE.findall(content[:end]))


def precompiled_header(request: CompileRequest, command: Sequence[str], compiler: Compiler, cache_dir: Path) -> Path | None:
    """Return the precompiled header of the system headers with which a source begins; it is created if it does not exist.

    Args:
        request: The source, and its macros and flags.
        command: Compiler and flags, with those of the request.
        compiler: The compiler.
        cache_dir: Directory of the cache.

    Returns:
        The file, or None if the source does not begin with HIP's header, or if a macro, a flag or a directory of the request may
        change what headers mean.
    """
    headers = tuple(takewhile(lambda name: name.startswith("<"), leading_includes(request.source.read_bytes())))
    flags = list(_without_backend_options(request.flags))
    headers = headers[: headers.index(_RUNTIME) + 1] if _RUNTIME in headers else ()
    if not headers or request.language != "hip" or not all(map(_HARMLESS.match, flags)):
        return None
    macros = [
        *(f"-D{name}={value}" for name, value in request.defines.items()),
        *(flag for flag in flags if flag.startswith("-D")),
    ]
    reserved = sorted(macro for macro in macros if _RESERVED.match(macro, 2))
    common = [word for word in _without_backend_options(command) if not word.startswith(_OF_ONE_SOURCE)]
    words, text = [*common, *reserved], includes(headers)
    key = precompiled_key(compiler, [_FORMAT, *words], text)
    finished = cache_dir / "precompiled" / f"{key}.pch"
    with suppress(OSError):  # an unwritable or full cache must not prevent the compilation
        if not (finished.is_file() and _names(finished).is_file()) and not _create(finished, words, text):
            return None
        with suppress(PermissionError):
            os.utime(finished)  # the least recently used ones are removed
        own = {re.split(r"\W", macro[2:])[0] for macro in macros if macro not in reserved}
        known = _names(finished).read_bytes() if own else b""
        if any(f"\n{name}\n".encode() in known for name in own) or _have_same_names(request.include_dirs, finished):
            return None
        return finished
    return None


def _have_same_names(directories: Sequence[Path], finished: Path) -> bool:
    """Return whether directories, which the compiler searches first, have a header that a precompiled header includes."""
    if not directories:
        return False
    headers = _headers(finished).read_text(errors="surrogateescape").splitlines()
    return _COMPUTED in headers or any((directory / name).exists() for directory in directories for name in headers)


def _names(finished: Path) -> Path:
    """Return the file with the identifiers in a precompiled header."""
    return finished.with_suffix(".names")


def _headers(finished: Path) -> Path:
    """Return the file with the names by which a precompiled header includes others, also those that do not exist."""
    return finished.with_suffix(".headers")


def _without_backend_options(words: Iterable[str]) -> Iterator[str]:
    """Yield the words without options of the code generator."""
    rest = iter(words)
    for word in rest:
        if word == _BACKEND_OPTION:
            next(rest, None)
        else:
            yield word


def precompile(
    finished: Path, text: str, command: Sequence[str], run: Callable[[Sequence[str], Path], bool], *, options: Sequence[str] = ()
) -> bool:
    """Precompile headers to a file; return False if they do not compile.

    Args:
        finished: The precompiled header. The text is stored next to it, with the suffix `.h`.
        text: Source that includes the headers.
        command: Compiler and flags.
        run: Runs a command that may write to a directory, and returns whether it succeeded.
        options: Further options of the front end.
    """
    header = header_text(finished)
    if not header.is_file():  # clang compares its time stamp with the one in the precompiled header
        write_text(header, text)
    with tempfile.TemporaryDirectory(dir=finished.parent) as directory:
        temporary = Path(directory) / "new.pch"
        words = front_end("-emit-pch", "-o", str(temporary), *options)
        if not run((*command, "-fsyntax-only", *words, str(header)), Path(directory)) or not temporary.is_file():
            return False
        temporary.replace(finished)
    return True


def header_text(precompiled: Path) -> Path:
    """Return the file with the text of a precompiled header, which clang lists among the files that a compilation read."""
    return precompiled.with_suffix(".h")


def precompiled_key(compiler: Compiler, words: Iterable[str], text: str) -> str:
    """Return a file name for a precompiled header of a text."""
    return hashlib.sha256("\0".join([compiler.fingerprint, *words, text]).encode()).hexdigest()[:32]


def includes(headers: Iterable[str]) -> str:
    """Return a text that includes headers, whose names have brackets or quotes."""
    return "".join(f"#include {name}\n" for name in headers)


def _create(finished: Path, command: Sequence[str], text: str) -> bool:
    """Precompile headers, and write the identifiers and the names of headers in them; return False if they do not compile."""
    finished.parent.mkdir(parents=True, exist_ok=True)
    with locked(finished.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=finished.parent) as directory:
        if finished.is_file() and _names(finished).is_file():  # another process created them
            return True
        listed = Path(directory) / "read.d"
        options = (*dependency_options(listed), "-sys-header-deps")
        if not precompile(finished, text, command, _succeeds, options=options):
            return False
        contents = [_COMMENT.sub(b" ", Path(path).read_bytes()) for path in read_prerequisites(listed)]
        headers = {_header_name(match[1] or match[2]) for content in contents for match in _NAMED_HEADER.finditer(content)}
        write_bytes(_headers(finished), b"\n".join(sorted(headers)) + b"\n")
        found = {name for content in contents for name in _IDENTIFIER.findall(content)}
        write_bytes(_names(finished), b"\n" + b"\n".join(sorted(found)) + b"\n")
    _remove_oldest(finished.parent)
    return True


def _header_name(named: bytes) -> bytes:
    """Return the name of a header that begins with its bracket or quote; `*` for a macro."""
    return named[1:].strip() if named[:1] in (b"<", b'"') else _COMPUTED.encode()


def _succeeds(command: Sequence[str], _: Path) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _remove_oldest(directory: Path) -> None:
    by_age = sorted(directory.glob("*.pch"), key=lambda path: path.stat().st_mtime)
    for old in by_age[:-_KEPT]:
        for file in (old, _names(old), _headers(old)):
            file.unlink(missing_ok=True)
