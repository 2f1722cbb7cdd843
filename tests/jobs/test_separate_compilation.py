"""`rocm-perf hipcc` as make and CMake use it: objects of HIP, C++ and C sources, archives, dependency files, one error each."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.own_command import own_command
from rocm_perf_lab.core.resources import zig_environment
from rocm_perf_lab.jobs.run.compilation import CompilationRequest, is_query, run_compilation
from rocm_perf_lab.jobs.run.dependency_file import DependencyOptions
from rocm_perf_lab.toolchain.bundles import bundled_architectures
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.device_modules import assembly_of_modules, objects_with_modules
from rocm_perf_lab.toolchain.hip_translations import text_bundle
from rocm_perf_lab.toolchain.linked_files import gnu_cpp_library, is_linked_file, linked_digest

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
        (("-O2", "-o", "app"), "no source to compile"),
        (("-c", "main.o"), "no source to compile"),
        (("main.hip", "-o"), "-o has no file name"),
        (("main.hip", "-MF"), "-MF has no value"),
        (("-c", "main.hip", "more.c", "-o", "all.o"), "all.o cannot be the output of 2 sources"),
        (("--genco", "main.hip", "more.hip"), "a.out cannot be the output of 2 sources"),
        (("main.hip", "--offload-arch=gfx803"), "unknown architecture gfx803"),
        (("-c", "-emit-llvm", "main.hip"), "bitcode of several parts cannot be one file"),
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
    assert CompilationRequest.parse(["--cuda-host-only", "a.o"]).is_linked, "as CMake tests the compiler"


def test_architectures_that_the_compiler_does_not_know_are_left_out() -> None:
    found = CompilationRequest.parse(["a.hip", "--offload-arch=gfx803,gfx90a:xnack-", "--offload-arch=native"])

    assert found.architectures == ("gfx90a:xnack-", "gfx942")


@pytest.mark.parametrize(
    ("words", "is_one"),
    [("--version", True), ("-v -print-targets", True), ("-v a.hip", False), ("-v a.o", False), ("-### a.hip", True)],
)
def test_questions_about_the_compiler_are_no_compilations(words: str, is_one: bool) -> None:
    assert is_query(words.split()) is is_one


def test_archives_are_searched_for_modules_of_device_code(tmp_path: Path) -> None:
    (tmp_path / "a.bc").write_bytes(b"module of gfx942")
    (tmp_path / "a.s").write_text(assembly_of_modules({"gfx942": tmp_path / "a.bc"}))
    (tmp_path / "odd.txt").write_text("odd")
    zig = find_compiler(("pip",)).command[0]
    subprocess.run([zig, "clang", "-target", "x86_64-linux-gnu", "-c", "a.s"], cwd=tmp_path, check=True, env=zig_environment())
    archive(tmp_path, "odd.txt", "a.o")

    (found,) = objects_with_modules(tmp_path / "libsums.a")

    assert found.modules == {"gfx942": b"module of gfx942"}
    assert found.content == (tmp_path / "a.o").read_bytes()
    (tmp_path / "cut.a").write_bytes((tmp_path / "libsums.a").read_bytes()[:-200])
    with pytest.raises(CompileError, match="the file to link is damaged"):
        list(objects_with_modules(tmp_path / "cut.a"))


def test_objects_of_gcc_are_linked_with_its_cpp_library(tmp_path: Path) -> None:
    library = tmp_path / "libstdc++.so.6"
    library.touch()
    (tmp_path / "own.o").write_bytes(b"\0_ZNSt3__112basic_stringIcE\0_ZSt9terminatev\0")
    (tmp_path / "gnu.o").write_bytes(b"\0_ZNSt7__cxx1112basic_stringIcE\0")
    own, gnu = str(tmp_path / "own.o"), str(tmp_path / "gnu.o")

    assert gnu_cpp_library([own, "-lstdc++"], [str(tmp_path)]) is None
    assert gnu_cpp_library([own, gnu], ["/nonexistent", str(tmp_path)]) == library
    assert gnu_cpp_library([gnu], ["/nonexistent"]) is None


def test_text_of_several_parts_is_a_bundle_of_text() -> None:
    assert text_bundle({"gfx942": b"code"}, b"#") == b"code"
    assert text_bundle({"gfx942": b"code", None: b"host"}, b"#").decode().split("\n") == [
        *("", "# __CLANG_OFFLOAD_BUNDLE____START__ hip-amdgcn-amd-amdhsa--gfx942", "code"),
        *("# __CLANG_OFFLOAD_BUNDLE____END__ hip-amdgcn-amd-amdhsa--gfx942", ""),
        *("# __CLANG_OFFLOAD_BUNDLE____START__ host-x86_64-unknown-linux-gnu-", "host"),
        *("# __CLANG_OFFLOAD_BUNDLE____END__ host-x86_64-unknown-linux-gnu-", ""),
    ]


MODULE = """
#include <hip/hip_runtime.h>
extern "C" __global__ void fill(int *out) { *out = VALUE; }
"""


@pytest.mark.slow
def test_code_objects_assembly_and_text_are_written(tmp_path: Path) -> None:
    (tmp_path / "module.hip").write_text(MODULE)

    def hipcc(*arguments: str) -> str:
        done = rocm_perf(tmp_path, "hipcc", "-DVALUE=77", "module.hip", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    hipcc("--genco", "--offload-arch=gfx90a", "--offload-arch=gfx942", "-o", "module.co")
    assert bundled_architectures((tmp_path / "module.co").read_bytes()) == ("gfx90a", "gfx942")
    hipcc("--offload-device-only", "-S")
    assert ".amdhsa_kernel fill" in (tmp_path / "module.s").read_text()
    assert "*out = 77;" in hipcc("-E", "--cuda-host-only")
    before = set(tmp_path.iterdir())
    assert hipcc("-fsyntax-only") == "" and set(tmp_path.iterdir()) == before
    assert hipcc("-MM", "-MT", "x.o") == "x.o: \\\n  module.hip\n"
    assert "v_mov_b32_e32 v1, 0x4d" in hipcc("-S", "-o", "-"), "both parts"
    hipcc("--cuda-device-only", "--no-gpu-bundle-output", "-c", "-emit-llvm", "-o", "module.bc")
    assert (tmp_path / "module.bc").read_bytes().startswith(b"BC")


@pytest.mark.slow
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has a GPU")
def test_device_functions_of_a_static_library_are_linked(tmp_path: Path) -> None:
    (tmp_path / "twice.hip").write_text("#include <hip/hip_runtime.h>\n__device__ int twice(int x) { return 2 * x; }\n")
    (tmp_path / "main.hip").write_text(RELOCATABLE)

    for arguments in (
        ("-fgpu-rdc", "-c", "twice.hip", "-o", "ones.o"),
        ("-fgpu-rdc", "-c", "main.hip"),
    ):
        done = rocm_perf(tmp_path, "hipcc", *arguments)
        assert done.returncode == 0, done.stderr
    archive(tmp_path, "ones.o")
    linked = rocm_perf(tmp_path, "hipcc", "-fgpu-rdc", "--hip-link", "main.o", "-L.", "-lsums", "-o", "app")

    assert linked.returncode == 0, linked.stderr
    assert rocm_perf(tmp_path, "run", "--", "./app").stdout == "42\n"


RELOCATABLE = """
#include <hip/hip_runtime.h>
#include <stdio.h>
extern __device__ int twice(int);
__global__ void fill(int *out) { *out = twice(21); }
int main() {
  int *out, value = 0;
  if (hipMalloc(&out, 4)) return 1;
  fill<<<1, 1>>>(out);
  if (hipMemcpy(&value, out, 4, hipMemcpyDeviceToHost) || hipFree(out)) return 2;
  printf("%d\\n", value);
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.21)
project(app LANGUAGES CXX HIP)
find_package(hip 5 REQUIRED)
add_executable(app main.hip)
add_library(twice STATIC twice.hip)
target_compile_options(app PRIVATE -fgpu-rdc)
target_compile_options(twice PRIVATE -fgpu-rdc)
target_link_libraries(app PRIVATE twice)
add_executable(other other.cpp)
target_link_libraries(other PRIVATE hip::device)
"""
OLDER_CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(app)
find_package(HIP REQUIRED)
hip_add_executable(app main.cpp HIPCC_OPTIONS -DVALUE=42 CLANG_OPTIONS NVCC_OPTIONS -lineinfo)
add_executable(mixed host.cpp)
hip_add_library(kernels STATIC more.hip)
target_link_libraries(mixed kernels)
set_target_properties(mixed PROPERTIES LINKER_LANGUAGE HIP)
"""


@pytest.mark.slow
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has a GPU")
@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("g++") is None, reason="CMake or g++ is not installed")
def test_projects_with_g_plus_plus_use_the_macros_of_hip(tmp_path: Path) -> None:
    program = f"__device__ int twice(int x) {{ return VALUE; }}\n{RELOCATABLE}".replace("extern", "")
    (tmp_path / "main.cpp").write_text("#include <hip/hip_runtime.h>\n" + program)
    (tmp_path / "more.hip").write_text(
        KERNEL.replace("NAME", "sums").replace("VALUE", "3").replace("sums.h", "hip/hip_runtime.h")
    )
    (tmp_path / "host.cpp").write_text(
        '#include <iostream>\n#include <string>\nextern "C" int sums();\n'
        "int main() { std::cout << std::to_string(sums()) << std::endl; }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(OLDER_CMAKE)
    root = rocm_perf(tmp_path, "hipcc", "--print-root").stdout.strip()

    for arguments in (
        ("-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={root}", "-DCMAKE_CXX_COMPILER=g++"),
        ("--build", "build"),
    ):
        done = subprocess.run(["cmake", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    assert rocm_perf(tmp_path, "run", "--", "build/app").stdout == "42\n"
    assert rocm_perf(tmp_path, "run", "--", "build/mixed").stdout == "192\n"


@pytest.mark.slow
@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has a GPU")
@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
def test_cmake_finds_the_language_hip_and_the_packages(tmp_path: Path) -> None:
    (tmp_path / "twice.hip").write_text("#include <hip/hip_runtime.h>\n__device__ int twice(int x) { return 2 * x; }\n")
    (tmp_path / "main.hip").write_text(RELOCATABLE)
    (tmp_path / "other.cpp").write_text(f"__device__ int twice(int x) {{ return x; }}\n{RELOCATABLE}".replace("extern", ""))
    (tmp_path / "other.cpp").write_text("#include <hip/hip_runtime.h>\n" + (tmp_path / "other.cpp").read_text())
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    root = rocm_perf(tmp_path, "hipcc", "--print-root").stdout.strip()
    paths = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "CXX": "hipcc"}

    for arguments in (("-S", ".", "-B", "build"), ("--build", "build")):
        done = subprocess.run(["cmake", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, env=paths)
        assert done.returncode == 0, done.stdout + done.stderr

    assert rocm_perf(tmp_path, "run", "--", "build/app").stdout == "42\n"
    assert rocm_perf(tmp_path, "run", "--", "build/other").stdout == "21\n"


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
