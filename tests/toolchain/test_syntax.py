"""Syntax tree of a source: its declarations with lines, without those of system headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.toolchain.build import CompileRequest
from rocm_perf_lab.toolchain.precompiled_headers import leading_includes
from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits
from rocm_perf_lab.toolchain.syntax import SyntaxTreeError, read_syntax
from tests.builders.candidates import the_compiler
from tests.builders.kernels import write_source

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """// first line
#include <hip/hip_runtime.h>
#define TWICE(x) ((x) + (x))
namespace inner { __device__ int add(int a) { return a + WIDTH; } }
template <class T> __device__ T same(T x) { return x; }

extern "C" __global__ void k(float* x, int n) {
  __shared__ int tile[64];
  tile[threadIdx.x] = TWICE(n);
  asm volatile("s_nop 0");
  x[n] = same(1.0f) + inner::add(tile[0]);
}
"""


def test_the_tree_has_the_declarations_of_the_source_with_macros_and_templates_resolved(tmp_path: Path) -> None:
    request = CompileRequest(write_source(SOURCE, tmp_path), defines={"WIDTH": 3})

    root = read_syntax(request, compiler=the_compiler())

    functions = {n.name: n for n in root.walk() if n.kind == "FunctionDecl" and n.line}
    assert set(functions) == {"add", "same", "k"}
    assert functions["k"].line == 7
    assert functions["k"].type == "void (float *, int)"
    assert functions["k"].attributes() == ("CUDAGlobalAttr",)
    assert [n.line for n in root.walk() if n.kind == "GCCAsmStmt"] == [10]
    assert {n.value for n in functions["add"].walk() if n.kind == "IntegerLiteral"} == {"3"}
    assert {n.type for n in root.walk() if n.kind == "FunctionDecl" and n.name == "same"} == {"T (T)", "float (float)"}


def test_precompiled_headers_are_reused(tmp_path: Path) -> None:
    request = CompileRequest(write_source(SOURCE, tmp_path), defines={"WIDTH": 3})
    first = read_syntax(request, compiler=the_compiler())

    assert read_syntax(request, compiler=the_compiler()) == first


def test_headers_of_the_user_may_include_system_headers(tmp_path: Path) -> None:
    header = "#pragma once\n#include <hip/hip_runtime.h>\n__device__ inline int one() { return 1; }\n"
    (tmp_path / "own.h").write_text(header)
    source = write_source('#include "own.h"\n__global__ void k(int* x) { x[0] = one(); }\n', tmp_path)

    root = read_syntax(CompileRequest(source, include_dirs=(tmp_path,)), compiler=the_compiler())

    assert {n.name for n in root.walk() if n.kind == "FunctionDecl" and n.line} == {"k"}


def test_a_source_that_does_not_compile_has_no_tree(tmp_path: Path) -> None:
    request = CompileRequest(write_source("int f( {", tmp_path))

    with pytest.raises(SyntaxTreeError, match="expected"):
        read_syntax(request, compiler=the_compiler())


def test_the_sandbox_does_not_change_the_tree_and_hides_other_files(tmp_path: Path) -> None:
    sandbox = Sandbox()
    source = write_source(SOURCE, tmp_path)
    request = CompileRequest(source, defines={"WIDTH": 3})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.h").write_text("int secret;\n")
    private = tmp_path / "private"
    private.mkdir()
    curious = write_source(f'#include "{elsewhere}/secret.h"\n', private)

    assert read_syntax(request, compiler=the_compiler(), sandbox=sandbox) == read_syntax(request, compiler=the_compiler())
    assert [
        n.name for n in read_syntax(CompileRequest(curious), compiler=the_compiler()).walk() if n.kind == "TranslationUnitDecl"
    ]
    if sandbox.protection().files:
        with pytest.raises(SyntaxTreeError, match="secret"):
            read_syntax(CompileRequest(curious), compiler=the_compiler(), cache_dir=tmp_path / "cache", sandbox=sandbox)


def test_parsing_in_the_sandbox_has_a_time_limit(tmp_path: Path) -> None:
    loop = (
        "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; }\nconstexpr long v = f(1L << 60);"
    )
    source = write_source(f"{loop}\n", tmp_path)
    request = CompileRequest(source, flags=("-fconstexpr-steps=2147483647",))

    with pytest.raises(SyntaxTreeError, match=r"it took more than 2 s"):
        read_syntax(request, compiler=the_compiler(), sandbox=Sandbox(SandboxLimits(seconds=2)))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", ()),
        (b"#include <a.h>\r\n\r\n  # include <b/c.h> // why\n/* x\n y */\n#pragma once\n#include <d>\nint x;\n#include <e>\n",
         ("<a.h>", "<b/c.h>", "<d>")),
        (b'#include "own.h"\n#include <a.h>\n', ('"own.h"', "<a.h>")),
        (b"#define X\n#include <a.h>\n", ()),
        (b"#include <a.h>", ("<a.h>",)),
    ],
)  # fmt: skip
def test_leading_includes_end_with_the_first_other_line(content: bytes, found: tuple[str, ...]) -> None:
    assert leading_includes(content) == found


def test_an_expression_of_1000_terms_is_read_in_order(tmp_path: Path) -> None:
    terms = " + ".join(f"x[{i}]" for i in range(1000))
    text = '__device__ const char* text() { return "{\\"inner\\": [{"; }\n'
    text += f"__global__ void k(int* x) {{ x[0] = {terms}; }}\n"
    request = CompileRequest(write_source(f"#include <hip/hip_runtime.h>\n{text}", tmp_path))

    root = read_syntax(request, compiler=the_compiler(), sandbox=Sandbox())

    nodes = list(root.walk())
    assert [n.value for n in nodes if n.kind == "IntegerLiteral"] == ["0", *map(str, range(1000))]
    assert sum(n.kind == "BinaryOperator" and n.opcode == "+" for n in nodes) == 999
    assert [n.value for n in nodes if n.kind == "StringLiteral"] == ['"{\\"inner\\": [{"']
