"""Opens and checks capture directories: `open_capture(directory) -> Capture`, for every supported layout.

No file of a directory is used before its manifest was checked: sizes, SHA-256 sums, the set of files, symbolic links, and the
consistency of the documents. `capture_problems(directory)` collects all problems instead of stopping at the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import ValidationError

from rocm_perf_lab.replay.capture import Capture
from rocm_perf_lab.replay.directory import CaptureDirectory
from rocm_perf_lab.replay.errors import CaptureError, IncompleteCapture
from rocm_perf_lab.replay.foreign import is_foreign_capture, open_foreign_capture
from rocm_perf_lab.replay.format import (
    AFTER_VARIABLES_NAME,
    CODE_OBJECT_NAME,
    DISPATCH_NAME,
    FORMAT,
    FORMAT_VERSION,
    KERNARG_NAME,
    MANIFEST_NAME,
    MEMORY_NAME,
    PAGE_BYTES,
    VARIABLES_NAME,
    CaptureModel,
    DispatchDocument,
    Manifest,
    MemoryDocument,
    parsed_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.replay.format import Region

_Model = TypeVar("_Model", bound=CaptureModel)
_LARGEST_DOCUMENT = 1 << 28
_CAPTURE_AGAIN = "Copy it again from where it was captured, or capture again."


@dataclass(frozen=True)
class _DirectoryContents:
    directory: CaptureDirectory

    def image(self, region: Region) -> NDArray[np.uint8]:
        return self.directory.view(str(region.file))

    def after_pages(self, region: Region) -> NDArray[np.uint8]:
        return self.directory.view(region.after.file) if region.after is not None else np.zeros(0, dtype=np.uint8)


def open_capture(path: Path, *, verify: bool = True) -> Capture:
    """Read a capture of ours, of kerncap or of the original rocm-perf-lab.

    Args:
        path: The directory.
        verify: Also compute the SHA-256 of the large files; without it only sizes and small files are checked.

    Raises:
        IncompleteCapture: There is no manifest.
        CaptureError: The first thing that is wrong.
    """
    if is_foreign_capture(path):
        return open_foreign_capture(path)
    capture, directory, manifest = _opened(path)
    for problem in _content_problems(directory, manifest, everything=verify):
        raise CaptureError(problem, where=str(path), hint=_CAPTURE_AGAIN)
    return capture


def capture_problems(path: Path) -> list[str]:
    """Everything that is wrong with a directory, one sentence each; empty for a good capture."""
    try:
        if is_foreign_capture(path):
            open_foreign_capture(path)
            return []
        capture, directory, manifest = _opened(path)
    except CaptureError as error:
        return [error.what]
    problems = list(_content_problems(directory, manifest, everything=True))
    problems += [
        f"{name} does not belong into a capture" for name in sorted(directory.names() - {MANIFEST_NAME, *manifest.files})
    ]
    try:
        _ = capture.kernel
    except CaptureError as error:
        problems.append(error.what)
    return problems


def _opened(path: Path) -> tuple[Capture, CaptureDirectory, Manifest]:
    if not path.is_dir():
        raise CaptureError(
            "there is no such directory" if not path.exists() else "this is not a directory",
            where=str(path),
            hint="Name the directory of a capture; rocm-perf replay capture makes one.",
        )
    directory = CaptureDirectory(path)
    manifest = _manifest(directory)
    dispatch = _document(directory, manifest, DISPATCH_NAME, DispatchDocument)
    memory = _document(directory, manifest, MEMORY_NAME, MemoryDocument)
    for problem in _structure_problems(directory, manifest, dispatch, memory):
        raise CaptureError(problem, where=str(path), hint=_CAPTURE_AGAIN)
    has_variables_after = AFTER_VARIABLES_NAME in manifest.files
    capture = Capture(
        directory=path,
        dispatch=dispatch,
        memory=memory,
        manifest=manifest,
        kernarg=directory.content(KERNARG_NAME),
        hsaco=directory.content(CODE_OBJECT_NAME),
        variables=directory.content(VARIABLES_NAME) if dispatch.variables else b"",
        after_variables=directory.content(AFTER_VARIABLES_NAME) if has_variables_after else None,
        contents=_DirectoryContents(directory),
    )
    return capture, directory, manifest


def _manifest(directory: CaptureDirectory) -> Manifest:
    if not directory.exists(MANIFEST_NAME):
        started = any(directory.exists(name) for name in ("memory", KERNARG_NAME, DISPATCH_NAME, MEMORY_NAME, CODE_OBJECT_NAME))
        raise IncompleteCapture(
            "this capture is incomplete: it has no manifest"
            if started
            else "this directory is not a capture: it has no manifest",
            where=str(directory.path),
            hint=f"It cannot be used. Remove it (rm -r {directory.path}) and capture again."
            if started
            else "Name the directory that rocm-perf replay capture made.",
        )
    plain = _json(directory, MANIFEST_NAME)
    if plain.get("format") != FORMAT or plain.get("format_version") != FORMAT_VERSION:
        raise CaptureError(
            f"this capture has format {plain.get('format')!r} version {plain.get('format_version')!r}; "
            f"this version of the lab reads {FORMAT!r} version {FORMAT_VERSION}",
            where=str(directory.path),
            hint="Read it with the version of the lab that wrote it, or capture again.",
        )
    return _validated(directory, MANIFEST_NAME, Manifest, plain)


def _document(directory: CaptureDirectory, manifest: Manifest, name: str, model: type[_Model]) -> _Model:
    if name not in manifest.files:
        raise CaptureError(f"the manifest does not name {name}", where=str(directory.path), hint=_CAPTURE_AGAIN)
    problem = _file_problem(directory, manifest, name, with_content=True)
    if problem is not None:
        raise CaptureError(problem, where=str(directory.path), hint=_CAPTURE_AGAIN)
    return _validated(directory, name, model, _json(directory, name))


def _json(directory: CaptureDirectory, name: str) -> dict[str, Any]:
    try:
        plain = parsed_json(directory.content(name, _LARGEST_DOCUMENT))
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{name} is not JSON: {error}", where=str(directory.path), hint=_CAPTURE_AGAIN) from error
    if not isinstance(plain, dict):
        raise CaptureError(f"{name} is not a JSON object", where=str(directory.path), hint=_CAPTURE_AGAIN)
    return plain


def _validated(directory: CaptureDirectory, name: str, model: type[_Model], plain: dict[str, Any]) -> _Model:
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        said = str(first["msg"]).removeprefix("Value error, ")
        raise CaptureError(
            f"{name} is invalid{f' at {key}' if key else ''}: {said}", where=str(directory.path), hint=_CAPTURE_AGAIN
        ) from error


def _structure_problems(
    directory: CaptureDirectory, manifest: Manifest, dispatch: DispatchDocument, memory: MemoryDocument
) -> Iterator[str]:
    """What the documents say of each other and of the files' sizes."""
    sizes = _expected_sizes(dispatch, memory)
    for name in sorted(sizes.keys() - manifest.files.keys()):
        yield f"the manifest does not name {name}"
    for name in sorted(manifest.files.keys() - sizes.keys() - {AFTER_VARIABLES_NAME}):
        yield f"the manifest names {name!r}, which no document speaks of"
    for name, size in sizes.items():
        entry = manifest.files[name]
        if size is not None and entry.size != size:
            yield f"{name} has {entry.size:,} bytes in the manifest, {size:,} are needed"
    for name in manifest.files:
        problem = _file_problem(directory, manifest, name, with_content=False)
        if problem is not None:
            yield problem
    if manifest.files[CODE_OBJECT_NAME].sha256 != dispatch.code_object.sha256:
        yield f"{CODE_OBJECT_NAME} is not the code object that {DISPATCH_NAME} speaks of"
    if AFTER_VARIABLES_NAME in manifest.files and manifest.files[AFTER_VARIABLES_NAME].size != sizes.get(VARIABLES_NAME):
        yield f"{AFTER_VARIABLES_NAME} has another size than {VARIABLES_NAME}"


def _expected_sizes(dispatch: DispatchDocument, memory: MemoryDocument) -> dict[str, int | None]:
    """Size of every file that the documents speak of; None where any will do."""
    sizes: dict[str, int | None] = {DISPATCH_NAME: None, MEMORY_NAME: None, CODE_OBJECT_NAME: None}
    sizes[KERNARG_NAME] = dispatch.kernel.kernarg_size
    if dispatch.variables:
        sizes[VARIABLES_NAME] = max(variable.offset + variable.size for variable in dispatch.variables)
    for region in memory.regions:
        if region.file is not None:
            sizes[region.file] = region.size
        if region.after is not None:
            sizes[region.after.file] = region.after.pages * PAGE_BYTES
    return sizes


def _content_problems(directory: CaptureDirectory, manifest: Manifest, *, everything: bool) -> Iterator[str]:
    small = {KERNARG_NAME, CODE_OBJECT_NAME, VARIABLES_NAME, AFTER_VARIABLES_NAME}
    for name in sorted(manifest.files):
        if everything or name in small:
            problem = _file_problem(directory, manifest, name, with_content=True)
            if problem is not None:
                yield problem


def _file_problem(directory: CaptureDirectory, manifest: Manifest, name: str, *, with_content: bool) -> str | None:
    entry = manifest.files[name]
    try:
        size = directory.size(name)
        if size != entry.size:
            return f"{name} has {size:,} bytes, {entry.size:,} were captured"
        if with_content and directory.sha256(name) != entry.sha256:
            return f"{name} is not what was captured: its SHA-256 is another"
    except CaptureError as error:
        return error.what
    return None
