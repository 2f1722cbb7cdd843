"""Sandbox of compilers: real compilers run with real limits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.build import CompileError, CompileRequest, compile_source
from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits, SandboxUnavailable
from tests.builders.processes import comes_true

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

    assert time.monotonic() - start < 100


def commands() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_children_of_a_stopped_command_are_killed(tmp_path: Path) -> None:
    unusual = f"{60 + os.getpid() / 1e7:.7f}"  # finds the process from outside: it has another id there
    code = f"import subprocess; p = subprocess.Popen(['sleep', '{unusual}']); print('started', flush=True); p.wait()"

    _, said, reason = python(code, tmp_path, seconds=4)

    assert (said, reason) == ("started\n", "took more than 4 s")
    assert comes_true(lambda: f"sleep {unusual}" not in commands(), patience_s=40)


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


CONNECT = "import socket; socket.create_connection(('127.0.0.1', 1), 2)"


@NEEDS_NAMESPACES
def test_there_is_no_network_in_the_namespace(tmp_path: Path) -> None:
    ended = Sandbox(without=("seccomp",)).run([sys.executable, "-c", CONNECT], tmp_path)

    assert "unreachable" in ended.stderr


def test_sockets_are_refused_without_namespaces(tmp_path: Path) -> None:
    ended = Sandbox(without=("namespaces",)).run([sys.executable, "-c", CONNECT], tmp_path)

    assert "Operation not permitted" in ended.stderr


@NEEDS_LANDLOCK
@pytest.mark.parametrize("without", [(), ("proc",), ("namespaces",), ("landlock",)], ids=lambda names: "-".join(names) or "all")
def test_command_lines_of_other_processes_are_not_visible(without: tuple[str, ...], tmp_path: Path) -> None:
    code = f"import sys; print(open('/proc/{os.getpid()}/cmdline').read())"

    ended = Sandbox(without=without).run([sys.executable, "-c", code], tmp_path)

    assert ended.returncode == 1
    assert "PermissionError" in ended.stderr or "FileNotFoundError" in ended.stderr


@pytest.mark.parametrize("without", [("namespaces",), ("proc",)])
def test_sources_compile_without_a_part_of_the_protection(without: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "k.hip"
    path.write_text(KERNEL)

    assert compile_source(CompileRequest(path), sandbox=Sandbox(without=without), fresh=True).code_object.kernels


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(7)", 7), ("import os; os.abort()", -6)])
def test_the_exit_status_of_the_command_is_kept(code: str, expected: int, tmp_path: Path) -> None:
    assert python(code, tmp_path)[0] == expected


@NEEDS_LANDLOCK
@pytest.mark.parametrize("without", [(), ("namespaces",), ("seccomp",)])
def test_one_of_two_mechanisms_is_enough(without: tuple[str, ...]) -> None:
    Sandbox(without=without).require()


@pytest.mark.parametrize(
    ("without", "missing"),
    [
        (("landlock",), "access to all files"),
        (("namespaces", "seccomp"), "network access"),
        (("namespaces", "landlock"), "visible command lines of other processes"),
    ],
)
def test_missing_protection_is_an_error_with_a_hint(without: tuple[str, ...], missing: str) -> None:
    sandbox = Sandbox(without=without)

    with pytest.raises(SandboxUnavailable, match=missing) as refused:
        sandbox.require()

    assert "optimizer.isolation.required=false" in str(refused.value.hint)
    assert missing in str(sandbox.protection())


@NEEDS_LANDLOCK
def test_other_directories_are_not_writable(tmp_path: Path) -> None:
    private, outside = tmp_path / "private", tmp_path / "outside"
    private.mkdir()
    outside.mkdir()

    _, said, _ = python(f"open({str(private / 'a')!r}, 'w'); open({str(outside / 'b')!r}, 'w')", private)

    assert "PermissionError" in said
    assert [path.name for path in tmp_path.rglob("[ab]")] == ["a"]
