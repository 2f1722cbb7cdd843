"""Text in terminal columns: width, truncation, padding and wrapping. East Asian characters occupy two columns."""

from __future__ import annotations

import textwrap


def columns_of(text: str) -> int:
    """Return the number of columns that a text occupies."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def first_columns(text: str, width: int) -> str:
    """Return the longest prefix of a text that fits into `width` columns."""
    if text.isascii():
        return text[: max(width, 0)]
    end = used = 0
    for character in text:
        used += columns_of(character)
        if used > width:
            break
        end += 1
    return text[:end]


def last_columns(text: str, width: int) -> str:
    """Return the longest suffix of a text that fits into `width` columns."""
    if text.isascii():
        return text[max(len(text) - max(width, 0), 0) :]
    return first_columns(text[::-1], width)[::-1]


def padded(text: str, width: int) -> str:
    """Return a text padded with trailing spaces to `width` columns."""
    return text + " " * (width - columns_of(text))


def wrapped_columns(text: str, width: int) -> list[str]:
    """Return a text as lines of at most `width` columns, at least 2; words longer than a line are broken."""
    if text.isascii():
        return textwrap.wrap(text, width, break_long_words=True, break_on_hyphens=False)
    lines: list[str] = []
    line = ""
    for word in text.split():
        rest = word
        room = width - columns_of(line) - bool(line)
        while columns_of(rest) > room:
            # A word that fits into the next line is not broken.
            part = "" if line and columns_of(word) <= width else first_columns(rest, room)
            if joined := " ".join(filter(None, (line, part))):
                lines.append(joined)
            rest, line, room = rest[len(part) :], "", width
        line = " ".join(filter(None, (line, rest)))
    return [*lines, line] if line else lines
