"""Run-time compilation (hiprtc) for the HIP runtime, with rocm-perf-lab's compiler.

Sources and headers are stored in the cache under the hash of the request, so that line tables refer to files that exist.
Name expressions become device variables that hold the addresses of the named functions and variables; this instantiates
templates, and the relocations of the variables lead to the mangled names.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.runtime.messages import MessageError, parse, texts
from rocm_perf_lab.toolchain.build import compile_source
from rocm_perf_lab.toolchain.compile_request import CompileRequest
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.toolchain.elf_file import parse_elf

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.elf_file import ElfFile

_VARIABLE = "__rocm_perf_lab_name_"
_DEFAULT_NAME = "CompileSource"
_ARCHITECTURE_OPTIONS = ("--offload-arch=", "--gpu-architecture=", "-arch=", "--arch=")
_SEPARATE_OPTIONS = ("--offload-arch", "--gpu-architecture", "-arch")
_SHT_RELA = 4
_RELOCATION = struct.Struct("<QQq")
_R_RELATIVE, _R_ABS64 = 13, 3
_SYMBOL = struct.Struct("<IBBHQQ")


class HipCompile(ctypes.LittleEndianStructure):
    """struct rpl_hip_compile."""

    _fields_ = (
        ("architecture", ctypes.c_char * 32),
        *((name, ctypes.c_uint32) for name in ("option_count", "header_count", "expression_count", "reserved")),
    )


class HipCompiled(ctypes.LittleEndianStructure):
    """struct rpl_hip_compiled."""

    _fields_ = (("code_bytes", ctypes.c_uint64), ("succeeded", ctypes.c_uint32), ("name_count", ctypes.c_uint32))


@dataclass(frozen=True)
class RuntimeCompilation:
    """Input of hiprtcCompileProgram."""

    architecture: str
    source: bytes
    name: str
    options: tuple[str, ...] = ()
    headers: tuple[tuple[str, bytes], ...] = ()
    expressions: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompiledProgram:
    """Result of a compilation; `code` is None if it failed."""

    log: str
    code: bytes | None = None
    names: tuple[str, ...] = ()
    """Lowered names of the expressions."""


def answer_hip_compilation(content: bytes) -> tuple[bytes, ...]:
    """Return the parts of the answer to `struct rpl_hip_compile`.

    Raises:
        MessageError: The message is incomplete.
    """
    result = compile_at_run_time(_parsed(content))
    code = result.code or b""
    head = HipCompiled(code_bytes=len(code), succeeded=int(result.code is not None), name_count=len(result.names))
    return (bytes(head), texts(result.log, *result.names), code)


def _parsed(content: bytes) -> RuntimeCompilation:
    head, rest = parse(HipCompile, content)
    parts = rest.split(b"\0")
    count = 2 + head.option_count + 2 * head.header_count + head.expression_count
    if len(parts) < count:
        raise MessageError(f"a compilation has {len(parts)} texts instead of {count}")
    options, after = parts[2 : 2 + head.option_count], 2 + head.option_count
    headers = parts[after : after + 2 * head.header_count]
    expressions = parts[after + len(headers) : count]
    return RuntimeCompilation(
        architecture=head.architecture.decode("ascii", "replace"),
        source=parts[0],
        name=_text(parts[1]),
        options=tuple(map(_text, options)),
        headers=tuple((_text(name), text) for name, text in zip(headers[::2], headers[1::2], strict=True)),
        expressions=tuple(map(_text, expressions)),
    )


def compile_at_run_time(program: RuntimeCompilation, directory: Path | None = None) -> CompiledProgram:
    """Compile a program like hiprtc.

    Args:
        program: Source, headers and options.
        directory: Directory of sources; in the user's cache by default.
    """
    architecture, flags = _options(program)
    place = (directory or cache_dir() / "hiprtc") / _key(program)
    source = place / _file_name(program.name)
    for name, text in program.headers:
        _write(place, name, text)
    write_bytes(source, program.source + _declarations(program.expressions))
    request = CompileRequest(source, architecture, "hiprtc", flags=flags, include_dirs=(place,))
    try:
        build = compile_source(request)
        code = build.code_object.data
        return CompiledProgram(build.log, code, _lowered(code, len(program.expressions)))
    except CompileError as error:
        return CompiledProgram(_log(error, place))
    except LabError as error:
        return CompiledProgram("\n".join(error.lines()) + "\n")


def _options(program: RuntimeCompilation) -> tuple[str, tuple[str, ...]]:
    """Return the architecture and the other options."""
    architecture, flags, words = program.architecture, [], iter(program.options)
    for word in words:
        prefix = next((prefix for prefix in _ARCHITECTURE_OPTIONS if word.startswith(prefix)), None)
        if prefix is not None:
            architecture = word.removeprefix(prefix)
        elif word in _SEPARATE_OPTIONS:
            architecture = next(words, architecture)
        else:
            flags.append(word)
    return architecture.split(":")[0], tuple(flags)


def _key(program: RuntimeCompilation) -> str:
    parts = (program.source, *(part for name, text in program.headers for part in (name.encode(), text)))
    return hashlib.sha256("\0".join((program.name, *program.expressions)).encode() + b"\0".join(parts)).hexdigest()[:32]


def _file_name(name: str) -> str:
    """Return a file name for the source; a program may have any name, or none."""
    safe = re.sub(r"[^\w.+-]", "_", name.rpartition("/")[2]) or _DEFAULT_NAME
    return safe if safe not in (".", "..") else _DEFAULT_NAME


def _write(directory: Path, name: str, content: bytes) -> None:
    path = (directory / name).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise LabError(f"the header {name} is outside the program", hint="Pass headers to hiprtcCreateProgram by relative names.")
    write_bytes(path, content)


def _declarations(expressions: tuple[str, ...]) -> bytes:
    lines = (
        f'\nextern "C" {{ __device__ __attribute__((used)) void* {_VARIABLE}{number} = (void*)({_address(text)}); }}'
        for number, text in enumerate(expressions)
    )
    return "".join(lines).encode()


def _address(expression: str) -> str:
    text = expression.strip()
    return text if text.startswith("&") else f"&{text}"


def _lowered(code: bytes, count: int) -> tuple[str, ...]:
    """Return the names of the symbols whose addresses the added variables hold."""
    if not count:
        return ()
    elf = parse_elf(code)
    by_address = {symbol.address: name for name, symbol in elf.symbols.items() if not name.startswith(_VARIABLE)}
    targets = _relocated(elf)
    return tuple(_name_at(elf, targets, by_address, f"{_VARIABLE}{number}") for number in range(count))


def _name_at(elf: ElfFile, targets: dict[int, int | str], by_address: dict[int, str], variable: str) -> str:
    symbol = elf.symbols.get(variable)
    target = targets.get(symbol.address) if symbol is not None else None
    return target if isinstance(target, str) else by_address.get(target or -1, "")


def _relocated(elf: ElfFile) -> dict[int, int | str]:
    """Return the target of each 64-bit relocation by location: an address, or the name of a symbol."""
    found: dict[int, int | str] = {}
    for section in elf.sections:
        if section.kind != _SHT_RELA or section.link >= len(elf.sections):
            continue
        symbols = elf.content(elf.sections[section.link])
        names = elf.content(elf.sections[elf.sections[section.link].link])
        for place, info, addend in _RELOCATION.iter_unpack(elf.content(section)):
            if info & 0xFFFF_FFFF == _R_RELATIVE:
                found[place] = addend
            elif info & 0xFFFF_FFFF == _R_ABS64:
                start = _SYMBOL.unpack_from(symbols, (info >> 32) * _SYMBOL.size)[0]
                found[place] = _text(names[start : names.index(b"\0", start)])
    return found


def _log(error: CompileError, place: Path) -> str:
    log = error.log or "\n".join(error.lines())
    return log.replace(f"{place}/", "").rstrip("\n") + "\n"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
