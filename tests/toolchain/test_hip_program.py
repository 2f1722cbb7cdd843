"""HIP sources become an executable: host and device parts, headers, several sources, caches, errors."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rocm_perf_lab.core.resources import cache_dir, zig_environment
from rocm_perf_lab.toolchain.build_arguments import BuildArguments
from rocm_perf_lab.toolchain.bundles import bundled_architectures, unpack_code_objects
from rocm_perf_lab.toolchain.compiler_run import CompileError
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.fat_binary import offload_bundle
from rocm_perf_lab.toolchain.hip_program import HipProgram, build_objects, build_program

_RUNTIME = """
#include <stdio.h>
void **__hipRegisterFatBinary(void *wrapper) { return (void **)wrapper; }
void __hipUnregisterFatBinary(void **handle) { (void)handle; }
void __hipRegisterFunction(void **module, const void *host, char *device, const char *name) { printf("kernel %s\\n", name); }
int __hipPushCallConfiguration(void) { return 0; }
int __hipPopCallConfiguration(void) { return 0; }
int hipLaunchKernel(void) { return 0; }
"""
"""The part of a HIP runtime that an executable calls before and after main: it prints the kernels that are registered."""

_NO_RUNTIME = Path("libamdhip64.so")
"""For programs that do not compile."""
_TWICE = "#pragma once\n#include <hip/hip_runtime.h>\n__device__ int twice(int value);\n"
_MAIN = """
#include "twice.h"
#include <iostream>
#include <ranges>
__global__ void kernel(int *values) { values[threadIdx.x] = twice(threadIdx.x); }
int main(int argc, char **) {
  int sum = 0;
  for (int value : std::views::iota(0, argc + SHIFT)) sum += value;
  try { throw sum; } catch (int caught) { std::cout << "sum " << caught << std::endl; }
}
"""
_OTHER = '#include "twice.h"\n__device__ int twice(int value) { return 2 * value; }\n__global__ void other() {}\n'
_HIDDEN = "static __global__ void hidden() {}\nvoid *address_of_hidden() { return reinterpret_cast<void *>(&hidden); }\n"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library with the functions that executables call at their start."""
    directory = tmp_path_factory.mktemp("runtime")
    (directory / "runtime.c").write_text(_RUNTIME)
    library = directory / "libamdhip64.so"
    command = [find_compiler(("pip",)).command[0], "cc", "-shared", "-fPIC", str(directory / "runtime.c"), "-o", str(library)]
    subprocess.run(command, check=True, env=zig_environment())
    return library


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HipProgram:
    """Return a program of two sources, whose device code is linked."""
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(cache_dir() / "zig"))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "twice.h").write_text(_TWICE)
    (tmp_path / "main.hip").write_text(_MAIN)
    (tmp_path / "other.cpp").write_text(_OTHER + _HIDDEN)
    arguments = BuildArguments.parse(f"-O1 -fgpu-rdc -std=c++20 -DSHIFT=3 -I{tmp_path / 'include'}")
    return HipProgram((tmp_path / "main.hip", tmp_path / "other.cpp"), ("gfx942",), arguments)


def output_of(path: Path, runtime: Path) -> list[str]:
    done = subprocess.run(
        [path, "word"], capture_output=True, text=True, check=True, env={"LD_LIBRARY_PATH": str(runtime.parent)}
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_sources_become_one_executable_that_is_built_again_only_after_a_change(
    program: HipProgram, runtime: Path, tmp_path: Path
) -> None:
    first = build_program(program, lambda: runtime, tmp_path / "cache")

    assert first.compiled == 4
    lines = output_of(first.path, runtime)
    registered = {line.removeprefix("kernel ") for line in lines if line.startswith("kernel ")}
    assert {name for name in registered if "hidden" not in name} == {"_Z5otherv", "_Z6kernelPi"}
    assert len(registered) == 3 and "sum 10" in lines
    content = first.path.read_bytes()
    assert bundled_architectures(content) == ("gfx942",)
    (code,) = unpack_code_objects(content, "gfx942")
    assert {kernel.symbol.removesuffix(".kd") for kernel in read_code_object(code).kernels} == registered, "also the static one"
    assert build_program(program, lambda: runtime, tmp_path / "cache") == replace(first, compiled=0, warnings="")

    (tmp_path / "include" / "twice.h").write_text(f"{_TWICE}// changed\n")
    first.path.write_bytes(b"damaged")
    again = build_program(program, lambda: runtime, tmp_path / "cache")

    assert again.compiled == 4
    assert output_of(again.path, runtime)[-1] == "sum 10"


def test_an_error_is_the_text_of_the_compiler_once(tmp_path: Path) -> None:
    source = tmp_path / "main.hip"
    source.write_text("int twice(int);\nint main() { return twice(); }\n")

    with pytest.raises(CompileError) as error:
        build_program(HipProgram((source,), ("gfx942",)), lambda: _NO_RUNTIME, tmp_path / "cache")

    what = error.value.what.splitlines()
    assert what[:2] == ["the program does not compile:", f"{source}:2:21: error: no matching function for call to 'twice'"]
    assert f"{source}:1:5: note: candidate function not viable: requires 1 argument, but 0 were provided" in what
    assert what[-1] == "1 error generated when compiling for host."


@pytest.mark.parametrize(
    ("header", "what", "hint"),
    [
        ("rocprim/rocprim.hpp", "rocprim/rocprim.hpp is a header of rocPRIM, which is not installed", "--build-args"),
        ("hiprand/hiprand_kernel.h", "hiprand/hiprand_kernel.h is a header of hipRAND's device functions", "make rocm-root"),
        ("cuda_runtime.h", "the header cuda_runtime.h was not found", "hipify"),
        ("mine.h", "the header mine.h was not found", "-I DIR"),
    ],
)
def test_a_missing_header_is_named_with_its_library(header: str, what: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(f"#include <{header}>\nint main() {{}}\n")

    with pytest.raises(CompileError) as error:
        build_program(HipProgram((tmp_path / "main.cu",), ("gfx942",)), lambda: _NO_RUNTIME, tmp_path / "cache")

    assert error.value.what.startswith(what)
    assert hint in (error.value.hint or "")
    assert (error.value.where or "").endswith("main.cu:1")


ANNOTATED = """
#include <hip/hip_runtime.h>
#include <hip/hip_hcc.h>
#include <hip/hip_profile.h>
#include <rocprofiler-sdk-roctx/roctx.h>
#include <roctracer/roctx.h>
#include <roctx.h>
int main() {
  HIP_SCOPED_MARKER("all", "main");
  roctx_range_id_t range = roctxRangeStart("range");
  roctxRangePush("step");
  roctxMark("mark");
  roctxRangePop();
  roctxRangeStop(range);
}
"""


OF_GNU = """
#include <bits/stdc++.h>
#include <cxxabi.h>
#include <hip/hip_runtime.h>
using namespace std;
__global__ void kernel(int* x) { *x = 1; }
struct Later : binary_function<int, int, bool> {
  bool operator()(int a, int b) const { return a > b; }
};
int main() {
  vector<int> numbers{1, 2, 3};
  random_shuffle(numbers.begin(), numbers.end());
  sort(numbers.begin(), numbers.end(), Later());
  auto_ptr<int> owner(new int(count_if(numbers.begin(), numbers.end(), bind2nd(greater<int>(), 1))));
  cout << *owner << uncaught_exception();
  map<string, vector<int>> words{{"a", {1, 2}}};
  int status;
  cout << words["a"].size() << abi::__cxa_demangle(typeid(words).name(), nullptr, nullptr, &status);
}
"""


@pytest.mark.parametrize("standard", [11, 17, 20])
def test_headers_of_gnu_are_found(standard: int, tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text(OF_GNU)
    program = HipProgram((tmp_path / "main.hip",), ("gfx942",), BuildArguments.parse(f"-std=c++{standard}"))

    (built,) = build_objects(program, tmp_path / "cache", with_device_code=False)

    assert b"__cxa_demangle" in built.content


WITHOUT_STANDARD_HEADERS = """
#include <hip/hip_runtime.h>
__global__ void kernel(int32_t* x) { assert(x); *x = INT_MAX; }
int main() {
  char text[8];
  memset(text, 0, sizeof text);
  assert(std::max(1, 2) == 2);
  printf("%g %d\\n", fabs(-1.0) + std::numeric_limits<float>::max(), abs(-1));
  exit(0);
}
"""


def test_programs_may_rely_on_headers_that_rocm_6_includes(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text(WITHOUT_STANDARD_HEADERS)

    (built,) = build_objects(HipProgram((tmp_path / "main.hip",), ("gfx942",)), tmp_path / "cache", with_device_code=False)

    assert b"printf" in built.content


def test_annotations_of_programs_compile(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text(ANNOTATED)
    program = HipProgram((tmp_path / "main.hip",), ("gfx942",), BuildArguments.parse("-Werror -Wall"))

    (built,) = build_objects(program, tmp_path / "cache", with_device_code=False)

    assert b"roctxRangeStartA" in built.content


def test_a_missing_source_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="the source file does not exist"):
        build_program(HipProgram((tmp_path / "missing.hip",), ("gfx942",)), lambda: _NO_RUNTIME, tmp_path / "cache")


def test_a_bundle_is_read_as_one_of_clang() -> None:
    bundle = offload_bundle({"gfx942": b"code of gfx942", "gfx90a": b"other"})

    assert bundled_architectures(bundle) == ("gfx90a", "gfx942")
    assert unpack_code_objects(bundle, "gfx942") == (b"code of gfx942",)
    assert unpack_code_objects(bundle, "gfx90a") == (b"other",)
