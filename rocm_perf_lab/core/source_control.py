"""The Git commit of a directory, read without Git."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_REFERENCE = "ref: "


def commit_of(directory: Path) -> str | None:
    """Return the hash of the commit that is checked out in a directory; None outside a repository."""
    start = directory.absolute()
    root = next((path for path in (start, *start.parents) if (path / ".git").exists()), None)
    if root is None:
        return None
    try:
        return _head(_git_directory(root / ".git"))
    except (OSError, UnicodeDecodeError):
        return None


def _git_directory(path: Path) -> Path:
    """Return the Git directory of a repository; in a worktree or submodule, `.git` is a file with its path."""
    return path if path.is_dir() else path.parent / path.read_text(encoding="utf-8").partition("gitdir: ")[2].strip()


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith(_REFERENCE):
        return head
    name, common = head.removeprefix(_REFERENCE), git / "commondir"
    shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
    if (shared / name).is_file():
        return (shared / name).read_text(encoding="utf-8").strip()
    packed = shared / "packed-refs"
    rows = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
    return next((row.split()[0] for row in rows if row.endswith(f" {name}")), None)
