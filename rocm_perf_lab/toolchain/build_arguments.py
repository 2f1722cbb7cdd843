"""Arguments of `--build-args`: those of compilation, and those of the linker."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.linked_files import is_linked_file

_WITH_VALUE = ("-I", "-D", "-U", "-L", "-l", "-include", "-isystem", "-iquote", "-idirafter", "-Xclang", "-Xlinker", "-mllvm")
"""Options whose value may be the next word."""
_LINKED = ("-l", "-L", "-Wl,", "-Xlinker", "-rdynamic", "-static", "-shared", "--shared", "-pie", "-no-pie")
_NO_PROGRAM = ("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--cuda-device-only", "--cuda-host-only")
_CHOSEN = (
    *("--offload-arch=", "--amdgpu-target=", "--rocm-path=", "--hip-path=", "-target=", "--target=", "--gcc-toolchain="),
    *("--gcc-install-dir=", "--rocm-device-lib-path=", "--hip-device-lib-path=", "--hip-version="),
)
"""Options that follow from the emulated GPU and this installation."""
_WITHOUT_EFFECT = (
    "-flto",
    "-fno-lto",
    "-foffload-lto",
    "--offload-new-driver",
    "--no-offload-new-driver",
    "--offload-compress",
    "--hip-link",
)
"""Options that change how parts are stored and optimised together, and no result."""
_RELOCATABLE = "-fgpu-rdc"
_OPENMP = ("-fopenmp", "-qopenmp", "-openmp")


@dataclass(frozen=True)
class BuildArguments:
    """Compiler and linker arguments."""

    compiler: tuple[str, ...] = ()
    linker: tuple[str, ...] = ()
    is_relocatable: bool = False
    """Whether device code of one source may refer to that of another (-fgpu-rdc)."""
    notes: tuple[str, ...] = ()
    """Messages about arguments without effect."""

    @classmethod
    def parse(cls, text: str, where: str = "--build-args") -> BuildArguments:
        """Sort the words of a command line.

        Args:
            text: Arguments, quoted for a shell.
            where: Place for errors.

        Raises:
            LabError: A quotation mark is missing, an option has no value, or an option does not lead to a program.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise LabError(f"the build arguments cannot be read: {error}", where=f"{where} {text!r}") from error
        compiler: list[str] = []
        linker: list[str] = []
        notes: list[str] = []
        while words:
            option = _next_option(words, where)
            _check(option[0], where)
            if option[0] in _OPENMP:
                notes.append(f"{option[0]} is ignored: OpenMP regions run on one thread")
            elif option[0].startswith((*_CHOSEN, *_WITHOUT_EFFECT)) or option[0] == "-x":
                continue
            elif option[0].startswith(_LINKED) or is_linked_file(option[0]):
                linker += option
            else:
                compiler += option
        return cls(tuple(compiler), tuple(linker), _RELOCATABLE in compiler, tuple(notes))


def _next_option(words: list[str], where: str) -> list[str]:
    """Remove the first option and its value from `words`, and return them."""
    first = words.pop(0)
    if first not in (*_WITH_VALUE, "-x", "-o"):
        return [first]
    if not words:
        raise LabError(f"{first} has no value", where=where)
    return [first, words.pop(0)]


def _check(option: str, where: str) -> None:
    if option in _NO_PROGRAM:
        raise LabError(f"{option} does not lead to a program", where=where, hint=f"remove {option}")
    if option == "-o":
        raise LabError("programs are kept in the cache", where=where, hint="remove -o")
