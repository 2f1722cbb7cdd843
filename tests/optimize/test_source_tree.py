"""Finding a kernel in its source."""

from __future__ import annotations

import pytest

from rocm_perf_lab.optimize.loops import Loop, loops_of
from rocm_perf_lab.optimize.source_tree import SourceError, parse_source

LOOP = "for (int i = 0; i < 4; ++i) a[i] = 0;"


def loops(source: str, entry: str = "k") -> tuple[Loop, ...]:
    return loops_of(parse_source(source.encode(), entry))


@pytest.mark.parametrize(
    "definition",
    [
        "__global__ void k(float* a) { LOOP }",
        'extern "C" __global__ void k(float* a) { LOOP }',
        'extern "C" {\n__global__ void k(float* a) { LOOP }\n}',
        "static __global__ void k(float* a) { LOOP }",
        "template <int N>\n__global__ void k(float* a) { LOOP }",
        "template <typename T, int N> __global__ void __launch_bounds__(N) k(T* a) { LOOP }",
        "__global__ void __launch_bounds__(256) k(float* a) { LOOP }",
        "__global__ __launch_bounds__(256, 2) void k(float* a) { LOOP }",
        'extern "C" __launch_bounds__(256) __global__ void k(float* a) { LOOP }',
        "__attribute__((amdgpu_flat_work_group_size(64, 64))) __global__ void k(float* a) { LOOP }",
        "__global__ void __attribute__((amdgpu_waves_per_eu(2))) k(float* a) { LOOP }",
        "[[gnu::noinline]] __global__ void k(float* a) { LOOP }",
        "namespace outer { namespace { __global__ void k(float* a) { LOOP } } }",
        "__global__ auto k(float* a) -> void { LOOP }",
        "__global__ void k(float* a);\n__global__ void k(float* a) { LOOP }",
        '#define KERNEL extern "C" __global__\nKERNEL void k(float* a) { LOOP }',
        "#define INNER __global__\n#define KERNEL INNER\nKERNEL void k(float* a) { LOOP }",
        "\ufeff__global__ void k(float* a) { LOOP }",
    ],
)
def test_a_kernel_is_found_in_every_form_of_declaration(definition: str) -> None:
    source = definition.replace("LOOP", LOOP)

    (loop,) = loops(source)

    assert source.encode()[loop.start :].startswith(b"for (int i")
    assert (loop.function, loop.header, loop.obstacle) == ("k", "for (int i = 0; i < 4; ++i)", None)


def test_the_entry_selects_one_of_several_kernels() -> None:
    source = f"__global__ void one(float* a) {{ {LOOP} }}\n__global__ void two(float* a) {{ {LOOP} {LOOP} }}\n"

    assert [loop.line for loop in loops(source, "one")] == [1]
    assert [loop.line for loop in loops(source, "two")] == [2, 2]


@pytest.mark.parametrize("entry", ["_Z5scalePf", "_ZN3lab5scaleEPf", "_Z5scaleILi4EEvPf"])
def test_an_entry_may_be_mangled(entry: str) -> None:
    assert len(loops(f"__global__ void scale(float* a) {{ {LOOP} }}", entry)) == 1


def test_kernels_of_one_name_are_distinguished_by_namespace() -> None:
    source = "namespace one { __global__ void k(float* a) {} }\nnamespace two { __global__ void k(float* a) { " + LOOP + " } }"

    assert len(loops(source, "_ZN3one1kEPf")) == 0
    assert len(loops(source, "_ZN3two1kEPf")) == 1


def test_a_missing_kernel_is_reported_with_the_existing_ones() -> None:
    with pytest.raises(SourceError) as caught:
        parse_source(b"__global__ void b() {}\n__global__ void a() {}\n__device__ void k() {}\n", "k")

    assert caught.value.lines() == ["the source has no kernel 'k'", "   at: kernel.entry", " hint: kernels in it: a, b"]


def test_overloads_are_rejected_with_their_lines() -> None:
    with pytest.raises(SourceError) as caught:
        parse_source(b"__global__ void k(int* a) {}\n\n__global__ void k(float* a) {}\n", "k")

    assert caught.value.what == "the source has 2 kernels 'k' (lines 1, 3)"


@pytest.mark.parametrize("source", ["", "\n", "// __global__ void k() {}", 'const char* s = "__global__ void k() {}";'])
def test_kernels_in_comments_and_strings_are_ignored(source: str) -> None:
    with pytest.raises(SourceError, match="kernels in it: none"):
        parse_source(source.encode(), "k")


def test_a_source_that_cannot_be_parsed_is_reported_with_a_line() -> None:
    split_by_preprocessor = (
        f"\n__global__ void k(float* a) {{\n#if FAST\n  for (;;) {{\n#else\n  if (1) {{\n#endif\n  {LOOP} }}\n}}\n"
    )

    with pytest.raises(SourceError, match=r"line 2 cannot be parsed"):
        parse_source(split_by_preprocessor.encode(), "k")


def test_a_signature_ignores_white_space_and_comments() -> None:
    one = parse_source(b"__global__ void k(const float* __restrict__ a, int n) {}", "k")
    other = parse_source(b"__global__ void k( const float *__restrict__ a, // in\n\tint n ) { n += 1; }", "k")

    assert one.signature() == other.signature() == "k ( const float * __restrict__ a , int n )"
