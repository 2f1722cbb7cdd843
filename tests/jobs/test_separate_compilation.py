"""`rocm-perf hipcc` as make and CMake use it: objects of HIP, C++ and C sources, archives, dependency files, one error each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.own_command import own_command
from rocm_perf_lab.core.resources import zig_environment
from rocm_perf_lab.jobs.run.compilation import CompilationRequest, run_compilation
from rocm_perf_lab.jobs.run.dependency_file import DependencyOptions
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.linked_files import is_linked_file, linked_digest

KERNEL = """
#include "sums.h"
static __global__ void fill(int *out) { out[threadIdx.x] = VALUE; }
extern "C" int NAME() {
  int *out, sum = 0, host[64];
  if (hipMalloc(&out, sizeof host)) return -1;
  fill<<<1, 64>>>(out);
  if (hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost) || hipFree(out)) return -2;
  for (int value : host) sum += value;
  return sum;
}
"""
MAIN = """
#include <hip/hip_runtime_api.h>
#include <stdio.h>
int ones(void), twos(void);
int main(void) {
  int class = 0;
  if (hipGetDeviceCount(&class)) return 1;
  printf("%d GPU, %d, %d\\n", class, ones(), twos());
  return 0;
}
"""
"""A program that is C and not C++."""


def rocm_perf(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(own_command(*arguments), cwd=directory, capture_output=True, text=True, check=False, timeout=600)


def archive(directory: Path, *names: str) -> None:
    command = [find_compiler(("pip",)).command[0], "ar", "rcs", "libsums.a", *names]
    subprocess.run(command, cwd=directory, check=True, env=zig_environment())


@pytest.mark.slow
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has a GPU")
def test_objects_and_archives_become_a_program_that_is_linked_again_after_they_change(tmp_path: Path) -> None:
    (tmp_path / "sums.h").write_text("#include <hip/hip_runtime.h>\n")
    (tmp_path / "sums.hip").write_text(KERNEL)
    (tmp_path / "main.c").write_text(MAIN)

    def compile_sums(name: str, value: int) -> None:
        options = ("-DNAME=" + name, f"-DVALUE={value}", "-MMD", "-MP", "-MT", f"{name}.o", "-MF", f"{name}.d")
        done = rocm_perf(tmp_path, "hipcc", *options, "-c", "sums.hip", "-o", f"{name}.o")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr

    def output() -> str:
        linked = rocm_perf(tmp_path, "hipcc", "main.o", "-L.", "-lsums", "-o", "app")
        assert linked.returncode == 0, linked.stderr
        return rocm_perf(tmp_path, "run", "--", "./app").stdout

    # Both objects are of one source and have a static kernel of the same name.
    compile_sums("ones", 1)
    compile_sums("twos", 2)
    assert rocm_perf(tmp_path, "hipcc", "-c", "main.c").returncode == 0
    archive(tmp_path, "ones.o", "twos.o")

    assert (tmp_path / "ones.d").read_text() == "ones.o: \\\n  sums.hip \\\n  sums.h\nsums.h:\n"
    assert output() == "1 GPU, 64, 128\n"

    compile_sums("twos", 3)
    archive(tmp_path, "ones.o", "twos.o")

    assert output() == "1 GPU, 64, 192\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-O2", "-o", "app"), "there is no source to compile"),
        (("-c", "main.o"), "there is no source to compile"),
        (("main.hip", "-o"), "-o has no file name"),
        (("main.hip", "-MF"), "-MF has no value"),
        (("-c", "main.hip", "more.c", "-o", "all.o"), "all.o cannot be the object of 2 sources"),
        (("main.hip", "--offload-arch=gfx90a,gfx942"), "one architecture, not for gfx90a, gfx942"),
        (("main.hip", "--offload-arch=gfx803"), "unknown architecture gfx803"),
        (("-S", "main.hip"), "-S does not lead to a program"),
        (("-c", "missing.hip"), "the source file does not exist"),
        (("missing.o", "-o", "app"), "the file to link does not exist"),
        (("@missing.rsp",), "the arguments in missing.rsp cannot be read"),
    ],
)
def test_arguments_that_hipcc_cannot_follow_are_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.hip").write_text("int main() {}\n")

    with pytest.raises(LabError, match=message):
        run_compilation(CompilationRequest.parse(arguments))

    assert [path.name for path in tmp_path.iterdir()] == ["main.hip"]


def test_sources_options_and_files_to_link_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "more.rsp").write_text("b.c '-DTEXT=a b' x.a")

    found = CompilationRequest.parse(["-O3", "a.hip", f"@{tmp_path / 'more.rsp'}", "libz.so.1", "-oapp", "-MMD"])

    assert found.sources == (Path("a.hip"), Path("b.c"))
    assert (found.output, found.is_linked, found.dependencies.is_wanted) == (Path("app"), True, True)
    assert found.options == "-O3 '-DTEXT=a b' x.a libz.so.1"
    assert not CompilationRequest.parse(["-c", "a.hip"]).is_linked


def test_names_in_dependency_files_are_quoted_for_make(tmp_path: Path) -> None:
    options, others = DependencyOptions.take(["-O2", "-MD", "-MQ", "a$b.o", "-MT$(OBJECT)"])

    options.write(tmp_path / "out.o", [Path("my kernel.hip"), Path("#1.h")])

    assert others == ["-O2"]
    assert (tmp_path / "out.d").read_text() == "a$$b.o $(OBJECT): \\\n  my\\ kernel.hip \\\n  \\#1.h\n"


def test_the_digest_of_linked_files_follows_their_contents(tmp_path: Path) -> None:
    library = tmp_path / "libx.a"
    library.write_bytes(b"1")
    arguments = ("-L", str(tmp_path), "-lx", "-lm")
    before = linked_digest(arguments)
    library.write_bytes(b"2")

    assert linked_digest(arguments) != before
    assert [word for word in ("a.o", "lib/x.a", "x.so.5", "-Wl,a.o", "a.c", "x.so.md") if is_linked_file(word)] == [
        "a.o",
        "lib/x.a",
        "x.so.5",
    ]
