"""Files that a linker reads: objects, archives and libraries that its arguments name."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.compiler_run import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FILE = re.compile(r"[^-].*\.(?:o|obj|lo|a|so(?:\.\d+)*)")
_DIRECTORY, _LIBRARY = "-L", "-l"
_OF_GNU = re.compile(
    rb"St7__cxx11|_ZSt4(?:cout|cerr|cin)\0|_ZNSt8ios_base4Init|_ZSt\d+__throw_|_ZSt18_Rb_tree|_ZNSo|_ZNSt6thread"
)
"""Names of GNU's C++ library in objects of g++: the compiler of the wheels has another library, with other names."""
_GNU_LIBRARY = "libstdc++.so.6"
_LIBRARY_DIRECTORIES = ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib")


def is_linked_file(word: str) -> bool:
    """Return whether a word of a command line names an object, an archive or a shared library."""
    return _FILE.fullmatch(word) is not None


def linked_digest(arguments: Sequence[str]) -> str:
    """Return a digest of the files that arguments of a linker name, so that a program is linked again after they change.

    Raises:
        CompileError: A named file does not exist or cannot be read.
    """
    digest = hashlib.sha256()
    for file in linked_files(arguments):
        try:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        except OSError as error:
            what = "the file to link does not exist" if isinstance(error, FileNotFoundError) else f"cannot read: {error.strerror}"
            raise CompileError(what, log="", where=str(file), hint="Check its path.") from error
    return digest.hexdigest()


def gnu_cpp_library(arguments: Sequence[str], directories: Sequence[str] = _LIBRARY_DIRECTORIES) -> Path | None:
    """Return the system's C++ library if objects or archives among the arguments were compiled with g++, and it exists.

    Args:
        arguments: Arguments of the linker.
        directories: Directories of libraries.
    """
    objects = (file for file in linked_files(arguments) if ".so" not in file.name)
    if not any(_OF_GNU.search(file.read_bytes()) for file in objects):
        return None
    return next((path for name in directories if (path := Path(name) / _GNU_LIBRARY).is_file()), None)


def linked_files(arguments: Sequence[str]) -> Iterator[Path]:
    """Return the files among arguments, and libraries (-l) in directories of -L; system libraries are omitted."""
    words = [*_joined(arguments)]
    directories = [Path(word[2:]) for word in words if word.startswith(_DIRECTORY)]
    for word in words:
        if is_linked_file(word):
            yield Path(word)
        elif word.startswith(_LIBRARY):
            names = (f"lib{word[2:]}.so", f"lib{word[2:]}.a")
            yield from (file for directory in directories for name in names if (file := directory / name).is_file())


def _joined(arguments: Sequence[str]) -> Iterator[str]:
    """Return arguments with -L and -l joined to their values."""
    words = iter(arguments)
    for word in words:
        yield word + next(words, "") if word in (_DIRECTORY, _LIBRARY) else word
