"""Parser of a model's answers: a whole file in a fenced code block, or SEARCH/REPLACE edits of the source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.proposers.edits import EditError, apply_edits, is_edit_marker, read_edits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^\r\n]*?)[ \t]*$")
_LINE_END = re.compile(r"\r\n|\n|\r")
_THOUGHT = re.compile(r"\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_THOUGHT_BEGIN = re.compile(r"\s*<(think|thinking|reasoning)>")
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>")
_LONGEST_DESCRIPTION = 100


class AnswerError(LabError):
    """Answer without a complete source."""


@dataclass(frozen=True)
class ParsedAnswer:
    """Source, and the model's description of the change (the first line outside code)."""

    text: str
    description: str


@dataclass(frozen=True)
class _Layout:
    """Lines of each code block, lines outside, and all lines without fences."""

    blocks: list[list[str]]
    prose: list[str]
    every: list[str]


def read_answer(
    answer: str,
    *,
    current: str,
    finish_reason: str | None = None,
    most_bytes: int,
    problem: Callable[[str], str | None] = lambda _: None,
) -> ParsedAnswer:
    """Return the source in an answer, with the newlines and the byte order mark of the current source.

    Sections of reasoning are ignored. Of several code blocks with a whole file, the last one that differs from the current source
    is used.

    Args:
        answer: Answer of the model.
        current: Source to which edits apply.
        finish_reason: Reason why the model stopped.
        most_bytes: Maximum size of the answer in bytes.
        problem: Returns the reason why a text is not a source of the kernel, or None.

    Raises:
        AnswerError: The answer is too long, incomplete or empty, or has no usable source.
    """
    if finish_reason == "too long" or len(answer.encode()) > most_bytes:
        raise AnswerError(f"the answer is longer than {most_bytes:,} bytes")
    if finish_reason == "length":
        raise AnswerError("the answer is incomplete: the model reached its token limit")
    if not answer.strip():
        raise AnswerError("the answer is empty")
    layout = _split(_without_reasoning(answer))
    plain = current.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        edits = read_edits(layout.every)
        text = apply_edits(plain, edits) if edits else _whole_file(layout.blocks, plain, problem)
    except EditError as error:
        raise AnswerError(error.what) from error
    found = problem(text)
    if found is not None:
        raise AnswerError(f"the kernel must keep its name: {found}")
    if "\0" in text:
        raise AnswerError("the code block contains a NUL character")
    if "\r\n" in current:
        text = text.replace("\n", "\r\n")
    if current.startswith("\ufeff") and not text.startswith("\ufeff"):
        text = "\ufeff" + text
    return ParsedAnswer(text, _description(layout.prose))


def _without_reasoning(answer: str) -> str:
    """Return an answer without its leading sections of reasoning.

    Some chat templates put the opening tag into the prompt, so that an answer begins with the reasoning itself.
    """
    while match := _THOUGHT.match(answer):
        answer = answer[match.end() :]
    if _THOUGHT_BEGIN.match(answer):
        raise AnswerError("the answer is incomplete: it ends within its reasoning")
    end = _THOUGHT_END.search(answer)
    if end is not None and not _is_in_code(answer[: end.start()]):
        answer = answer[end.end() :]
    if not answer.strip():
        raise AnswerError("the answer is empty after its reasoning")
    return answer


def _is_in_code(before: str) -> bool:
    """Return whether a text ends inside a fenced code block."""
    return sum(bool(_FENCE.match(line)) for line in _LINE_END.split(before)) % 2 == 1


def _whole_file(blocks: Sequence[Sequence[str]], current: str, problem: Callable[[str], str | None]) -> str:
    """Return the text of the block that contains the whole file."""
    if not blocks:
        raise AnswerError("the answer has no code block: it must have the whole file in one fenced code block, or edits")
    texts = ["".join(f"{line}\n" for line in block) for block in blocks]
    filled = [text for text in texts if text.strip()]
    if not filled:
        raise AnswerError("the code block is empty")
    usable = list(dict.fromkeys(text for text in filled if problem(text) is None)) if len(filled) > 1 else filled
    changed = [text for text in usable if text.strip() != current.strip()]
    if usable:
        return (changed or usable)[-1]
    raise AnswerError(f"{len(filled)} code blocks, but not the whole file: {problem(filled[-1])}")


def _split(answer: str) -> _Layout:
    """Return the code blocks and the other lines.

    Raises:
        AnswerError: The last block is not closed.
    """
    layout = _Layout([], [], [])
    fence = ""
    for line in _LINE_END.split(answer):
        match = _FENCE.match(line)
        if fence and match and match[1].startswith(fence) and not match[2]:
            fence = ""
        elif fence:
            layout.blocks[-1].append(line)
            layout.every.append(line)
        elif match and "`" not in match[2]:
            fence = match[1]
            layout.blocks.append([])
        else:
            layout.prose.append(line)
            layout.every.append(line)
    if fence:
        raise AnswerError("the code block is not closed: the answer is incomplete")
    return layout


def _description(prose: list[str]) -> str:
    first = next((line.strip(" #*-_\t") for line in prose if line.strip(" #*-_\t")), "")
    if is_edit_marker(first):
        return ""
    clean = "".join(char if char.isprintable() else " " for char in first)
    return clean if len(clean) <= _LONGEST_DESCRIPTION else clean[: _LONGEST_DESCRIPTION - 1] + "…"
