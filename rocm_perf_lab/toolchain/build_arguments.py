"""Arguments of `--build-args`: those of compilation, and those of the linker."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from rocm_perf_lab.core.errors import LabError

_WITH_VALUE = ("-I", "-D", "-U", "-L", "-l", "-include", "-isystem", "-iquote", "-idirafter", "-Xclang", "-Xlinker", "-mllvm")
"""Options whose value may be the next word."""
_LINKED = ("-l", "-L", "-Wl,", "-Xlinker", "-rdynamic", "-static", "-shared")
_LINKED_FILES = (".a", ".o", ".so")
_NO_PROGRAM = ("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--cuda-device-only", "--cuda-host-only")
_CHOSEN = ("--offload-arch=", "--amdgpu-target=", "--rocm-path=", "--hip-path=", "-target=", "--target=")
"""Options that follow from the emulated GPU and this installation."""
_RELOCATABLE = "-fgpu-rdc"
_OPENMP = ("-fopenmp", "-qopenmp", "-openmp")


@dataclass(frozen=True)
class BuildArguments:
    """Arguments of compiler and linker."""

    compiler: tuple[str, ...] = ()
    linker: tuple[str, ...] = ()
    is_relocatable: bool = False
    """Whether device code of one source may refer to that of another (-fgpu-rdc)."""
    notes: tuple[str, ...] = ()
    """Messages about arguments without effect."""

    @classmethod
    def parse(cls, text: str) -> BuildArguments:
        """Sort the words of a command line.

        Raises:
            LabError: A quotation mark is missing, an option has no value, or an option does not lead to a program.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise LabError(f"the build arguments cannot be read: {error}", where=f"--build-args {text!r}") from error
        compiler: list[str] = []
        linker: list[str] = []
        notes: list[str] = []
        while words:
            option = _next_option(words)
            _check(option[0])
            if option[0] in _OPENMP:
                notes.append(f"{option[0]} is ignored: OpenMP regions run on one thread")
            elif option[0].startswith(_CHOSEN) or option[0] == "-x":
                continue
            elif option[0].startswith(_LINKED) or (not option[0].startswith("-") and option[0].endswith(_LINKED_FILES)):
                linker += option
            else:
                compiler += option
        return cls(tuple(compiler), tuple(linker), _RELOCATABLE in compiler, tuple(notes))


def _next_option(words: list[str]) -> list[str]:
    """Remove the first option and its value from `words`, and return them."""
    first = words.pop(0)
    if first not in (*_WITH_VALUE, "-x", "-o"):
        return [first]
    if not words:
        raise LabError(f"{first} has no value", where="--build-args")
    return [first, words.pop(0)]


def _check(option: str) -> None:
    if option in _NO_PROGRAM:
        raise LabError(f"{option} does not lead to a program", where="--build-args", hint=f"remove {option}")
    if option == "-o":
        raise LabError("programs are kept in the cache", where="--build-args", hint="remove -o")
