"""Extraction of the code objects for one architecture from compiler output: ELF file, offload bundle or host executable.

Formats: "Clang Offload Bundler" (magic `__CLANG_OFFLOAD_BUNDLE__`, a table of offset, size and target id; magic `CCOB`, the
same compressed) and the `.hip_fatbin` section of a host ELF, which holds the bundles of all
translation units one after the other.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import processors_of_generic_target
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC, parse_elf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EM_AMDGPU = 224

_BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_MAGIC = b"CCOB"
_MAGIC = re.compile(re.escape(_BUNDLE_MAGIC) + b"|" + re.escape(_COMPRESSED_MAGIC))
_COMPRESSED_HEADERS = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
"""Version -> header after magic, version and method: file size (version 2 and later), content size, content hash."""
_METHODS = {0: "zlib", 1: "zstd"}
_LARGEST_CONTENT = 1 << 31
_U64 = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")


@dataclass(frozen=True)
class _BundleEntry:
    target: str
    """`hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+`, or `host-...`."""
    content: memoryview
    """Part of the file: libraries have gigabytes of code for ten architectures."""

    @property
    def architecture(self) -> str:
        """Part after `<kind>-<arch>-<vendor>-<os>-<environment>-`; the environment is usually empty, and absent in ROCm 3."""
        parts = self.target.split(":")[0].split("-")
        return "-".join(parts[4:] if parts[4:] and parts[4].startswith("gfx") else parts[5:])

    @property
    def features(self) -> frozenset[str]:
        """`sramecc+`, `xnack-`."""
        return frozenset(self.target.split(":")[1:])


def unpack_code_objects(data: bytes, architecture: str) -> tuple[bytes, ...]:
    """Return the device ELF files for `architecture` in `data`, in file order; `data` itself if it is one.

    Raises:
        CodeObjectError: The container is unknown or damaged, or has no code for this architecture.
    """
    packed = _packed_bundles(data)
    if packed is None:
        return (data,)
    bundles = [[entry for entry in bundle if entry.content] for bundle in _bundles(packed)]
    chosen = tuple(bytes(best.content) for best in (_best(bundle, architecture) for bundle in bundles) if best is not None)
    if not chosen:
        present = _architectures(bundles)
        raise CodeObjectError(
            f"the bundle has no code object for {architecture}, only for: {', '.join(present) or 'no GPU'}",
            hint=f"Compile with --offload-arch={architecture}" + (", or name one of these architectures." if present else "."),
        )
    return chosen


def bundled_architectures(data: bytes) -> tuple[str, ...]:
    """Return the architectures for which an offload bundle or host executable has code, sorted; none for a code object.

    Raises:
        CodeObjectError: The container is unknown or damaged.
    """
    packed = _packed_bundles(data)
    return () if packed is None else tuple(_architectures(_bundles(packed)))


def _architectures(bundles: Iterable[list[_BundleEntry]]) -> list[str]:
    entries = [entry for bundle in bundles for entry in bundle]
    return sorted({entry.architecture for entry in entries if entry.content and not entry.target.startswith("host")})


def _packed_bundles(data: bytes) -> memoryview | None:
    """Return the bundles in a file, or None if it is a code object itself."""
    if not data.startswith(ELF_MAGIC):
        return memoryview(data)
    elf = parse_elf(data)
    if elf.machine == EM_AMDGPU:
        return None
    fat_binary = elf.section(".hip_fatbin")
    if fat_binary is None:
        raise CodeObjectError(
            f"the ELF file is for machine {elf.machine}, not AMDGPU ({EM_AMDGPU}), and has no .hip_fatbin section",
            hint="Pass a code object, or an executable that was compiled from HIP.",
        )
    return elf.view(fat_binary)


def _best(bundle: list[_BundleEntry], architecture: str) -> _BundleEntry | None:
    """Return the entry for a GPU with default settings (ECC on, XNACK off); code of a generic target only as a last resort."""
    exact = [entry for entry in bundle if entry.architecture == architecture]
    candidates = exact or [entry for entry in bundle if architecture in processors_of_generic_target(entry.architecture)]
    return min(candidates, key=lambda entry: len(entry.features & {"xnack+", "sramecc-"}), default=None)


def _bundles(data: memoryview) -> Iterator[list[_BundleEntry]]:
    found = _MAGIC.search(data)
    if found is None:
        raise CodeObjectError(
            "neither an ELF file nor an offload bundle",
            hint="Pass a .hsaco file, an offload bundle or a HIP executable.",
        )
    while found is not None:
        if found[0] == _COMPRESSED_MAGIC:
            content, end = _decompressed(data, found.start())
            yield _entries_of_one(memoryview(content), 0)[0]
        else:
            entries, end = _entries_of_one(data, found.start())
            yield entries
        found = _MAGIC.search(data, end)


def _decompressed(data: memoryview, start: int) -> tuple[bytes, int]:
    """Return the content of a compressed bundle, and the offset of its end."""
    place = start + len(_COMPRESSED_MAGIC)
    version, method = struct.unpack("<HH", _checked(data, place, 4))
    header = _COMPRESSED_HEADERS.get(version)
    if header is None or method not in _METHODS:
        raise CodeObjectError(
            f"the offload bundle is compressed in an unsupported format (version {version}, method {method})",
            hint="Compile with --no-offload-compress, or unpack it with clang-offload-bundler.",
        )
    *file_size, size, _ = header.unpack(_checked(data, place + 4, header.size))
    begin = place + 4 + header.size
    end = start + file_size[0] if file_size else len(data)
    packed = _checked(data, begin, max(end - begin, 0))
    content = _inflated(packed, size, _METHODS[method]) if size <= _LARGEST_CONTENT else None
    if content is None or len(content) != size or not content.startswith(_BUNDLE_MAGIC):
        raise CodeObjectError("the compressed offload bundle is damaged", hint="Compile or copy the file again.")
    return content, end


def _inflated(packed: memoryview, size: int, method: str) -> bytes | None:
    """Return the content, or None if the data is damaged."""
    if method == "zlib":
        import zlib

        try:
            return zlib.decompressobj().decompress(packed, size)
        except zlib.error:
            return None
    import zstandard

    try:
        return zstandard.ZstdDecompressor().stream_reader(packed).read(size)
    except zstandard.ZstdError:
        return None


def _entries_of_one(data: memoryview, start: int) -> tuple[list[_BundleEntry], int]:
    """Return the entries of the bundle at `start`, and the offset of its end."""
    entries = []
    position = start + len(_BUNDLE_MAGIC)
    (count,) = _U64.unpack(_checked(data, position, _U64.size))
    position += _U64.size
    end = position
    for _ in range(count):
        offset, size, name_size = _ENTRY.unpack(_checked(data, position, _ENTRY.size))
        position += _ENTRY.size
        target = bytes(_checked(data, position, name_size)).decode("utf-8", errors="replace")
        position += name_size
        entries.append(_BundleEntry(target, _checked(data, start + offset, size)))
        end = max(end, position, start + offset + size)
    return entries, end


def _checked(data: memoryview, offset: int, size: int) -> memoryview:
    if offset + size > len(data):
        raise CodeObjectError("the offload bundle is truncated", hint="Compile or copy the file again.")
    return data[offset : offset + size]
