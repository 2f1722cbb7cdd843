"""Errors of the compiler in words for programs: the compiler's text, or the library of a missing header."""

from __future__ import annotations

from rocm_perf_lab.toolchain.compiler_run import CompileError, places_of_errors
from rocm_perf_lab.toolchain.missing_headers import DEVICE_LIBRARIES, HOST_LIBRARIES, hint_for, library_of, missing_header

_INSTALL = "install it and name its directory: --build-args '-I DIR -L DIR -l NAME'"
_ROOT = "or compile with AMD's hipcc in a ROCm directory tree: rocm-perf run --root DIR -- hipcc ... (make rocm-root)"


def explained(error: CompileError) -> CompileError:
    """Return the error of a program: the compiler's text, or, for a missing header, the name of its library."""
    missing = missing_header(error.log)
    if missing is None:
        if not places_of_errors(error.log):
            return error
        what = f"the program does not compile:\n{error.log.rstrip()}"
        return CompileError(what, log=error.log, where=error.where, hint=error.hint)
    library = library_of(missing.name, {**DEVICE_LIBRARIES, **HOST_LIBRARIES})
    place = f"{missing.file}:{missing.line}"
    if library is not None:
        what = f"{missing.name} is a header of {library}, which is not installed"
        return CompileError(what, log=error.log, where=place, hint=f"{_INSTALL}; {_ROOT}")
    hint = hint_for(missing)
    if "host_headers" in hint:
        hint = f"add its directory: --build-args '-I DIR'; {_ROOT}"
    return CompileError(f"the header {missing.name} was not found", log=error.log, where=place, hint=hint)
