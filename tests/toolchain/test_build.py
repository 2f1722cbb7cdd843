"""Compilation: results, error messages and use of the cache."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.build import BuildResult, CompileError, CompileRequest, compile_source
from rocm_perf_lab.toolchain.elf_file import parse_elf
from tests.builders.kernels import write_source

if TYPE_CHECKING:
    from pathlib import Path

DOUBLE = 'extern "C" __global__ void k(float* a) { a[0] *= 2; }'

WITH_HEADER = """
#include "factor.h"
extern "C" __global__ void scale(float* a) { a[0] *= FACTOR; }
"""


def build(source: Path, cache_dir: Path, **changes: object) -> BuildResult:
    return compile_source(replace(CompileRequest(source), **changes), cache_dir=cache_dir)  # type: ignore[arg-type]


def code(result: BuildResult) -> bytes:
    elf = parse_elf(result.code_object.data)
    section = elf.section(".text")
    assert section is not None
    return elf.content(section)


def test_a_second_compilation_is_read_from_the_cache(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source(DOUBLE, tmp_path)
    first = build(source, cache_dir)

    start = time.perf_counter()
    second = build(source, cache_dir)
    seconds = time.perf_counter() - start

    assert (first.cached, second.cached) == (False, True)
    assert replace(second, cached=False) == first
    assert seconds < 0.03


def test_the_directory_of_the_source_changes_neither_the_bytes_nor_the_key(tmp_path: Path, cache_dir: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        write_source(DOUBLE, tmp_path / name)

    here = build(tmp_path / "here" / "kernel.hip", cache_dir)
    shutil.rmtree(cache_dir / "builds")
    there = build(tmp_path / "there" / "kernel.hip", cache_dir)

    assert not there.cached
    assert here.code_object == there.code_object
    assert here.key == there.key


def test_line_tables_do_not_change_the_instructions(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source(DOUBLE, tmp_path)

    with_lines = build(source, cache_dir)
    without = build(source, cache_dir, line_tables=False)

    assert with_lines.code_object.sha256 != without.code_object.sha256
    assert code(with_lines) == code(without)


def test_every_input_of_the_code_changes_the_key(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source(DOUBLE, tmp_path)

    keys = [
        build(source, cache_dir).key,
        build(source, cache_dir, architecture="gfx90a").key,
        build(source, cache_dir, defines={"UNUSED": 1}).key,
        build(source, cache_dir, flags=("-ffast-math",)).key,
        build(source, cache_dir, optimisation="-O1").key,
    ]

    assert len(set(keys)) == len(keys)


def test_a_changed_header_causes_a_new_build(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source(WITH_HEADER, tmp_path)
    header = tmp_path / "factor.h"
    header.write_text("#define FACTOR 2.0f")
    doubled = build(source, cache_dir)

    header.write_text("#define FACTOR 3.0f")
    tripled = build(source, cache_dir)

    assert not tripled.cached
    assert code(tripled) != code(doubled)
    assert build(source, cache_dir).cached


def test_the_same_source_with_another_header_is_another_build(tmp_path: Path, cache_dir: Path) -> None:
    results = []
    for name, factor in (("double", "2.0f"), ("triple", "3.0f")):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "factor.h").write_text(f"#define FACTOR {factor}")
        results.append(build(write_source(WITH_HEADER, directory), cache_dir))

    assert not results[1].cached
    assert code(results[0]) != code(results[1])


def test_headers_are_found_in_include_dirs_whose_names_have_spaces(tmp_path: Path, cache_dir: Path) -> None:
    include = tmp_path / "my headers"
    include.mkdir()
    (include / "factor.h").write_text("#define FACTOR 2.0f")
    source = write_source(WITH_HEADER, tmp_path)
    assert not build(source, cache_dir, include_dirs=(include,)).cached
    assert build(source, cache_dir, include_dirs=(include,)).cached

    (include / "factor.h").write_text("#define FACTOR 4.0f")

    assert not build(source, cache_dir, include_dirs=(include,)).cached


def test_defines_reach_the_source(tmp_path: Path, cache_dir: Path) -> None:
    attribute = "__attribute__((amdgpu_flat_work_group_size(1, SIZE)))"
    source = write_source(f'extern "C" __global__ {attribute} void k() {{}}', tmp_path)

    result = build(source, cache_dir, defines={"SIZE": 192, "FLAG": ""})

    assert result.code_object.kernels[0].max_flat_workgroup_size == 192
    assert "-DFLAG" in result.command


@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "entry is not JSON", "entry of an older format"])
def test_a_damaged_cache_entry_is_compiled_again(tmp_path: Path, cache_dir: Path, damage: str) -> None:
    source = write_source(DOUBLE, tmp_path)
    good = build(source, cache_dir)
    (stored,) = (cache_dir / "builds" / "objects").iterdir()
    (entry,) = (cache_dir / "builds" / "entries").iterdir()
    content = stored.read_bytes()
    if damage == "truncated":
        stored.write_bytes(content[:-1])
    elif damage == "altered":
        stored.write_bytes(content[:3000] + bytes([content[3000] ^ 1]) + content[3001:])
    elif damage == "missing":
        stored.unlink()
    elif damage == "entry is not JSON":
        entry.write_text(entry.read_text()[:-20])
    else:
        entry.write_text(json.dumps({"sha256": good.code_object.sha256}))

    again = build(source, cache_dir)

    assert not again.cached
    assert again.code_object == good.code_object
    assert build(source, cache_dir).cached


def test_an_error_shows_the_users_file_line_and_column(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source('extern "C" __global__ void k(float* a) {\n  a[0] = undeclared;\n}\n', tmp_path)

    with pytest.raises(CompileError) as refusal:
        build(source, cache_dir)

    assert refusal.value.what == f"{source}:2:10: use of undeclared identifier 'undeclared'"
    assert "a[0] = undeclared;" in refusal.value.log


def test_a_missing_header_points_to_include_dirs(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source(WITH_HEADER, tmp_path)

    with pytest.raises(CompileError, match=r"'factor\.h' file not found") as refusal:
        build(source, cache_dir)

    assert str(refusal.value.hint).startswith("Add the directory of factor.h to include_dirs; if only host code uses it")


def test_an_unknown_flag_is_reported(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source(DOUBLE, tmp_path)

    with pytest.raises(CompileError, match=r"unknown argument.*-fno-such-flag"):
        build(source, cache_dir, flags=("-fno-such-flag",))


def test_a_missing_source_is_reported_with_its_path(tmp_path: Path, cache_dir: Path) -> None:
    with pytest.raises(CompileError, match=r"does not exist\n   at: .*none\.hip"):
        build(tmp_path / "none.hip", cache_dir)


def test_warnings_are_cached(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source('extern "C" __global__ void k(int* a) { int unused; a[0] = 1; }', tmp_path)

    logs = [build(source, cache_dir, flags=("-Wall",)).log for _ in range(2)]

    assert logs[0] == logs[1]
    assert logs[0].startswith("kernel.hip:1:44: warning: unused variable 'unused'")


def test_a_relative_source_path_has_the_same_build(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "factor.h").write_text("#define FACTOR 2.0f")
    source = write_source(WITH_HEADER, tmp_path)
    first = build(source, cache_dir)
    monkeypatch.chdir(tmp_path)

    second = build(source.relative_to(tmp_path), cache_dir)

    assert second.cached
    assert second.code_object == first.code_object


def test_an_unusable_cache_directory_is_reported(tmp_path: Path) -> None:
    source = write_source(DOUBLE, tmp_path)

    with pytest.raises(CompileError, match="ROCM_PERF_LAB_CACHE"):
        build(source, source)
