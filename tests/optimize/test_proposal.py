"""Proposals: equal texts are one proposal, and a diff makes the best source out of the baseline with the usual tools."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.optimize.proposal import Proposal

if TYPE_CHECKING:
    from pathlib import Path

GIT = ("git", "apply", "--whitespace=nowarn")
PATCH = ("patch", "--binary", "-p1", "-i")
TOOLS = [
    pytest.param(tool, marks=pytest.mark.skipif(shutil.which(tool[0]) is None, reason="not installed"), id=tool[0])
    for tool in (GIT, PATCH)
]

LOOP = "void k() {\n  for (;;) {}\n}\n"
UNROLLED = "void k() {\n  #pragma unroll 4\n  for (;;) {}\n}\n"

REWRITES = {
    "a line more": (LOOP, UNROLLED),
    "a line less": (UNROLLED, LOOP),
    "no final newline in both": (LOOP.rstrip("\n"), UNROLLED.rstrip("\n")),
    "the last line itself, without newline": ("a\nfor (;;)", "a\n#pragma unroll 2\nfor (;;) "),
    "a final newline more": (LOOP.rstrip("\n"), LOOP),
    "a final newline less": (LOOP, LOOP.rstrip("\n")),
    "CRLF": (LOOP.replace("\n", "\r\n"), UNROLLED.replace("\n", "\r\n")),
    "CRLF without final newline": (LOOP.rstrip("\n").replace("\n", "\r\n"), UNROLLED.rstrip("\n").replace("\n", "\r\n")),
    "mixed newlines": (LOOP.replace("\n", "\r\n", 1), UNROLLED.replace("\n", "\r\n", 2)),
    "non-ASCII": (f"// größe ∑\n{LOOP}", f"// größe ∑\n{UNROLLED}"),
    "characters that Python takes for newlines": (
        f"// \f \v \x1c \x85 \u2028 x\ry\n{LOOP}",
        f"// \f \v \x1c \x85 \u2028 x\ry\n{UNROLLED}",
    ),
    "changes far apart": ("x\n" * 30, "y\n" + "x\n" * 28 + "z\n"),
}


def source(text: str, parent: Proposal | None = None) -> Proposal:
    return Proposal.of(text, transform="unroll", description="by 4", parent=parent)


def apply(diff: str, before: str, directory: Path, tool: tuple[str, ...], name: str) -> str:
    (directory / name).write_bytes(before.encode())
    (directory / "best.diff").write_bytes(diff.encode())
    run = subprocess.run([*tool, "best.diff"], cwd=directory, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return (directory / name).read_bytes().decode()


def test_an_id_is_the_start_of_the_sha256_of_the_text() -> None:
    assert source("a\nb\nc\n").id == "880553fca8fc"  # printf 'a\nb\nc\n' | sha256sum


def test_equal_texts_have_equal_ids() -> None:
    parent = source(LOOP)

    one = Proposal.of(UNROLLED, transform="unroll", description="by 4", parent=parent)
    other = Proposal.of(UNROLLED, transform="rewrite", description="idea", parent=None)

    assert one.id == other.id != parent.id
    assert (one.parent_id, other.parent_id) == (parent.id, None)


@given(st.text(max_size=20), st.text(max_size=20))
def test_different_texts_have_different_ids(one: str, other: str) -> None:
    assert (source(one).id == source(other).id) is (one == other)


def test_a_diff_has_the_format_of_git() -> None:
    assert source(LOOP).diff(source(UNROLLED), "k.hip") == (
        "--- a/k.hip\n"
        "+++ b/k.hip\n"
        "@@ -1,3 +1,4 @@\n"
        " void k() {\n"
        "+  #pragma unroll 4\n"
        "   for (;;) {}\n"
        " }\n"
    )  # fmt: skip


def test_a_diff_marks_a_missing_final_newline() -> None:
    assert source("a").diff(source("a\n"), "k") == (
        "--- a/k\n+++ b/k\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
    )  # fmt: skip


def test_equal_sources_have_an_empty_diff() -> None:
    assert source(LOOP).diff(source(LOOP), "k.hip") == ""


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("rewrite", REWRITES)
def test_applying_a_diff_to_the_baseline_yields_the_best_source(rewrite: str, tool: tuple[str, ...], tmp_path: Path) -> None:
    before, after = REWRITES[rewrite]

    diff = source(before).diff(source(after), "k.hip")

    assert apply(diff, before, tmp_path, tool, "k.hip") == after


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", ["my kernel.hip", "größe.hip"])
def test_the_name_of_the_file_may_have_spaces_and_umlauts(name: str, tool: tuple[str, ...], tmp_path: Path) -> None:
    diff = source(LOOP).diff(source(UNROLLED), name)

    assert apply(diff, LOOP, tmp_path, tool, name) == UNROLLED
