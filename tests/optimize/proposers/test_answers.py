"""Sources read from an answer, and the messages for refused answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.optimize.proposers.answers import AnswerError, ParsedAnswer, read_answer

CODE = "__global__ void k() {\n  int x = 1;\n}\n"


def read(answer: str, *, parent: str = "int a;\n", finish_reason: str | None = "stop", most_bytes: int = 10_000) -> ParsedAnswer:
    return read_answer(answer, parent=parent, finish_reason=finish_reason, most_bytes=most_bytes)


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
        (f"```\n{CODE}```\nor\n```\n{CODE}```", "has 2 code blocks"),
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


@given(st.text(max_size=300))
def test_any_text_is_parsed_or_rejected(answer: str) -> None:
    try:
        assert read(answer).text.strip()
    except AnswerError as error:
        assert error.what
