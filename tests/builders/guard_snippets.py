"""Guards alone on edited sources of experiments, without trials."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.guards import check_before_compilation, rejections_of, warnings_of
from rocm_perf_lab.optimize.inspection import CandidateSource, inspected_candidate
from rocm_perf_lab.optimize.source_tree import SourceUnit
from rocm_perf_lab.toolchain.compilers import Compiler, find_compiler
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.optimize.guards import Guard

_OWN = Path(__file__).parents[1] / "optimize" / "guard_snippets"


def guards_of(inline_assembly: str = "refused") -> list[Guard]:
    """Return the guards of `conf/optimizer/guards.yaml` with a setting for inline assembly."""
    rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "guards.yaml").read_text())["guards"]
    context = {"target": mi300x(), "inline_assembly": inline_assembly}
    return [build(Component.model_validate(row), where="optimizer.guards", **context) for row in rows]


@cache
def the_compiler() -> Compiler:
    """Return the first compiler found on this machine."""
    return find_compiler()


@cache
def experiment(name: str) -> KernelDescription:
    """Return the kernel of an experiment, or of a directory in `tests/optimize/guard_snippets`."""
    own = _OWN / name
    directory = own if own.is_dir() else resource_dir("experiments") / name
    data = yaml.safe_load((directory / "kernel.yaml").read_text())
    return KernelDescription.model_validate({**data, "directory": directory})


@cache
def baseline(name: str) -> CandidateSource:
    """Return the unmodified kernel of an experiment, compiled."""
    return compiled(experiment(name), experiment(name).source_path)


def compiled(description: KernelDescription, source: Path) -> CandidateSource:
    """Compile a source and read what guards need."""
    built = compile_description(description, source, architecture="gfx942", compiler=the_compiler, optimisation="-O3")
    return inspected_candidate(description, source, built, compiler=the_compiler(), target=mi300x())


def edited(text: str, edits: Sequence[Mapping[str, str]]) -> str:
    """Apply edits: `before`, `after` or `replace` names a text that occurs, `with` is the new text; alone, `top` and `end`."""
    for edit in edits:
        if "top" in edit:
            text = edit["top"] + text
        elif "end" in edit:
            text = text + edit["end"]
        else:
            kind = next(k for k in ("before", "after", "replace") if k in edit)
            old, new = edit[kind], edit["with"]
            assert old in text, f"the source has no {old!r}"
            combined = {"before": new + old, "after": old + new, "replace": new}[kind]
            text = text.replace(old, combined, 1)
    return text


def guard_outcome(name: str, text: str, directory: Path, guards: Sequence[Guard]) -> tuple[str, str, tuple[str, ...]]:
    """Return the stage that refuses a text (`guard`, `compile`, or `none`), the reason, and warnings."""
    description = experiment(name)
    source = directory / description.source.name
    source.write_bytes(text.encode())
    reference = baseline(name)
    refused = rejections_of(check_before_compilation(guards, reference.source, SourceUnit(text.encode(), description.entry)))
    if refused is not None:
        return "guard", refused, ()
    try:
        candidate = compiled(description, source)
    except LabError as error:
        return "compile", error.what, ()
    results = [guard.check(reference, candidate) for guard in guards]
    refused = rejections_of(results)
    return ("guard", refused, ()) if refused is not None else ("none", "", warnings_of(results))
