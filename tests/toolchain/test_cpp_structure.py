"""Structure of C++ texts, edits of host code, and preprocessed texts, without a compiler."""

from __future__ import annotations

import pytest

from rocm_perf_lab.toolchain.cpp_structure import CppStructure, UnbalancedBrackets
from rocm_perf_lab.toolchain.host_code import without_host_errors
from rocm_perf_lab.toolchain.host_repairs import HostRepair, host_repairs
from rocm_perf_lab.toolchain.missing_headers import MissingHeader, hint_for, host_library, missing_header
from rocm_perf_lab.toolchain.preprocessed import PreprocessedText

DECLARATIONS = """
namespace a { struct P { int x; void set(int v) { x = v; } private: float y; }; }
template <int N> __attribute__((global)) void k(float* p) { if (N) { p[0] = 1; } }
extern "C" { int host(int n) { return n; } }
constexpr int both(int n) { return n; }
static int table[] = {1, 2};
P::P(int n) : x{n}, y(0) { set(n); }
using T = int;
enum class E : int { one, two };
auto text = R"x(unbalanced { )x";
"""


def kinds(text: str, word: str) -> list[tuple[str, bool]]:
    structure = CppStructure.of(text)
    index = structure.token_at(text.index(word))
    assert index is not None
    return [(declaration.kind, declaration.is_device) for declaration in structure.enclosing(index)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("x = v", [("namespace", False), ("class", False), ("function", False)]),
        ("float y", [("namespace", False), ("class", False), ("plain", False)]),
        ("p[0]", [("function", True)]),
        ("return n; } }", [("namespace", False), ("function", False)]),
        ("both", [("function", True)]),
        ("2};", [("plain", False)]),
        ("set(n)", [("function", False)]),
        ("T = int", [("plain", False)]),
        ("two", [("class", False)]),
        ("unbalanced", [("plain", False)]),
    ],
)
def test_a_token_belongs_to_declarations(word: str, expected: list[tuple[str, bool]]) -> None:
    assert kinds(DECLARATIONS, word) == expected


def test_brackets_without_a_partner_are_reported() -> None:
    with pytest.raises(UnbalancedBrackets, match="offset 11"):
        CppStructure.of("void f() { (")


def repaired(text: str, *, times: int = 1) -> str:
    """Return a text with `@` before the error, after the smallest repair; `times` selects a larger one."""
    offset = text.index("@")
    text = text.replace("@", "")
    structure = CppStructure.of(text)
    index = structure.token_at(offset)
    assert index is not None
    repairs = host_repairs(structure, index)
    if len(repairs) < times:
        return text
    repair = repairs[times - 1]
    return text[: repair.start] + repair.replacement + text[repair.end :]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("void f() { int a; @g(a); h(); }", "void f() { int a; ; h(); }"),
        ("void f() { int n = @g(); h(n); }", "void f() { int n = {}; h(n); }"),
        ("void f() { constexpr int n = @g(); h(n); }", "void f() { ; h(n); }"),
        ("void f() { const int n = @g(); }", "void f() { const int n = *(const volatile unsigned char*)nullptr; }"),
        ("void f() { const T* p = @g(); }", "void f() { const T* p = {}; }"),
        ("void f() { if (@g()) { h(); } else h(); }", "void f() { if (true) { h(); } else h(); }"),
        ("void f() { for (int i = 0; i < @g(); ++i) h(); }", "void f() { for (;;) h(); }"),
        ("int f() { return @g(); }", "int f() { __builtin_unreachable(); }"),
        ("void f() { k<2><<<@g, 64>>>(x); }", "void f() { k<2><<<1, 1>>>(x); }"),
        ("void f() { k<2><<<1, 64>>>(x, @g(1, 2)); }", "void f() { k<2><<<1, 64>>>(x, {}); }"),
        ("void f() { @k<2><<<1, 64>>>(x); }", "void f() { (void)&k<2>; }"),
        ("void f(T<int, 2> a, @M b, int c) { h(a); }", "void f(T<int, 2> a, int, int c) { h(a); }"),
        ("template <class T> @M f(T a) { h(a); }", "template <class T> void f(T a) { h(a); }"),
        ("@TEST(a, b) { k<2><<<1, 2>>>(); }", "static void rocm_perf_lab_host_0() { k<2><<<1, 2>>>(); }"),
        ("@M world; int a;", " int a;"),
        ("struct A { int x; @M m; }; void f() {}", "struct A { int x;  }; void f() {}"),
        ("struct A : @M { int x; };", "struct A  { int x; };"),
        ("A::A() : m(@g()) { h(); }", "A::A()  { h(); }"),
        ("void f() { auto l = [](int a) { @g(a); return 1; }; }", "void f() { auto l = [](int a) { ; return 1; }; }"),
    ],
)
def test_the_smallest_repair_keeps_what_instantiates_kernels(before: str, after: str) -> None:
    assert repaired(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "__attribute__((device)) void f() { @g(); }",
        "__attribute__((global)) void f(@M m) { }",
        "constexpr int f() { return @g(); }",
        "__attribute__((constant)) @M table[4];",
        "void f() { auto l = [=] __attribute__((device)) (int i) { @g(i); }; }",
        "static_assert(@g > 2);",
        "struct A { @M m; __attribute__((device)) int get() { return 1; } };",
        "struct A { struct B { @M m; } b; __attribute__((device)) int get() { return 1; } };",
        "struct A { struct { @M m; }; __attribute__((device)) int get() { return 1; } };",
        "struct A { virtual int f(@M m) = 0; __attribute__((device)) int get() { return 1; } };",
    ],
)
def test_device_code_and_assertions_are_not_edited(text: str) -> None:
    assert repaired(text) == text.replace("@", "")


def test_a_class_that_device_code_names_is_removed_and_not_changed() -> None:
    text = "struct A { @M m; }; __attribute__((global)) void k(A a) {}"

    assert repaired(text) == " __attribute__((global)) void k(A a) {}"


def test_edits_keep_lines_and_their_origin() -> None:
    output = '# 1 "k.hip"\n# 1 "system.h" 1 3\nint system;\n# 2 "k.hip" 2\nvoid f() {\n  g(1,\n    2);\n}\nint last;\n'
    text = PreprocessedText.parse(output)
    start = text.user_text.index("g(1")
    edited = text.edited([HostRepair(start, text.user_text.index(";\n}") + 1, ";")])

    assert text.user_offset(6, 3) == start
    assert text.user_offset(3, 1) is None
    assert edited.output == output.replace("g(1,\n    2);", ";\n")
    assert (edited.origin(6), edited.origin(9), edited.origin(3)) == ("k.hip:3", "k.hip:6", "system.h:1")
    assert text.split() == ('# 1 "k.hip"\n# 1 "system.h" 1 3\nint system;\n', "\n" * 3 + output[output.index("# 2") :])


def test_removal_ends_when_only_device_errors_remain() -> None:
    output = '# 1 "k.hip"\nvoid f() { one(); }\n__attribute__((device)) void d() { two(); }\n'
    checked: list[str] = []

    def check(text: PreprocessedText) -> str:
        checked.append(text.output)
        found = (("one", 2, 12), ("two", 3, 36))
        return "\n".join(f"x.hip:{line}:{column}: error: no {name}" for name, line, column in found if name in text.output)

    removal = without_host_errors(PreprocessedText.parse(output), check)

    assert removal.text.output == output.replace("one();", ";")
    assert [(error.place, error.message) for error in removal.errors] == [("k.hip:1", "no one")]
    assert len(checked) == 2


def test_errors_in_templates_are_attributed_to_the_line_that_instantiates_them() -> None:
    output = '# 1 "k.hip"\n# 1 "lib.h" 1 3\ntemplate <class T> void lib(T t) { t.x; }\n# 2 "k.hip" 2\nvoid f() { lib(1); }\n'
    log = "x.hip:3:37: error: no member\nx.hip:5:12: note: in instantiation of function template 'lib' requested here\n"

    removal = without_host_errors(PreprocessedText.parse(output), lambda text: log if "lib(1)" in text.output else "")

    assert removal.text.output == output.replace("lib(1);", ";")


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("mpi.h", "MPI"), ("rocblas/rocblas.h", "rocBLAS"), ("gtest/gtest.h", "GoogleTest"), ("Eigen/Dense", "Eigen"),
        ("thrust/device_vector.h", "rocThrust"), ("hiprand/hiprand.h", "hipRAND"), ("hiprand/hiprand_kernel.h", None),
        ("rocwmma/rocwmma.hpp", None), ("acme.h", None), ("../mpi.h", None), ("/usr/mpi.h", None), ("benchmark/tile.h", None),
    ],
)  # fmt: skip
def test_only_headers_of_host_libraries_may_be_empty(name: str, library: str | None) -> None:
    assert host_library(name) == library


def test_a_missing_header_is_read_from_the_log() -> None:
    header = missing_header("a/k.hip:3:10: fatal error: 'acme/tile.h' file not found\n    3 | #include <acme/tile.h>\n")

    assert header == MissingHeader("acme/tile.h", "a/k.hip", 3)
    assert hint_for(header).startswith("Add the directory of acme/tile.h to include_dirs")
    assert missing_header("a/k.hip:3:10: error: no member\n") is None
