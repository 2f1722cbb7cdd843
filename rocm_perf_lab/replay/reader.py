"""Reader of capture directories in all supported layouts: `open_capture(directory) -> Capture`.

No file is used before the manifest is checked: sizes, SHA-256 sums, the set of files, symbolic links, and the consistency of the
documents. `capture_problems(directory)` collects all problems instead of stopping at the first.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
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
    PACKED_VERSION,
    PAGE_BYTES,
    VARIABLES_NAME,
    CaptureModel,
    DispatchDocument,
    Manifest,
    MemoryDocument,
    parsed_json,
)
from rocm_perf_lab.replay.packs import PackReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.replay.format import Region

_Model = TypeVar("_Model", bound=CaptureModel)
_LARGEST_DOCUMENT = 1 << 28
_CAPTURE_AGAIN = "Copy it again from its original directory, or capture again."


@dataclass(frozen=True)
class _DirectoryContents:
    directory: CaptureDirectory
    manifest: Manifest
    unpacked: dict[str, NDArray[np.uint8]] = field(default_factory=dict)

    def image(self, region: Region) -> NDArray[np.uint8]:
        return self._content(str(region.file))

    def after_pages(self, region: Region) -> NDArray[np.uint8]:
        return self._content(region.after.file) if region.after is not None else np.zeros(0, dtype=np.uint8)

    def _content(self, name: str) -> NDArray[np.uint8]:
        entry = self.manifest.packed.get(name)
        if entry is None:
            return self.directory.view(name)
        if name not in self.unpacked:
            self.unpacked[name] = PackReader(self.directory, self.manifest.packs).unpacked(entry.pages, entry.size)
        return self.unpacked[name]


def open_capture(path: Path, *, verify: bool = True) -> Capture:
    """Open a capture directory of rocm-perf-lab, kerncap or the original rocm-perf-lab prototype.

    Args:
        path: Directory of the capture.
        verify: Also compute the SHA-256 of large files; otherwise only their sizes are checked.

    Raises:
        IncompleteCapture: The directory has no manifest.
        CaptureError: A file is missing, damaged or inconsistent; the message names the first problem.
    """
    if is_foreign_capture(path):
        return open_foreign_capture(path)
    capture, directory, manifest = _opened(path)
    for problem in _content_problems(directory, manifest, everything=verify):
        raise CaptureError(problem, where=str(path), hint=_CAPTURE_AGAIN)
    return capture


def capture_problems(path: Path) -> list[str]:
    """Return all problems of a capture directory, one sentence each; empty for a valid capture."""
    try:
        if is_foreign_capture(path):
            open_foreign_capture(path)
            return []
        capture, directory, manifest = _opened(path)
    except CaptureError as error:
        return [error.what]
    problems = list(_content_problems(directory, manifest, everything=True))
    problems += [f"{name} is not part of a capture" for name in sorted(directory.names() - {MANIFEST_NAME, *manifest.files})]
    try:
        _ = capture.kernel
    except CaptureError as error:
        problems.append(error.what)
    return problems


def _opened(path: Path) -> tuple[Capture, CaptureDirectory, Manifest]:
    if not path.is_dir():
        raise CaptureError(
            "the directory does not exist" if not path.exists() else "this is not a directory",
            where=str(path),
            hint="Pass the directory of a capture; create one with rocm-perf replay capture.",
        )
    directory = CaptureDirectory(path)
    manifest = _manifest(directory)
    dispatch = _document(directory, manifest, DISPATCH_NAME, DispatchDocument)
    memory = _document(directory, manifest, MEMORY_NAME, MemoryDocument)
    for problem in _structure_problems(directory, manifest, dispatch, memory):
        raise CaptureError(problem, where=str(path), hint=_CAPTURE_AGAIN)
    has_variables_after = AFTER_VARIABLES_NAME in manifest.contents
    capture = Capture(
        directory=path,
        dispatch=dispatch,
        memory=memory,
        manifest=manifest,
        kernarg=directory.content(KERNARG_NAME),
        hsaco=directory.content(CODE_OBJECT_NAME),
        variables=directory.content(VARIABLES_NAME) if dispatch.variables else b"",
        after_variables=directory.content(AFTER_VARIABLES_NAME) if has_variables_after else None,
        contents=_DirectoryContents(directory, manifest),
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
            hint=f"Remove it (rm -r {directory.path}) and capture again."
            if started
            else "Pass a directory that rocm-perf replay capture created.",
        )
    plain = _json(directory, MANIFEST_NAME)
    if plain.get("format") != FORMAT or plain.get("format_version") not in (FORMAT_VERSION, PACKED_VERSION):
        raise CaptureError(
            f"this capture has format {plain.get('format')!r} version {plain.get('format_version')!r}; "
            f"this version of rocm-perf-lab reads {FORMAT!r} versions {FORMAT_VERSION} and {PACKED_VERSION}",
            where=str(directory.path),
            hint="Use the version of rocm-perf-lab that wrote it, or capture again.",
        )
    return _validated(directory, MANIFEST_NAME, Manifest, plain)


def _document(directory: CaptureDirectory, manifest: Manifest, name: str, model: type[_Model]) -> _Model:
    if name not in manifest.files:
        raise CaptureError(f"the manifest does not list {name}", where=str(directory.path), hint=_CAPTURE_AGAIN)
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
        reason = str(first["msg"]).removeprefix("Value error, ")
        raise CaptureError(
            f"{name} is invalid{f' at {key}' if key else ''}: {reason}", where=str(directory.path), hint=_CAPTURE_AGAIN
        ) from error


def _structure_problems(
    directory: CaptureDirectory, manifest: Manifest, dispatch: DispatchDocument, memory: MemoryDocument
) -> Iterator[str]:
    """Yield inconsistencies between the documents, and between them and the file sizes."""
    sizes, contents = _expected_sizes(dispatch, memory), manifest.contents
    for name in sorted(sizes.keys() - contents.keys()):
        yield f"the manifest does not list {name}"
    for name in sorted(contents.keys() - sizes.keys() - {AFTER_VARIABLES_NAME}):
        yield f"the manifest lists {name!r}, which no document refers to"
    for name, size in sizes.items():
        entry = contents[name]
        if size is not None and entry.size != size:
            yield f"{name} has {entry.size:,} bytes in the manifest, but the documents require {size:,}"
    for name in sorted({CODE_OBJECT_NAME, DISPATCH_NAME, MEMORY_NAME, KERNARG_NAME, VARIABLES_NAME} & manifest.packed.keys()):
        yield f"{name} must not be packed"
    for name in manifest.files:
        problem = _file_problem(directory, manifest, name, with_content=False)
        if problem is not None:
            yield problem
    if contents[CODE_OBJECT_NAME].sha256 != dispatch.code_object.sha256:
        yield f"{CODE_OBJECT_NAME} is not the code object named in {DISPATCH_NAME}"
    if AFTER_VARIABLES_NAME in contents and contents[AFTER_VARIABLES_NAME].size != sizes.get(VARIABLES_NAME):
        yield f"{AFTER_VARIABLES_NAME} and {VARIABLES_NAME} differ in size"


def _expected_sizes(dispatch: DispatchDocument, memory: MemoryDocument) -> dict[str, int | None]:
    """Return the size in bytes of every file that the documents refer to; None if it is not fixed."""
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
    for name in sorted(manifest.packed) if everything else ():
        problem = _unpacked_problem(directory, manifest, name)
        if problem is not None:
            yield problem


def _unpacked_problem(directory: CaptureDirectory, manifest: Manifest, name: str) -> str | None:
    entry, digest = manifest.packed[name], hashlib.sha256()
    try:
        for piece in PackReader(directory, manifest.packs).pieces(entry.pages, entry.size):
            digest.update(piece.data)
    except CaptureError as error:
        return error.what
    return None if digest.hexdigest() == entry.sha256 else f"{name} was modified: its SHA-256 does not match the manifest"


def _file_problem(directory: CaptureDirectory, manifest: Manifest, name: str, *, with_content: bool) -> str | None:
    entry = manifest.files[name]
    try:
        size = directory.size(name)
        if size != entry.size:
            return f"{name} has {size:,} bytes, but {entry.size:,} were captured"
        if with_content and directory.sha256(name) != entry.sha256:
            return f"{name} was modified: its SHA-256 does not match the manifest"
    except CaptureError as error:
        return error.what
    return None
