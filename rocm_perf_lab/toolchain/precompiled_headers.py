"""Precompiled system headers, for kernels take a tenth of a second to compile and HIP's headers more than a second.

A precompiled header serves all sources that begin with the same system headers up to HIP's, if their macros do not occur in these
headers.
The code object is the same as without it, byte for byte.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import locked, write_bytes, write_text
from rocm_perf_lab.toolchain.compiler_run import dependency_options, read_prerequisites

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocm_perf_lab.toolchain.compile_request import CompileRequest
    from rocm_perf_lab.toolchain.compilers import Compiler

_RUNTIME = "<hip/hip_runtime.h>"
_KEPT = 24
"""Precompiled headers in the cache, of about 17 MB each."""
_HARMLESS = re.compile(r"-(?:O|D|W|g|std=|f(?!module|plugin|pass-plugin)|m(?!llvm))")
_OF_ONE_SOURCE = ("-c", "-D", "-ffile-prefix-map=", "-fdebug-compilation-dir=")
_BACKEND_OPTION = "-mllvm"
_RESERVED = re.compile(r"_|HIP|NDEBUG\b")
"""Macros that are meant for headers, which are precompiled with them."""
_HEADER = r"""#\s*include\s*(<[^>\n]*>|"[^"\n]*")"""
_PREAMBLE_LINE = re.compile(
    rf"\s*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|{_HEADER}[^\n]*|#\s*pragma\s+once[^\n]*)?\r?(?:\n|\Z)".encode()
)
_INCLUDE = re.compile(rf"^\s*{_HEADER}".encode(), re.MULTILINE)
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
        The file, or None if the source does not begin with HIP's header, or if a macro or flag may change what headers mean.
    """
    headers = tuple(takewhile(lambda name: name.startswith("<"), leading_includes(request.source.read_bytes())))
    flags = list(_without_backend_options(request.flags))
    headers = headers[: headers.index(_RUNTIME) + 1] if _RUNTIME in headers else ()
    if not headers or request.language != "hip" or request.include_dirs or not all(map(_HARMLESS.match, flags)):
        return None
    macros = [
        *(f"-D{name}={value}" for name, value in request.defines.items()),
        *(flag for flag in flags if flag.startswith("-D")),
    ]
    reserved = sorted(macro for macro in macros if _RESERVED.match(macro, 2))
    common = [word for word in _without_backend_options(command) if not word.startswith(_OF_ONE_SOURCE)]
    text = "".join(f"#include {name}\n" for name in headers)
    key = hashlib.sha256("\0".join([compiler.fingerprint, *common, *reserved, text]).encode()).hexdigest()[:32]
    finished, names = (cache_dir / "precompiled" / f"{key}.{suffix}" for suffix in ("pch", "names"))
    with suppress(OSError):  # an unwritable or full cache must not prevent the compilation
        if not finished.is_file() and not _create(finished, names, [*common, *reserved], text):
            return None
        known = names.read_bytes()
        own = (re.match(r"\w*", macro[2:]) for macro in macros if macro not in reserved)
        return None if any(f"\n{match[0]}\n".encode() in known for match in own if match) else finished
    return None


def _without_backend_options(words: Iterable[str]) -> Iterator[str]:
    """Yield the words without options of the code generator."""
    rest = iter(words)
    for word in rest:
        if word == _BACKEND_OPTION:
            next(rest, None)
        else:
            yield word


def _create(finished: Path, names: Path, command: Sequence[str], text: str) -> bool:
    """Precompile headers, and write the identifiers in them; return False if they do not compile."""
    finished.parent.mkdir(parents=True, exist_ok=True)
    with locked(finished.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=finished.parent) as directory:
        if finished.is_file():  # another process created it
            return True
        header = finished.with_suffix(".h")
        if not header.is_file():  # clang compares its time stamp with the one in the precompiled header
            write_text(header, text)
        temporary, dependencies = Path(directory) / "new.pch", Path(directory) / "new.d"
        options = ("-emit-pch", "-o", str(temporary), *dependency_options(dependencies), "-sys-header-deps")
        words = (*command, "-fsyntax-only", *(word for option in options for word in ("-Xclang", option)), str(header))
        if subprocess.run(words, capture_output=True, check=False).returncode != 0 or not temporary.is_file():
            return False
        texts = (_COMMENT.sub(b" ", Path(path).read_bytes()) for path in read_prerequisites(dependencies))
        found = {name for content in texts for name in _IDENTIFIER.findall(content)}
        write_bytes(names, b"\n" + b"\n".join(sorted(found)) + b"\n")
        temporary.replace(finished)
    _remove_oldest(finished.parent)
    return True


def _remove_oldest(directory: Path) -> None:
    by_age = sorted(directory.glob("*.pch"), key=lambda path: path.stat().st_mtime)
    for old in by_age[:-_KEPT]:
        old.unlink(missing_ok=True)
