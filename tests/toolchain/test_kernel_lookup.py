"""Accepted names of kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.demangle import base_name, demangle, without_parameters
from rocm_perf_lab.toolchain.kernel_lookup import KernelNotFound, find_kernel, find_kernel_of
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

KERNELS = """
#include <hip/hip_runtime.h>
extern "C" __global__ void plain(float* a) { a[0] = 1; }
__global__ void scale(float* a) { a[0] = 2; }
__global__ void scale(double* a) { a[0] = 3; }
namespace blas {
template <int N, typename T> __global__ void tile(T* a) { a[N] = 4; }
template __global__ void tile<16, float>(float*);
template __global__ void tile<32, _Float16>(_Float16*);
}
namespace { __global__ void hidden(float* a) { a[0] = 5; } }
void launch(float* a) { hidden<<<1, 1>>>(a); }
"""


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(KERNELS, tmp_path_factory.mktemp("lookup")).code_object


@pytest.mark.parametrize(
    ("entry", "symbol"),
    [
        ("plain", "plain"),
        ("_Z5scalePf", "_Z5scalePf"),
        ("scale(double*)", "_Z5scalePd"),
        ("scale( float * )", "_Z5scalePf"),
        ("blas::tile<16, float>", "_ZN4blas4tileILi16EfEEvPT0_"),
        ("blas::tile<32,_Float16>", "_ZN4blas4tileILi32EDF16_EEvPT0_"),
        ("void blas::tile<16, float>(float*)", "_ZN4blas4tileILi16EfEEvPT0_"),
        ("hidden", "_ZN12_GLOBAL__N_16hiddenEPf"),
    ],
)
def test_a_kernel_is_found_by(code_object: CodeObject, entry: str, symbol: str) -> None:
    assert find_kernel(code_object, entry).symbol == symbol


def test_ambiguous_overloads_are_an_error(code_object: CodeObject) -> None:
    with pytest.raises(KernelNotFound, match="matches 2 kernels") as refusal:
        find_kernel(code_object, "scale")

    assert "scale(double*)  [_Z5scalePd]" in refusal.value.what


def test_ambiguous_template_instances_are_an_error(code_object: CodeObject) -> None:
    with pytest.raises(KernelNotFound, match="matches 2 kernels"):
        find_kernel(code_object, "blas::tile")


def test_the_most_exact_spelling_wins_in_any_of_several_code_objects(code_object: CodeObject) -> None:
    first = [kernel for kernel in code_object.kernels if kernel.symbol == "_Z5scalePf"]
    tile = next(kernel for kernel in code_object.kernels if "tileILi16" in kernel.symbol)
    renamed = replace(tile, symbol="scale", name="scale")

    assert find_kernel_of([*first, renamed], "scale") is renamed
    assert find_kernel_of([*first, *first], "scale") is first[0]


def test_a_message_about_thousands_of_kernels_is_short(code_object: CodeObject) -> None:
    many = [replace(code_object.kernels[0], symbol=f"k{number}", name=f"k{number}") for number in range(1000)]

    with pytest.raises(KernelNotFound, match="976 others") as refusal:
        find_kernel_of(many, "absent")

    assert len(refusal.value.what.splitlines()) == 26


def test_an_unknown_name_is_reported_with_the_nearest_and_the_list(code_object: CodeObject) -> None:
    with pytest.raises(KernelNotFound, match="Did you mean 'plain'") as refusal:
        find_kernel(code_object, "plane")

    assert "blas::tile<32, _Float16>" in refusal.value.what


@pytest.mark.parametrize(
    ("symbol", "full", "bare"),
    [
        ("_Z7vecCopyPdS_", "vecCopy(double*, double*)", "vecCopy"),
        ("_ZN12_GLOBAL__N_11kEPf", "(anonymous namespace)::k(float*)", "(anonymous namespace)::k"),
        ("_Z1kILi4EEvPKf", "void k<4>(float const*)", "k"),
        ("not_mangled", "not_mangled", "not_mangled"),
        ("_Zbroken", "_Zbroken", "_Zbroken"),
    ],
)
def test_symbols_are_demangled(symbol: str, full: str, bare: str) -> None:
    assert (demangle(symbol), base_name(demangle(symbol))) == (full, bare)


def test_template_arguments_are_kept_without_parameters() -> None:
    assert without_parameters("void (anonymous namespace)::k<4, float>(float const*)") == ("(anonymous namespace)::k<4, float>")
