"""Redaction of compiler output: nothing about other files is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocm_perf_lab.toolchain.build import CompileError, CompileRequest, compile_source
from rocm_perf_lab.toolchain.diagnostics import redacted
from rocm_perf_lab.toolchain.sandbox import Sandbox

SOURCE = Path("/home/me/run 1/proposals/ab12/k.hip")
KERNEL = "#include <hip/hip_runtime.h>\n__global__ void k(float* x) { x[threadIdx.x] = 1.0f; }\n"


def test_diagnostics_of_the_source_keep_their_lines() -> None:
    log = f"{SOURCE}:3:5: error: use of undeclared identifier 'y'\n    3 |     y = a / b;\n      |     ^\n1 error generated.\n"

    assert redacted(log, SOURCE) == log.replace(f"{SOURCE.parent}/", "")


def test_contents_and_paths_of_other_files_are_left_out() -> None:
    log = (
        f"In file included from {SOURCE}:1:\n"
        "/etc/shadow:1:1: error: unknown type name 'root'\n"
        "    1 | root:$6$secret:19000:0:99999:7:::\n"
        "      | ^\n"
        "/etc/shadow:1:5: error: expected unqualified-id\n"
        "    1 | root:$6$secret:19000:0:99999:7:::\n"
        "2 errors generated.\n"
    )

    assert redacted(log, SOURCE) == "[output about files outside the source was omitted]\n2 errors generated.\n"


def test_messages_of_headers_keep_the_file_name() -> None:
    log = (
        f"{SOURCE}:9:3: error: no matching function for call to 'f'\n"
        "    9 |   f(1);\n"
        "/opt/rocm/include/hip/amd_detail/amd_math.h:12:7: note: candidate in /opt/rocm/include/x.h: requires 2 arguments\n"
        "   12 | int f(int, int);\n"
        "      |     ^\n"
    )

    assert redacted(log, SOURCE) == (
        "k.hip:9:3: error: no matching function for call to 'f'\n    9 |   f(1);\n"
        "amd_math.h:12:7: note: candidate in x.h: requires 2 arguments\n"
    )


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Stack dump: /home/me/zig clang -cc1 --token=abc", "[output about files outside the source was omitted]"),
        ("ld.lld: error: undefined symbol: f(int)", "ld.lld: error: undefined symbol: f(int)"),
        ("ld.lld: error: cannot open /home/me/secret/x.o: No such file", "ld.lld: error: cannot open x.o: No such file"),
        ("error: unable to open output file '/home/me/a/b.o'", "error: unable to open output file 'b.o'"),
    ],
)
def test_messages_of_tools_keep_no_paths(line: str, kept: str) -> None:
    assert redacted(f"{line}\n", SOURCE) == f"{kept}\n"


@pytest.mark.parametrize("directive", ['#include "secret.txt"', '#line 1 "secret.txt"\n#include "secret.txt"'])
def test_an_untrusted_source_learns_nothing_about_a_file_next_to_it(directive: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("#error passw0rd\n")
    source = tmp_path / "k.hip"
    source.write_text(f"{directive}\n{KERNEL}")

    with pytest.raises(CompileError) as refused:
        compile_source(CompileRequest(source), sandbox=Sandbox(), fresh=True)

    said = f"{refused.value.what} {refused.value.log} {refused.value.hint}"
    assert "passw0rd" not in said
    assert str(tmp_path) not in said


def test_a_trusted_source_keeps_the_whole_output(tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("#error passw0rd\n")
    source = tmp_path / "k.hip"
    source.write_text(f'#include "mine.h"\n{KERNEL}')

    with pytest.raises(CompileError, match="passw0rd"):
        compile_source(CompileRequest(source), fresh=True)
