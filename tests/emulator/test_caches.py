"""Cached code and libraries are used only if intact."""

from pathlib import Path

import pytest

from rocm_perf_lab.emulator.build import build_runtime, load_runtime
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.jit import compile_program
from rocm_perf_lab.emulator.program import decode_program
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.kernels import VEC_COPY, build_hip


def damage(path: Path, kind: str) -> None:
    content = path.read_bytes()
    changed = {
        "truncated": content[: len(content) // 2],
        "empty": b"",
        "altered": content[:-1] + bytes([content[-1] ^ 0xFF]),
    }
    path.write_bytes(changed[kind])


@pytest.mark.parametrize("kind", ["truncated", "empty", "altered"])
def test_damaged_native_code_is_translated_again(kind: str, tmp_path: Path) -> None:
    code_object = build_hip(VEC_COPY, tmp_path).code_object
    kernel = code_object.kernels[0]
    code = parse_elf(code_object.data).read(kernel.entry_address, kernel.code_bytes)
    program = decode_program(kernel.symbol, code, kernel.entry_address, (kernel.entry_address,), instruction_set("gfx942"))
    helpers = load_runtime().helpers
    cache = tmp_path / "jit"
    compile_program(program, helpers, cache_directory=cache)
    (stored,) = cache.iterdir()
    intact = stored.read_bytes()
    damage(stored, kind)

    native = compile_program(program, helpers, cache_directory=cache)

    assert native.address != 0
    assert stored.read_bytes() == intact


def test_a_damaged_runtime_library_is_built_again(tmp_path: Path) -> None:
    library = build_runtime(tmp_path)
    intact = library.read_bytes()
    damage(library, "altered")

    assert build_runtime(tmp_path).read_bytes() == intact


def test_a_runtime_library_without_its_checksum_is_not_trusted(tmp_path: Path) -> None:
    library = build_runtime(tmp_path)
    library.with_suffix(".sha256").unlink()
    before = library.stat().st_mtime_ns

    build_runtime(tmp_path)

    assert library.stat().st_mtime_ns != before
