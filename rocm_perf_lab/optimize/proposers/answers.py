"""Parser of a model's answers, which must contain one fenced code block with the whole file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocm_perf_lab.core.errors import LabError

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^\r\n]*?)[ \t]*$")
_LONGEST_DESCRIPTION = 100


class AnswerError(LabError):
    """An answer without exactly one complete source."""


@dataclass(frozen=True)
class ParsedAnswer:
    """A source, and the model's description of the change: the first line outside the code block."""

    text: str
    description: str


def read_answer(answer: str, *, parent: str, finish_reason: str | None = None, most_bytes: int) -> ParsedAnswer:
    """Return the source in an answer, with the line ends and the byte order mark of the parent.

    Args:
        answer: Answer of the model.
        parent: Source that the model was to rewrite.
        finish_reason: Reason of the model to stop.
        most_bytes: Maximum size of the answer in bytes.

    Raises:
        AnswerError: The answer is too long, incomplete or empty, or does not have exactly one code block.
    """
    if finish_reason == "too long" or len(answer.encode()) > most_bytes:
        raise AnswerError(f"the answer is longer than {most_bytes:,} bytes")
    if finish_reason == "length":
        raise AnswerError("the answer is incomplete: the model reached its token limit")
    if not answer.strip():
        raise AnswerError("the answer is empty")
    blocks, prose = _split(answer)
    if not blocks:
        raise AnswerError("the answer has no code block: it must have the whole file in one fenced code block")
    if len(blocks) > 1:
        raise AnswerError(f"the answer has {len(blocks)} code blocks: it must have the whole file in one fenced code block")
    text = "".join(f"{line}\n" for line in blocks[0])
    if not text.strip():
        raise AnswerError("the code block is empty")
    if "\0" in text:
        raise AnswerError("the code block contains a NUL character")
    if "\r\n" in parent:
        text = text.replace("\n", "\r\n")
    if parent.startswith("\ufeff") and not text.startswith("\ufeff"):
        text = "\ufeff" + text
    return ParsedAnswer(text, _description(prose))


def _split(answer: str) -> tuple[list[list[str]], list[str]]:
    """Return the lines of each code block, and the lines outside.

    Raises:
        AnswerError: The last block is not closed.
    """
    blocks: list[list[str]] = []
    prose: list[str] = []
    fence = ""
    for line in re.split(r"\r\n|\n|\r", answer):
        match = _FENCE.match(line)
        if fence and match and match[1].startswith(fence) and not match[2]:
            fence = ""
        elif fence:
            blocks[-1].append(line)
        elif match and "`" not in match[2]:
            fence = match[1]
            blocks.append([])
        else:
            prose.append(line)
    if fence:
        raise AnswerError("the code block is not closed: the answer is incomplete")
    return blocks, prose


def _description(prose: list[str]) -> str:
    first = next((line.strip(" #*-_\t") for line in prose if line.strip(" #*-_\t")), "")
    clean = "".join(char if char.isprintable() else " " for char in first)
    return clean if len(clean) <= _LONGEST_DESCRIPTION else clean[: _LONGEST_DESCRIPTION - 1] + "…"
