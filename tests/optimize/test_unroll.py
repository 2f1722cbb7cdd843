"""Unrolling: the rewritten text, and its effect on the machine code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.loops import loops_of
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.unroll import UnrollLoops
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HEAD = 'extern "C" __global__ void k(float* a, int n) {\n'
LOOP = "for (int i = 0; i < n; ++i) a[i] = 0;"
TWO_LOOPS = HEAD + "  for (int i = 0; i < n; ++i)\n    for (int j = 0; j < n; ++j) a[i + j] = 0;\n}\n"


def propose(source: str, *factors: int) -> tuple[Rewrite, ...]:
    return UnrollLoops(factors=factors).propose(parse_source(source.encode(), "k"))


def unrolled(body: str, factor: int = 2) -> list[str]:
    """Bodies of the rewrites of a kernel with this body."""
    return [rewrite.text.removeprefix(HEAD).removesuffix("}\n") for rewrite in propose(f"{HEAD}{body}}}\n", factor)]


def machine_codes(sources: Sequence[str], directory: Path) -> list[bytes]:
    """Compile several versions of the kernel `k` in one build and return the machine code of each."""
    named = [source.replace("void k(", f"void k{number}(") for number, source in enumerate(sources)]
    code_object = build_hip("\n".join(named), directory).code_object
    elf, kernels = parse_elf(code_object.data), [find_kernel(code_object, f"k{number}") for number in range(len(sources))]
    return [elf.read(kernel.entry_address, kernel.code_bytes) for kernel in kernels]


# The text


def test_a_pragma_is_inserted_before_the_loop_with_its_indentation() -> None:
    assert unrolled(f"  a[0] = 1;\n\t {LOOP}\n", 4) == [f"  a[0] = 1;\n\t #pragma unroll 4\n\t {LOOP}\n"]


def test_each_loop_is_unrolled_by_each_factor_then_all_together() -> None:
    rewrites = propose(TWO_LOOPS, 4, 2)

    assert [rewrite.description for rewrite in rewrites] == [
        "unroll by 2 the loop at line 2",
        "unroll by 4 the loop at line 2",
        "unroll by 2 the loop at line 3",
        "unroll by 4 the loop at line 3",
        "unroll by 2 the loops at line 2, 3",
        "unroll by 4 the loops at line 2, 3",
    ]
    assert rewrites[4].text == (
        HEAD + "  #pragma unroll 2\n  for (int i = 0; i < n; ++i)\n"
        "    #pragma unroll 2\n    for (int j = 0; j < n; ++j) a[i + j] = 0;\n}\n"
    )


def test_a_single_loop_is_not_proposed_twice() -> None:
    assert len(propose(f"{HEAD}{LOOP}\n}}\n", 2, 4, 8)) == 3


def test_repeated_factors_are_merged() -> None:
    assert propose(TWO_LOOPS, 2, 2) == propose(TWO_LOOPS, 2)


@pytest.mark.parametrize(
    "old", ["#pragma unroll", "#pragma unroll 8", "#pragma unroll(8)", "# pragma unroll 8 // why", "#pragma unroll 1"]
)
@pytest.mark.parametrize("between", ["", "\n", "  // a comment\n"])
def test_an_existing_pragma_is_replaced_in_place(old: str, between: str) -> None:
    assert unrolled(f"  {old}\n{between}  {LOOP}\n") == [f"  #pragma unroll 2\n{between}  {LOOP}\n"]


def test_a_loop_with_the_same_factor_is_not_proposed() -> None:
    assert unrolled(f"#pragma unroll 4\n{LOOP}\n", 4) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"if (n) {LOOP}", f"if (n) \n#pragma unroll 2\n{LOOP}"),
        (f"a[0] = 1; {LOOP} a[1] = 2;", f"a[0] = 1; \n#pragma unroll 2\n{LOOP} a[1] = 2;"),
        (f"/* why */ {LOOP}", f"/* why */ \n#pragma unroll 2\n{LOOP}"),
        (f"  }} else {LOOP}", f"  }} else \n#pragma unroll 2\n{LOOP}"),
    ],
)
def test_code_before_the_loop_on_its_line_is_preserved(line: str, expected: str) -> None:
    before = "if (n > 9) {\n" if line.startswith("  }") else ""

    assert unrolled(f"{before}{line}\n") == [f"{before}{expected}\n"]


def test_two_loops_on_one_line_both_get_their_pragma() -> None:
    both = unrolled("for (;;) for (int j = 0; j < n; ++j) a[j] = 0;\n")[-1]

    assert both == "#pragma unroll 2\nfor (;;) \n#pragma unroll 2\nfor (int j = 0; j < n; ++j) a[j] = 0;\n"


def test_crlf_files_stay_crlf() -> None:
    source = f"{HEAD}  {LOOP}\n  #pragma unroll\n  {LOOP}\n  if (n) {LOOP}\n}}\n".replace("\n", "\r\n")

    text = propose(source, 2)[-1].text

    assert text.count("#pragma unroll 2\r\n") == 3
    assert not re.search("(?<!\r)\n", text)


def test_non_ascii_text_before_the_loop_moves_nothing() -> None:
    assert unrolled(f"  // größe ∑ 𝄞\n  {LOOP}\n") == [f"  // größe ∑ 𝄞\n  #pragma unroll 2\n  {LOOP}\n"]


def test_a_file_may_end_without_a_newline() -> None:
    assert propose(f"{HEAD}{LOOP} }}", 2)[0].text == f"{HEAD}#pragma unroll 2\n{LOOP} }}"


def test_a_loop_in_a_macro_is_left_alone() -> None:
    macro = "#define ZERO(a, n) \\\n  for (int i = 0; i < n; ++i) \\\n    a[i] = 0\n"

    assert propose(f"{macro}{HEAD}ZERO(a, n);\n}}\n", 2) == ()
    assert [rewrite.text.startswith(macro) for rewrite in propose(f"{macro}{HEAD}ZERO(a, n);\n{LOOP}\n}}\n", 2)] == [True]


def test_loops_that_are_left_alone_are_named_with_the_reason() -> None:
    source = HEAD + "for (int i = 0; i < n; ++i)\n  __syncthreads();\nwhile (a[0] > 0) a[0] -= 1;\n" + LOOP + "\n}\n"
    unit = parse_source(source.encode(), "k")

    assert UnrollLoops().rejections(unit) == (
        Rejection(2, "contains a barrier (line 3)"),
        Rejection(4, "is not a for loop"),
    )
    assert [rewrite.description for rewrite in UnrollLoops(factors=[2]).propose(unit)] == ["unroll by 2 the loop at line 5"]


@pytest.mark.parametrize("factors", [[], [1], [0], [-4], [9], [2, 16], [2.5], ["4"], [True]])
def test_factors_out_of_range_are_refused(factors: list[int]) -> None:
    with pytest.raises(LabError, match="unroll factors must be integers from 2 to 8, not") as caught:
        UnrollLoops(factors=factors)

    assert caught.value.where == "optimizer.transforms: factors"


# For any kernel

STATEMENTS = st.sampled_from(
    [
        "a[0] = 1;\n",
        "  // größe: for (;;)\n",
        f"  {LOOP}\n",
        f"if (n) {LOOP}\n",
        f"if (n)\n  {LOOP}\nelse\n  {LOOP}\n",
        "  for (int j = 0; j < n; ++j) {\n\tfor (int i : v) { a[i] = 0; }\n  }\n",
        "for (int i = 0; i < n; ++i) __syncthreads();\n",
        "#if X\n#endif\n",
        "\n",
    ]
)


@given(statements=st.lists(STATEMENTS, max_size=6), factor=st.integers(2, 8), crlf=st.booleans())
def test_without_its_pragmas_a_rewrite_is_the_source(statements: list[str], factor: int, crlf: bool) -> None:
    source = HEAD + "int v[2] = {0, 1};\n" + "".join(statements) + "}\n"
    newline = "\r\n" if crlf else "\n"
    source = source.replace("\n", newline)
    on_own_line = re.compile(rf"(?m)^[ \t]*#pragma unroll {factor}{newline}")
    behind_text = re.compile(rf"(?m)(?<= ){newline}#pragma unroll {factor}{newline}")

    for rewrite in propose(source, factor):
        assert on_own_line.sub("", behind_text.sub("", rewrite.text)) == source


@given(statements=st.lists(STATEMENTS, max_size=4), factor=st.integers(2, 8))
def test_a_rewrite_has_the_same_loops_as_the_source(statements: list[str], factor: int) -> None:
    source = HEAD + "int v[2] = {0, 1};\n" + "".join(statements) + "}\n"
    loops = [(loop.header, (loop.obstacle or "").partition(" (")[0]) for loop in loops_of(parse_source(source.encode(), "k"))]

    for rewrite in propose(source, factor):
        found = loops_of(parse_source(rewrite.text.encode(), "k"))
        assert [(loop.header, (loop.obstacle or "").partition(" (")[0]) for loop in found] == loops


# The machine code


BODIES = (
    "if (n > 3) LOOP\na[9] = 1;\n",
    "if (n > 3)\n  LOOP\nelse\n  LOOP\na[9] = 1;\n",
    "if (n > 3) a[8] = 2; else LOOP\na[9] = 1;\n",
    "for (int j = 0; j < n; ++j)\n  LOOP\na[9] = 1;\n",
    "while (a[7] > 0) LOOP\na[9] = 1;\n",
    "switch (n) { case 0: LOOP break; default: a[9] = 1; }\n",
    "[[clang::nomerge]] LOOP\n",
)
INNER_LOOP = "for (int i = 0; i < n; ++i) a[i] += a[i + n];"


def plain_and_braced(body: str) -> tuple[str, str]:
    """Return the unrolled kernel, and the one with braces around its loops."""
    source = f"{HEAD}{body.replace('LOOP', INNER_LOOP)}}}\n"
    return propose(source, 4)[-1].text, propose(source.replace(INNER_LOOP, "{ " + INNER_LOOP + " }"), 4)[-1].text


@pytest.fixture(scope="module")
def compiled_bodies(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Machine code of both versions of every body, from one build."""
    return machine_codes([text for body in BODIES for text in plain_and_braced(body)], tmp_path_factory.mktemp("bodies"))


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_unrolling_does_not_depend_on_braces_around_the_loop(number: int, compiled_bodies: list[bytes]) -> None:
    plain, braced = plain_and_braced(BODIES[number])

    assert plain.count("#pragma unroll 4") == braced.count("#pragma unroll 4") >= 1
    assert compiled_bodies[2 * number] == compiled_bodies[2 * number + 1]


def test_the_compiler_accepts_every_rewrite(tmp_path: Path) -> None:
    bodies = (
        "#pragma unroll(8)\n\n// why\nLOOP\n",
        "#pragma clang loop vectorize(disable)\nLOOP\n",
        "int v[3] = {1, 2, 3};\nfor (int x : v) a[x * n] += 1;\n",
        "auto f = [&](int m) { LOOP };\nf(1);\n",
    )
    rewrites = [propose(f"{HEAD}{body.replace('LOOP', LOOP)}}}\n", 2) for body in bodies]

    assert all(rewrites)
    assert all(machine_codes([rewrite.text for group in rewrites for rewrite in group], tmp_path))


def test_a_pragma_changes_the_code_of_its_loop(tmp_path: Path) -> None:
    source = HEAD + "for (int i = 0; i < n; ++i) a[i] = a[i] * a[i] + 1;\n}\n"

    versions = set(machine_codes([source, *(r.text for r in propose(source, 2, 8))], tmp_path))

    assert len(versions) == 3
