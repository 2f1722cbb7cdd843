"""Offload bundles: compression, variants of a processor, generic code and damaged files."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.toolchain.bundles import unpack_code_objects
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf import read_code_object, read_code_objects
from tests.toolchain.test_elf import bundle, host_executable

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

HEADERS = {1: "<4sHHIQ", 2: "<4sHHIIQ", 3: "<4sHHQQQ"}
PLAIN = "hipv4-amdgcn-amd-amdhsa--gfx942"
ONE = bundle(("host-x86_64-unknown-linux--", b""), (PLAIN, b"device code" * 50))


def compressed(content: bytes, version: int, method: int) -> bytes:
    packed = zstandard.ZstdCompressor().compress(content) if method else zlib.compress(content)
    size = struct.calcsize(HEADERS[version]) + len(packed)
    sizes = (len(content),) if version == 1 else (size, len(content))
    return struct.pack(HEADERS[version], b"CCOB", version, method, *sizes, 0x1234) + packed


@pytest.mark.parametrize("method", [0, 1], ids=["zlib", "zstd"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_bundles_are_unpacked(vec_copy: CodeObject, version: int, method: int) -> None:
    packed = compressed(bundle(("host-x86_64-unknown-linux--", b""), (PLAIN, vec_copy.data)), version, method)

    assert read_code_object(packed) == vec_copy
    assert read_code_object(host_executable(packed)) == vec_copy


def test_compressed_and_plain_bundles_of_several_units_are_read(vec_copy: CodeObject) -> None:
    unit = bundle((PLAIN, vec_copy.data))
    packed = compressed(unit, 3, 1)

    assert read_code_objects(host_executable(packed + bytes(72) + unit + bytes(8) + packed)) == (vec_copy,) * 3


@pytest.mark.parametrize(
    ("targets", "chosen"),
    [
        (("gfx942:xnack+", "gfx942:xnack-"), "gfx942:xnack-"),
        (("gfx942:sramecc-:xnack-", "gfx942:sramecc+:xnack-"), "gfx942:sramecc+:xnack-"),
        (("gfx942:xnack+",), "gfx942:xnack+"),
        (("gfx9-4-generic", "gfx942"), "gfx942"),
        (("gfx90a", "gfx9-4-generic:xnack-"), "gfx9-4-generic:xnack-"),
    ],
)
def test_the_variant_for_default_gpu_settings_is_selected(targets: tuple[str, ...], chosen: str) -> None:
    packed = bundle(*[(f"hipv4-amdgcn-amd-amdhsa--{t}", t.encode()) for t in targets])

    assert unpack_code_objects(packed, "gfx942") == (chosen.encode(),)


def test_the_environment_of_a_target_may_be_present() -> None:
    assert unpack_code_objects(bundle(("hip-amdgcn-amd-amdhsa-unknown-gfx942", b"x")), "gfx942") == (b"x",)


def test_an_unsupported_compression_is_an_error() -> None:
    for version, method in ((4, 1), (2, 7)):
        with pytest.raises(CodeObjectError, match=f"compressed in an unsupported format .version {version}, method {method}"):
            unpack_code_objects(struct.pack("<4sHH", b"CCOB", version, method) + bytes(64), "gfx942")


def test_a_decompression_bomb_is_not_unpacked() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    packed = struct.pack("<4sHHIIQ", b"CCOB", 2, 1, 24 + len(bomb), 1000, 0) + bomb

    with pytest.raises(CodeObjectError, match="damaged"):
        unpack_code_objects(packed, "gfx942")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_compressed_bundle_is_an_error_or_unpacked(data: st.DataObject) -> None:
    version, method = data.draw(st.sampled_from([(1, 0), (2, 1), (3, 1), (2, 0)]))
    damaged = bytearray(compressed(ONE, version, method))
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), max_size=4)):
        damaged[place] = value
    kept = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))

    try:
        found = unpack_code_objects(bytes(damaged[:kept]), "gfx942")
    except CodeObjectError as refusal:
        assert refusal.hint
    else:
        assert all(isinstance(content, bytes) for content in found)
