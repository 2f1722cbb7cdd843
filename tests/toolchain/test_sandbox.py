"""Sandbox of compilers: real compilers run with real limits."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.build import CompileError, CompileRequest, compile_source
from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = "#include <hip/hip_runtime.h>\n__global__ void k(float* x) { x[threadIdx.x] = expf(1.0f); }\n"
MIB = 1 << 20
NEEDS_LANDLOCK = pytest.mark.skipif(not Sandbox().protection().files, reason="no Landlock in this kernel")
NEEDS_NAMESPACES = pytest.mark.skipif(not Sandbox().protection().network, reason="user namespaces are not permitted here")


def compiled(tmp_path: Path, source: str, **limits: float) -> bytes:
    path = tmp_path / "k.hip"
    path.write_text(source)
    sandbox = Sandbox(SandboxLimits(**limits))  # type: ignore[arg-type]
    return compile_source(CompileRequest(path), sandbox=sandbox, fresh=True).code_object.data


def python(code: str, tmp_path: Path, **limits: float) -> tuple[int, str, str | None]:
    sandbox = Sandbox(SandboxLimits(**limits))  # type: ignore[arg-type]
    ended = sandbox.run([sys.executable, "-c", code], tmp_path)
    return ended.returncode, ended.stdout + ended.stderr, ended.reason


def test_a_valid_source_compiles_to_the_same_bytes_as_without_sandbox(tmp_path: Path) -> None:
    inside = compiled(tmp_path, KERNEL)

    assert inside == compile_source(CompileRequest(tmp_path / "k.hip"), fresh=True).code_object.data


@NEEDS_LANDLOCK
@pytest.mark.parametrize("path", ["/dev/zero", "/etc/passwd", "/proc/1/environ"])
def test_files_of_other_directories_cannot_be_included(tmp_path: Path, path: str) -> None:
    with pytest.raises(CompileError) as refused:
        compiled(tmp_path, f'#include "{path}"\n{KERNEL}', seconds=30)

    assert "denied" in refused.value.what or "cannot open" in refused.value.what


def test_standard_input_is_empty(tmp_path: Path) -> None:
    assert compiled(tmp_path, f'#include "/dev/stdin"\n{KERNEL}', seconds=30)


MACROS = "#define A0 x x x x x x x x x x\n" + "".join(f"#define A{n} {f'A{n - 1} ' * 10}\n" for n in range(1, 12))
TEMPLATES = (
    "template<long N, long M> struct B { static constexpr long v = B<N - 1, 2 * M>::v + B<N - 1, 2 * M + 1>::v; };\n"
    "template<long M> struct B<0, M> { static constexpr long v = M; };\nlong q = B<40, 1>::v;\n"
)


@pytest.mark.parametrize("source", [f"{MACROS}{KERNEL}int y = A11;", KERNEL + TEMPLATES], ids=["macros", "templates"])
def test_a_compiler_that_does_not_end_is_stopped(tmp_path: Path, source: str) -> None:
    start = time.monotonic()

    with pytest.raises(CompileError, match=r"the compiler was stopped: it (took more than 3 s|needed more than 1024 MiB)"):
        compiled(tmp_path, source, seconds=3, memory_bytes=1024 * MIB)

    assert time.monotonic() - start < 10


def test_children_of_a_stopped_command_are_killed(tmp_path: Path) -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"

    _, said, reason = python(code, tmp_path, seconds=1.5)

    assert reason == "took more than 1.5 s"
    time.sleep(0.2)
    state = subprocess.run(["ps", "-o", "stat=", "-p", said.strip()], capture_output=True, text=True, check=False).stdout
    assert not state or state.startswith("Z")


def test_memory_and_files_are_limited(tmp_path: Path) -> None:
    code, said, _ = python("bytearray(2 << 30)", tmp_path, memory_bytes=512 * MIB)
    assert (code, "MemoryError" in said) == (1, True)

    target = tmp_path / "large"
    code, said, _ = python(f"open({str(target)!r}, 'wb').write(bytes(8 << 20))", tmp_path, file_bytes=MIB)
    assert code != 0
    assert target.stat().st_size <= MIB


def test_environment_variables_are_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    _, said, _ = python("import os; print(sorted(os.environ), os.environ['HOME'])", tmp_path)

    assert "OPENAI_API_KEY" not in said
    assert str(tmp_path) in said


@NEEDS_NAMESPACES
def test_there_is_no_network(tmp_path: Path) -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', 1), 2)"

    _, said, _ = python(code, tmp_path)

    assert "unreachable" in said


@NEEDS_LANDLOCK
def test_other_directories_are_not_writable(tmp_path: Path) -> None:
    private, outside = tmp_path / "private", tmp_path / "outside"
    private.mkdir()
    outside.mkdir()

    _, said, _ = python(f"open({str(private / 'a')!r}, 'w'); open({str(outside / 'b')!r}, 'w')", private)

    assert "PermissionError" in said
    assert [path.name for path in tmp_path.rglob("[ab]")] == ["a"]
