"""What a model may answer: one fenced code block that holds the whole file, and at most some words around it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocm_perf_lab.core.errors import LabError

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^\r\n]*?)[ \t]*$")
_LONGEST_DESCRIPTION = 100


class AnswerError(LabError):
    """An answer in which there is no source, or not exactly one."""


@dataclass(frozen=True)
class ParsedAnswer:
    """A source, and what the model calls its change: the first words outside the block."""

    text: str
    description: str


def read_answer(answer: str, *, parent: str, finish_reason: str | None = None, most_bytes: int) -> ParsedAnswer:
    """The source in an answer, with the line ends and the byte order mark of the source that it rewrites.

    Args:
        answer: All that the model wrote.
        parent: The source that was to be rewritten.
        finish_reason: Why the model stopped.
        most_bytes: Longest answer.

    Raises:
        AnswerError: It is too long, incomplete, or has not exactly one code block.
    """
    if finish_reason == "too long" or len(answer.encode()) > most_bytes:
        raise AnswerError(f"the answer is longer than {most_bytes:,} bytes")
    if finish_reason == "length":
        raise AnswerError("the answer ends in the middle: the model reached its limit of tokens")
    if not answer.strip():
        raise AnswerError("the answer is empty")
    blocks, prose = _split(answer)
    if not blocks:
        raise AnswerError("the answer has no code block: the whole file in one fenced code block is asked for")
    if len(blocks) > 1:
        raise AnswerError(f"the answer has {len(blocks)} code blocks: the whole file in one fenced code block is asked for")
    text = "".join(f"{line}\n" for line in blocks[0])
    if not text.strip():
        raise AnswerError("the code block is empty")
    if "\0" in text:
        raise AnswerError("the code block holds a NUL character")
    if "\r\n" in parent:
        text = text.replace("\n", "\r\n")
    if parent.startswith("\ufeff") and not text.startswith("\ufeff"):
        text = "\ufeff" + text
    return ParsedAnswer(text, _description(prose))


def _split(answer: str) -> tuple[list[list[str]], list[str]]:
    """Lines of each code block, and the lines outside.

    Raises:
        AnswerError: The last block does not end.
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
        raise AnswerError("the code block does not end: the answer is not whole")
    return blocks, prose


def _description(prose: list[str]) -> str:
    first = next((line.strip(" #*-_\t") for line in prose if line.strip(" #*-_\t")), "")
    clean = "".join(char if char.isprintable() else " " for char in first)
    return clean if len(clean) <= _LONGEST_DESCRIPTION else clean[: _LONGEST_DESCRIPTION - 1] + "…"
