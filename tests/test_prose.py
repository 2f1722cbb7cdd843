"""Docstrings, comments, messages and documents use plain technical English.

Each pattern is counted per 1,000 words and must stay below its limit. The limits allow legitimate uses, such as "takes 3 cycles"
and "the address where the code object is loaded". Lower them when a text improves.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
OWN = Path(__file__).name
MAX_DOCUMENT_WORDS = 20_000
"""Written words of README.md, docs/*.md and skill/*.md without CHANGELOG.md, skill/references/, generated pages and figures."""
GENERATED_PAGES = {
    "emulator-coverage.md",
    "emulator-coverage-gfx90a.md",
    "emulator-coverage-gfx950.md",
    "emulator-coverage-gfx1030.md",
}
FIGURES = re.compile(r"<!-- figures: .*?<!-- /figures -->|<!-- example: .*?```text.*?```", re.DOTALL)
"""Generated text: tables of results, and output of commands."""

_NOUN_CLAUSES = (
    "it they was were is are has had the a an came comes runs ran needs one each every this that there users? AMD rocprof\\w* "
    "others? may can must does did"
)
_CONDITIONS = (
    "it they there one none no nothing that this a an the both several each every all any some given missing possible needed"
)
PATTERNS = {
    "'what ...' as a noun clause": rf"\bwhat ({'|'.join(_NOUN_CLAUSES.split())})\b",
    "'where' for 'if'": rf"\b[Ww]here ({'|'.join(_CONDITIONS.split())})\b",
    "nobody, nothing, none": r"\b[Nn](?:obody|othing)\b|\bnone (?:of|is|was|can)\b",
    "gives, takes": r"\b(?:[Gg]ives?|[Tt]akes?|[Tt]aken)\b",
    "told, says": r"\b(?:is|are|was|were) (?:told|said)\b|\b[Ss]ays? (?:so|why|what|that|which|it|how|where|nothing)\b",
    "stands, lies": r"\b(?:stands?|stood|lies|lie) (?:in|for|behind|beside|next|at|on|there|before|alone|below|under|above)\b",
    "of its own": r"\bof (?:its|their|his|her|our|your) own\b",
    "left out": r"\bleft out\b|\bleaves? (?:it |them )?out\b",
    "folder, mend": r"\b[Ff]olders?\b|\bmend(?:s|ed|ing)?\b",
    "the lab's, ours": r"\bthe lab\b|\bours\b",
    "as last seen": r"\bas last seen\b",
    "the clock on the wall": r"\bclock on the wall\b|\bby the clock\b",
    "is judged": r"\b(?:is|are|be) judged\b|\bjudged by\b",
}
NEGATIVE, VERBS = "nobody, nothing, none", "gives, takes"
LIMITS: dict[str, dict[str, float]] = {
    "package": dict.fromkeys(PATTERNS, 0.1) | {NEGATIVE: 0.42, VERBS: 0.48},
    "tests": dict.fromkeys(PATTERNS, 0.1) | {"'what ...' as a noun clause": 0.25, NEGATIVE: 0.5, VERBS: 0.36},
    "docs": dict.fromkeys(PATTERNS, 0.15) | {VERBS: 0.3},
}
"""Largest number of matches per 1,000 words."""
MAX_QUESTION_DOCSTRINGS = {"package": 0, "tests": 0}
"""Docstrings that begin with what, where, who, why, how or which; "Whether ..." describes a boolean property."""


def documents() -> list[Path]:
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")), *sorted((REPOSITORY / "skill").rglob("*.md"))]


def sources(group: str) -> list[Path]:
    roots = ("tests",) if group == "tests" else ("rocm_perf_lab", "hydra_plugins", "benchmarks")
    return sorted(path for root in roots for path in (REPOSITORY / root).rglob("*.py") if path.name != OWN)


@cache
def texts(path: Path) -> list[tuple[int, str]]:
    """Return the line and the text of every string and comment of a Python file, or of a whole document."""
    source = path.read_text()
    if path.suffix != ".py":
        return [(1, source)]
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    return [
        (token.start[0], token.string) for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type in kinds
    ]


def matches(paths: list[Path], pattern: str) -> tuple[int, list[str]]:
    """Return the number of words and the places of all matches."""
    words, places = 0, []
    for path in paths:
        for line, text in texts(path):
            words += len(text.split())
            places += [
                f"{path.relative_to(REPOSITORY)}:{line + text.count(chr(10), 0, match.start())}: {match[0]}"
                for match in re.finditer(pattern, text)
            ]
    return words, places


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("group", LIMITS)
def test_a_pattern_stays_below_its_limit(group: str, pattern: str) -> None:
    words, places = matches(documents() if group == "docs" else sources(group), PATTERNS[pattern])

    assert len(places) <= LIMITS[group][pattern] * words / 1000, "\n".join(places)


@pytest.mark.parametrize("group", MAX_QUESTION_DOCSTRINGS)
def test_a_docstring_begins_with_a_verb_or_a_noun(group: str) -> None:
    places = []
    for path in sources(group):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or "").partition(" ")[0]
                if first in ("What", "Where", "Who", "Why", "How", "Which"):
                    places.append(f"{path.relative_to(REPOSITORY)}:{node.body[0].lineno}")

    assert len(places) <= MAX_QUESTION_DOCSTRINGS[group], "\n".join(places)


def test_the_documents_stay_short() -> None:
    written = [path for path in documents() if path.parent.name != "references" and path.name not in GENERATED_PAGES]
    words = {path.name: len(FIGURES.sub("", path.read_text()).split()) for path in written}

    assert sum(words.values()) <= MAX_DOCUMENT_WORDS, words
