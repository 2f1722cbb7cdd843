"""`--build-args`: arguments of the compiler, arguments of the linker, and arguments without a program as result."""

from __future__ import annotations

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.build_arguments import BuildArguments


def test_libraries_and_their_directories_belong_to_the_linker() -> None:
    found = BuildArguments.parse("-O3 -I include -DN=5 -L lib -lfoo '-Wl,-rpath,a b' extra.o -Xlinker --as-needed")

    assert found.compiler == ("-O3", "-I", "include", "-DN=5")
    assert found.linker == ("-L", "lib", "-lfoo", "-Wl,-rpath,a b", "extra.o", "-Xlinker", "--as-needed")
    assert not found.is_relocatable


def test_the_emulated_gpu_decides_about_the_architecture() -> None:
    assert BuildArguments.parse("--offload-arch=gfx90a -x hip -fgpu-rdc") == BuildArguments(
        ("-fgpu-rdc",), (), is_relocatable=True
    )


def test_options_about_the_storage_of_parts_have_no_effect() -> None:
    found = BuildArguments.parse(
        "-flto=auto -O3 --offload-new-driver -Wl,-O1 --shared --hip-link --rocm-device-lib-path=/opt/rocm"
    )

    assert (found.compiler, found.linker, found.notes) == (("-O3",), ("-Wl,-O1", "--shared"), ())


def test_openmp_is_ignored_with_a_note() -> None:
    found = BuildArguments.parse("-fopenmp -O1")

    assert found.compiler == ("-O1",)
    assert found.notes == ("-fopenmp is ignored: OpenMP regions run on one thread",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-c", "-c does not lead to a program"),
        ("-o app", "programs are kept in the cache"),
        ("-O3 -I", "-I has no value"),
        ("-DNAME='x", "No closing quotation"),
    ],
)
def test_arguments_without_a_program_are_refused(text: str, problem: str) -> None:
    with pytest.raises(LabError, match=problem):
        BuildArguments.parse(text)
