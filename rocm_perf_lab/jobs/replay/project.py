"""Commands `rocm-perf replay project|build`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes
from rocm_perf_lab.replay.project.build import build_description, read_description
from rocm_perf_lab.replay.project.creation import create_project
from rocm_perf_lab.replay.project.document import NAME, ProjectDocument
from rocm_perf_lab.replay.reader import open_capture

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.replay.project.creation import ProjectRequest

_CODE = {
    "identical": "machine code equal to the captured one, byte for byte",
    "relocated": "machine code equal to the captured one, except distances to data and functions",
    "different": "machine code differs from the captured one",
}


def run_project(capture: Path, directory: Path, request: ProjectRequest, console: Console, *, as_json: bool) -> None:
    """Create a project and print a summary.

    Raises:
        CaptureError: The capture is damaged or incomplete.
        LabError: See :func:`~rocm_perf_lab.replay.project.creation.create_project`.
    """
    try:
        document = create_project(open_capture(capture), directory, request)
    except OSError as error:
        raise LabError(f"the project cannot be written: {error.strerror or error}", where=str(directory)) from error
    if as_json:
        console.file.write(document.model_dump_json(indent=2) + "\n")
        return
    source = document.source
    of = f" of {source.original}" if source.original else ""
    console.print(f"[bold]project[/]  {escape(str(directory))}, kernel={document.name}", soft_wrap=True)
    console.print(f"[bold]source[/]   {escape(source.files[0])}{escape(of)} ({escape(source.origin)})", soft_wrap=True)
    console.print(f"[bold]code[/]     {_CODE[source.machine_code]}", soft_wrap=True)
    for note in document.notes:
        console.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True)
    console.print(f"[bold]next[/]     make -C {escape(str(directory))} check time", soft_wrap=True)


def run_build(description: Path, output: Path, console: Console, *, architecture: str | None) -> None:
    """Compile the kernel of a project, and write the code object.

    Raises:
        LabError: The description is invalid or the source does not compile.
    """
    build = build_description(read_description(description), architecture or _architecture(description))
    write_bytes(output, build.code_object.data)
    for note in build.notes:
        console.print(f"[yellow]note[/]: {escape(note)}", soft_wrap=True)
    console.print(f"[bold]built[/] {escape(str(output))} ({len(build.code_object.data):,} B)", soft_wrap=True)


def _architecture(description: Path) -> str:
    """Return the architecture of the project in the directory of a description."""
    for directory in description.absolute().parents:
        document = directory / NAME
        if document.is_file():
            try:
                return ProjectDocument.model_validate_json(document.read_bytes()).architecture
            except ValueError as error:
                raise LabError("this is not a project document", where=str(document), hint="Pass --architecture NAME.") from error
    raise LabError(
        "the architecture is unknown: the description is not in a project",
        where=str(description),
        hint="Pass --architecture NAME, for example gfx942.",
    )
