"""Commands that compiled a source: from compilation databases, build logs, and the records of rocm-perf hipcc."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.compile_commands import parse_command, read_build_log, read_compile_commands
from rocm_perf_lab.toolchain.recorded_commands import record_command, recorded_command


def test_only_options_that_concern_device_code_are_kept() -> None:
    words = shlex.split(
        "-x hip --offload-arch=gfx90a -DN=4 -D NAME -Iinclude -isystem /opt/lib/include -O2 -std=c++20 -ffast-math -fPIC -Wall "
        "-mllvm -amdgpu-unroll=3 -MF deps.d -o out.o -c src/k.cpp"
    )

    command = parse_command(words, Path("/work/app"), "test")

    assert command is not None
    assert command.source == Path("/work/app/src/k.cpp")
    assert command.defines == {"N": "4", "NAME": "1"}
    assert command.include_dirs == (Path("/work/app/include"), Path("/opt/lib/include"))
    assert command.flags == ("-std=c++20", "-ffast-math", "-mllvm", "-amdgpu-unroll=3")
    assert command.optimisation == "-O2"


def test_a_link_command_compiles_no_source() -> None:
    assert parse_command(["a.o", "-o", "app", "-lm"], Path("/work"), "test") is None


def test_a_build_log_follows_directories_and_continued_lines(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text(
        "make[1]: Entering directory '/work/app/lib'\n/opt/rocm/bin/hipcc -DM=2 \\\n  -c k.hip -o k.o\ngcc -c host.c\n"
    )

    commands = read_build_log(log)

    assert [(command.source, command.defines) for command in commands] == [(Path("/work/app/lib/k.hip"), {"M": "2"})]


def test_a_file_that_is_no_compilation_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "compile_commands.json").write_text(json.dumps([{"file": "k.hip"}]))

    with pytest.raises(LabError, match="no compilation database"):
        read_compile_commands(tmp_path / "compile_commands.json")


def test_the_command_of_a_code_object_is_found_by_its_content(tmp_path: Path) -> None:
    record_command(b"code", Path("k.hip"), ["-O3", "-DN=1"], tmp_path)

    found = recorded_command(b"code", tmp_path)

    assert found is not None
    assert (found.source, found.arguments) == (str(Path("k.hip").absolute()), ("-O3", "-DN=1"))
    assert recorded_command(b"other code", tmp_path) is None
