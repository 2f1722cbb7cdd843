"""Sources read from an answer, and the messages for refused answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.optimize.proposers.answers import AnswerError, ParsedAnswer, read_answer

CODE = "__global__ void k() {\n  int x = 1;\n}\n"


def read(answer: str, *, parent: str = "int a;\n", finish_reason: str | None = "stop", most_bytes: int = 10_000) -> ParsedAnswer:
    return read_answer(answer, current=parent, finish_reason=finish_reason, most_bytes=most_bytes)


def kernel_problem(text: str) -> str | None:
    """Require a kernel `k`."""
    return None if "void k(" in text else "no kernel k"


def read_kernel(answer: str, current: str = CODE) -> str:
    return read_answer(answer, current=current, finish_reason="stop", most_bytes=10_000, problem=kernel_problem).text


@pytest.mark.parametrize(
    "answer",
    [
        f"Unrolled.\n```cpp\n{CODE}```\n",
        f"```\n{CODE}```",
        f"~~~hip\n{CODE}~~~\nDone.",
        f"````cpp\n{CODE}````\n",
        f"Unrolled.\r\n```cpp\r\n{CODE.replace(chr(10), chr(13) + chr(10))}```\r\n",
    ],
)
def test_one_block_is_the_source(answer: str) -> None:
    assert read(answer).text == CODE


def test_the_first_line_outside_the_block_is_the_description() -> None:
    assert read(f"\n## **Vector loads**\nand more\n```\n{CODE}```").description == "Vector loads"
    assert read(f"```\n{CODE}```").description == ""
    assert read(f"{'a' * 500}\x1b[31m\n```\n{CODE}```").description == "a" * 99 + "…"


def test_a_longer_fence_may_hold_a_shorter_one() -> None:
    assert read(f"````\n// ```\n{CODE}````").text == f"// ```\n{CODE}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "the answer is empty"),
        ("  \n\t\n", "the answer is empty"),
        ("I would unroll the loop.", "no code block"),
        (CODE, "no code block"),
        (f"```\n{CODE}", "is not closed"),
        ("```\n```", "the code block is empty"),
        ("```\nint a;\0\n```", "NUL"),
        (f"```\n{'x' * 20_000}\n```", "longer than 10,000 bytes"),
    ],
)
def test_other_answers_are_rejected(answer: str, reason: str) -> None:
    with pytest.raises(AnswerError, match=reason):
        read(answer)


def test_a_truncated_answer_is_rejected_even_if_it_looks_complete() -> None:
    with pytest.raises(AnswerError, match="token limit"):
        read(f"```\n{CODE}```", finish_reason="length")
    with pytest.raises(AnswerError, match="longer than"):
        read(f"```\n{CODE}```", finish_reason="too long")


def test_line_ends_and_byte_order_mark_of_the_source_are_kept() -> None:
    windows = read(f"```\n{CODE}```", parent="\ufeffint a;\r\nint b;\r\n").text

    assert windows == "\ufeff" + CODE.replace("\n", "\r\n")


OTHER = CODE.replace("1", "2")


@pytest.mark.parametrize(
    "answer",
    [
        f"Two.\n```\n{CODE}```\nbecomes\n```\n{OTHER}```",
        f"Two.\n```\n{OTHER}```\nCall it:\n```\nk<<<1, 64>>>();\n```",
        f"Two.\n```\n{OTHER}```\nbefore it was\n```\n{CODE}```",
        f"<think>\nperhaps\n```\n{CODE}```\nno\n</think>\nTwo.\n```\n{OTHER}```",
        f"reasoning without its opening tag\n```\n{CODE}```\n</think>\nTwo.\n```\n{OTHER}```",
        f"<thinking>a</thinking><think>b</think>Two.\n```\n{OTHER}```",
    ],
    ids=["before and after", "usage", "after and before", "think", "open think", "two thoughts"],
)
def test_the_changed_whole_file_is_chosen(answer: str) -> None:
    assert read_kernel(answer) == OTHER


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("```\nint a;\n```\n```\nint b;\n```", "2 code blocks, but not the whole file: no kernel k"),
        ("```\nint a;\n```", "the kernel must keep its name: no kernel k"),
        ("<think>\nnever ends", "ends within its reasoning"),
        ("<think>\nall\n</think>\n", "empty after its reasoning"),
    ],
)
def test_answers_without_a_kernel_are_rejected(answer: str, reason: str) -> None:
    with pytest.raises(AnswerError, match=reason):
        read_kernel(answer)


def test_a_tag_in_the_code_is_not_reasoning() -> None:
    tagged = CODE.replace("x = 1", 's[] = "</think>"')

    assert read_kernel(f"Tag.\n```\n{tagged}```") == tagged


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@pytest.mark.parametrize(
    "answer",
    [
        f"Two.\n{edit('  int x = 1;', '  int x = 2;')}",
        f"Two.\n```diff\n{edit('  int x = 1;', '  int x = 2;')}```\n",
        f"Two.\n{edit('  int x = 1;   ', '  int x = 2;')}",
        f"Two.\n{edit('int x = 1;', '  int x = 2;')}",
    ],
    ids=["plain", "fenced", "trailing space", "indentation"],
)
def test_edits_are_applied_to_the_current_source(answer: str) -> None:
    assert read_kernel(answer) == OTHER


def test_edits_apply_in_their_order_or_not_at_all() -> None:
    both = edit("  int x = 1;", "  int x = 3;") + edit("  int x = 3;", "  int x = 2;")

    assert read_kernel(f"Two.\n{both}") == OTHER
    assert read_kernel(edit("  int x = 1;", "")) == "__global__ void k() {\n}\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (edit("int y;", "int z;"), "SEARCH block 1 is not in the source: 'int y;'"),
        (edit("}", "};"), "SEARCH block 1 is in the source 2 times, add lines to it: '}'"),
        (edit("", "int y;"), "SEARCH block 1 is empty"),
        ("<<<<<<< SEARCH\n}\n=======\n}\n", "the last SEARCH block is not complete"),
        ("<<<<<<< SEARCH\n}\n>>>>>>> REPLACE\n", "has no line of ======="),
    ],
)
def test_edits_that_do_not_apply_are_rejected(answer: str, reason: str) -> None:
    with pytest.raises(AnswerError, match=reason):
        read_kernel(answer, CODE + "struct A {\n}\n")


def test_edits_keep_line_ends_and_byte_order_mark() -> None:
    windows = "\ufeff" + CODE.replace("\n", "\r\n")

    assert read_kernel(edit("  int x = 1;", "  int x = 2;"), windows) == "\ufeff" + OTHER.replace("\n", "\r\n")


@given(st.text(max_size=300))
def test_any_text_is_parsed_or_rejected(answer: str) -> None:
    try:
        assert read(answer).text.strip()
    except AnswerError as error:
        assert error.what
