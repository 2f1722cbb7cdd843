"""Creation of a project directory: `create_project(capture, directory, request) -> ProjectDocument`.

The project is written to a directory next to the output, built, and renamed when it is complete.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.assembly_source import assembly_source
from rocm_perf_lab.replay.project.arguments import captured_arguments, source_parameters
from rocm_perf_lab.replay.project.build import build_description, read_description
from rocm_perf_lab.replay.project.description import (
    CompiledForm,
    data_bytes,
    kernel_text,
    reference_text,
    write_data,
)
from rocm_perf_lab.replay.project.document import NAME, ProjectDocument, ProjectSource
from rocm_perf_lab.replay.project.sources import SourceHints, compared_code, compiler_flags, find_source
from rocm_perf_lab.target.catalog import usual_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.demangle import base_name
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.project.arguments import SourceParameter
    from rocm_perf_lab.replay.project.sources import FoundSource

DEFAULT_DATA_LIMIT = 256 << 20
_EXPERIMENTS = "experiments"
_GUARDED = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)\s*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+(\d+)[ \t]*(?://.*|/\*.*)?$", re.MULTILINE
)


@dataclass(frozen=True)
class ProjectRequest:
    """Options of a project. `assembly`: do not search for a source. `data_limit`: maximum size in bytes of buffers to copy."""

    hints: SourceHints = field(default_factory=SourceHints)
    assembly: bool = False
    data_limit: int = DEFAULT_DATA_LIMIT


@dataclass(frozen=True)
class _Source:
    """Source of the project: files by path relative to the description, and their compilation."""

    form: CompiledForm
    files: Mapping[str, str | Path]
    origin: str
    original: str | None
    parameters: tuple[SourceParameter, ...] = ()
    notes: tuple[str, ...] = ()


def create_project(capture: Capture, directory: Path, request: ProjectRequest) -> ProjectDocument:
    """Create an editable project of a capture.

    Raises:
        LabError: The directory is not empty, a file of the request is wrong, or neither a source is found nor the assembler
            reproduces the kernel.
        CodeObjectError: The debug information is damaged.
        OSError: The directory cannot be written.
    """
    _require_empty(directory)
    source, reasons = _source(capture, request)
    name = _project_name(capture)
    parent = directory.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=parent) as temporary:
        draft = Path(temporary) / directory.name
        document = _written(capture, draft, directory.absolute(), name, source, request, reasons)
        if directory.is_dir():
            directory.rmdir()
        draft.rename(directory)
    return document


def _require_empty(directory: Path) -> None:
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise LabError("the project's directory is a file or a link", where=str(directory), hint="Choose another directory.")
    if directory.is_dir() and any(directory.iterdir()):
        raise LabError("the project's directory is not empty", where=str(directory), hint="Choose another directory.")


def _source(capture: Capture, request: ProjectRequest) -> tuple[_Source, tuple[str, ...]]:
    """Return the source, and the reasons if it is assembly."""
    if request.assembly:
        return _assembly(capture), ()
    search = find_source(capture, request.hints)
    if search.found is not None:
        return _hip(capture, search.found), ()
    if request.hints.source is not None:
        raise LabError(
            f"the source does not compile to the kernel {capture.kernel.symbol}",
            where="\n".join(search.reasons),
            hint="Pass its compiler flags: --flags '-Iinclude -DN=4', or --compile-commands FILE.",
        )
    return _assembly(capture), search.reasons


def _hip(capture: Capture, found: FoundSource) -> _Source:
    command = found.command
    files = tuple(dict.fromkeys((command.source, *found.files)))
    root = Path(os.path.commonpath([file.parent for file in files]))
    inside = {file: Path("source") / file.relative_to(root) for file in files}
    inner = [directory.relative_to(root) for directory in command.include_dirs if directory.is_relative_to(root)]
    include_dirs = [str(Path("source") / directory) for directory in inner]
    include_dirs += [str(directory) for directory in command.include_dirs if directory.is_dir()]
    text = found.embedded.get(command.source) or command.source.read_text(encoding="utf-8", errors="replace")
    texts = [found.embedded.get(file) or file.read_text(encoding="utf-8", errors="replace") for file in files]
    defines = {**guarded_macros(texts), **command.defines}
    form = CompiledForm("hip", str(inside[command.source]), capture.kernel.symbol, defines, compiler_flags(command), include_dirs)
    return _Source(
        form=form,
        files={str(inside[file]): found.embedded.get(file, file) for file in files},
        origin=command.origin,
        original=str(command.source),
        parameters=source_parameters(text, capture.kernel.symbol),
        notes=found.notes,
    )


def guarded_macros(texts: Iterable[str]) -> dict[str, str]:
    """Return the integer macros above 1 with a guarded default: `#ifndef TILE`, `#define TILE 16`."""
    return {match[1]: match[2] for text in texts for match in _GUARDED.finditer(text) if int(match[2]) > 1}


def _assembly(capture: Capture) -> _Source:
    source = assembly_source(capture.code_object, capture.kernel, find_compiler, header=capture.dispatch.kernel.name)
    words = f"{source.words} of {source.instructions} instructions are written as data words"
    return _Source(
        form=CompiledForm("assembly", "kernel.s", capture.kernel.symbol, {}, source.flags, ()),
        files={"kernel.s": source.text},
        origin="disassembly",
        original=None,
        notes=((words,) if source.words else ()) + source.notes,
    )


def _written(
    capture: Capture,
    draft: Path,
    final: Path,
    name: str,
    source: _Source,
    request: ProjectRequest,
    reasons: Iterable[str],
) -> ProjectDocument:
    """Write the project to `draft`, compile it there, and return its document."""
    place = draft / _EXPERIMENTS / name
    place.mkdir(parents=True)
    for file, content in source.files.items():
        target = place / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, target)
        else:
            target.write_text(content, encoding="utf-8")
    arguments = captured_arguments(capture, source.parameters)
    is_small = data_bytes(arguments) <= request.data_limit
    with_data = is_small and not arguments.need_capture
    first = kernel_text(capture, name, source.form, arguments, capture.code_object, with_data=False)
    (place / "kernel.yaml").write_text(first.description, encoding="utf-8")
    built = build_description(read_description(place / "kernel.yaml"), capture.code_object.architecture).code_object
    text = kernel_text(capture, name, source.form, arguments, built, with_data=with_data)
    (place / "kernel.yaml").write_text(text.description, encoding="utf-8")
    if text.space is not None:
        (place / "space.yaml").write_text(text.space, encoding="utf-8")
    copied = write_data(capture, arguments, built, place / "data") if with_data else 0
    if with_data and any(buffer.is_written for buffer in arguments.buffers):
        (place / "reference.py").write_text(reference_text(arguments), encoding="utf-8")
    code = compared_code(capture.code_object, capture.kernel, built, find_kernel(built, capture.kernel.symbol))
    notes = [f"no source: {reason}" for reason in reasons] + [*source.notes, *arguments.notes]
    if not is_small:
        notes.append("the buffers exceed --data-limit: kernel.yaml needs device=replay device.capture=DIR")
    document = ProjectDocument(
        project=str(final),
        capture=str(capture.directory.absolute()),
        kernel=capture.dispatch.kernel.name,
        symbol=capture.kernel.symbol,
        name=name,
        architecture=capture.code_object.architecture,
        source=ProjectSource(
            language="assembly" if source.form.language == "assembly" else "hip",
            origin=source.origin,
            original=source.original,
            files=tuple(f"{_EXPERIMENTS}/{name}/{file}" for file in source.files),
            defines=dict(source.form.defines),
            flags=tuple(source.form.flags),
            machine_code=code,
        ),
        data_bytes=copied,
        notes=tuple(notes),
    )
    (draft / NAME).write_text(document.model_dump_json(indent=2) + "\n", encoding="utf-8")
    is_separate = with_data and not arguments.are_linked
    makefile = _makefile(capture, document, final, is_separate=is_separate, rewritable=not arguments.need_capture)
    (draft / "Makefile").write_text(makefile, encoding="utf-8")
    return document


def _makefile(capture: Capture, document: ProjectDocument, final: Path, *, is_separate: bool, rewritable: bool) -> str:
    environment = Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
    environment.filters["path"] = _escaped
    place = os.path.relpath(capture.directory.absolute(), final)
    return environment.get_template("replay_project.mk.j2").render(
        kernel=" ".join(document.kernel.split()),
        capture=place.replace("$", "$$").replace("#", r"\#"),
        source=document.source.files[0],
        name=document.name,
        files=document.source.files,
        target=usual_target(capture.code_object.architecture),
        is_separate=is_separate,
        rewritable=rewritable and document.source.language == "hip",
        language=document.source.language,
    )


def _escaped(path: str) -> str:
    """Return a path escaped as a Makefile prerequisite."""
    return re.sub(r"([ #:%\\])", r"\\\1", path).replace("$", "$$")


def _project_name(capture: Capture) -> str:
    """Return a name for the description: letters, digits and underscores of the kernel's name."""
    bare = base_name(capture.dispatch.kernel.name).partition("<")[0].rpartition("::")[2].rpartition(" ")[2]
    name = re.sub(r"\W+", "_", bare, flags=re.ASCII).strip("_")
    return name[:60] if name and not name[0].isdigit() else f"kernel_{name[:50]}".rstrip("_")
