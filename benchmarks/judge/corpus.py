"""Kernels and labelled candidates of the corpus, read from YAML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import yaml
from pydantic import TypeAdapter

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.description import KernelDescription

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DIRECTORY = Path(__file__).parent
TARGET = "mi300x"
Verdict = Literal["wrong", "legitimate"]
CorpusSet = Literal["development", "held_out", "third", "fourth"]
Origin = Literal["hand", "mutation"]
_FILES: tuple[tuple[str, CorpusSet, Origin], ...] = (
    ("", "development", "hand"),
    ("mutants", "development", "mutation"),
    ("held_out", "held_out", "hand"),
    ("third", "third", "hand"),
    ("fourth", "fourth", "hand"),
)
"""Subdirectory of `candidates`, and set and origin of the candidates in it."""


class CorpusError(LabError):
    """An entry of the corpus that cannot be applied."""


class TextEdit(StrictModel):
    """Replacement of a text that occurs exactly once."""

    find: str
    replace: str


class CandidateEntry(StrictModel):
    """One candidate as written in a file; see :mod:`benchmarks.judge` for the fields."""

    name: str
    verdict: Verdict
    why: str
    set: CorpusSet | None = None
    base: str | None = None
    edits: tuple[TextEdit, ...] = ()
    source: str | None = None
    refused: bool = False
    witness: dict[str, int | float] = {}


@dataclass(frozen=True)
class CorpusCandidate:
    """One candidate with the text of its source.

    Args:
        kernel: Name of the kernel.
        entry: Entry of the file.
        part: Development, held-out, third or fourth set.
        origin: Whether the candidate was written by hand or generated.
        text: Source.
    """

    kernel: str
    entry: CandidateEntry
    part: CorpusSet
    origin: Origin
    text: str

    def write(self, directory: Path, file_name: str) -> Path:
        """Write the source to `directory/KERNEL/NAME/file_name` and return its path."""
        path = directory / self.kernel / self.entry.name / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text)
        return path


def kernel_names() -> tuple[str, ...]:
    """Return the names of all kernels, sorted."""
    return tuple(sorted({*_shipped(), *(path.parent.name for path in DIRECTORY.glob("kernels/*/kernel.yaml"))}))


def load_kernel(name: str) -> KernelDescription:
    """Return the description of a kernel, with the params of the corpus.

    Raises:
        CorpusError: The corpus has no kernel with this name.
    """
    shipped = _shipped()
    directory = resource_dir("experiments") / name if name in shipped else DIRECTORY / "kernels" / name
    path = directory / "kernel.yaml"
    if not path.is_file():
        raise CorpusError(f"no kernel named {name!r}", where="--kernels", hint=f"kernels: {', '.join(kernel_names())}")
    data = yaml.safe_load(path.read_text())
    params = {**data["params"], **shipped.get(name, {})}
    return KernelDescription.model_validate({**data, "directory": directory, "params": params})


def load_candidates(name: str) -> tuple[CorpusCandidate, ...]:
    """Return the candidates of a kernel, in the order of the files.

    Raises:
        CorpusError: Two candidates have the same name, or an edit does not apply exactly once.
    """
    content = load_kernel(name).source_path.read_text()
    found: dict[str, CorpusCandidate] = {}
    for subdirectory, part, origin in _FILES:
        path = DIRECTORY / "candidates" / subdirectory / f"{name}.yaml"
        for entry in _entries(path) if path.is_file() else ():
            if entry.name in found:
                raise CorpusError(f"two candidates are named {entry.name!r}", where=str(path))
            if entry.set not in (None, part):
                raise CorpusError(f"{entry.name!r} belongs to {entry.set}, its file to {part}", where=str(path))
            texts = {other: candidate.text for other, candidate in found.items()}
            found[entry.name] = CorpusCandidate(name, entry, part, origin, _text(entry, content, texts, path))
    return tuple(found.values())


def select_candidates(kernels: Sequence[str], part: CorpusSet | Literal["all"] = "all") -> dict[str, tuple[CorpusCandidate, ...]]:
    """Return the candidates of a set by kernel; kernels without any are omitted."""
    chosen = {name: tuple(c for c in load_candidates(name) if part in ("all", c.part)) for name in kernels}
    return {name: candidates for name, candidates in chosen.items() if candidates}


def apply_edits(text: str, edits: Sequence[TextEdit], *, where: str) -> str:
    """Return the text after all edits.

    Raises:
        CorpusError: The text to find does not occur, or occurs more than once.
    """
    for edit in edits:
        count = text.count(edit.find)
        if count != 1:
            raise CorpusError(f"an edit applies {count} times instead of once: {edit.find!r}", where=where)
        text = text.replace(edit.find, edit.replace)
    return text


def _entries(path: Path) -> list[CandidateEntry]:
    return TypeAdapter(list[CandidateEntry]).validate_python(yaml.safe_load(path.read_text()) or [])


def _text(entry: CandidateEntry, content: str, others: Mapping[str, str], path: Path) -> str:
    where = f"{path}: {entry.name}"
    if (entry.source is None) == (not entry.edits):
        raise CorpusError("a candidate needs either a source or edits", where=where)
    if entry.source is not None:
        return entry.source
    if entry.base is not None and entry.base not in others:
        raise CorpusError(f"no candidate above is named {entry.base!r}", where=where)
    text = apply_edits(content if entry.base is None else others[entry.base], entry.edits, where=where)
    if text == content:
        raise CorpusError("the edits do not change the kernel", where=where)
    return text


def _shipped() -> dict[str, dict[str, int]]:
    shipped: dict[str, dict[str, int]] = yaml.safe_load((DIRECTORY / "shipped.yaml").read_text())
    return shipped
