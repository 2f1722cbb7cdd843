"""Code objects that trap if an alignment or a condition that the source promises is false; see :mod:`.promise_checks`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.compiler_run import CompileError, call_compiler, run_compiler
from rocm_perf_lab.toolchain.promise_checks import with_promise_checks

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox

_TO_IR = ("-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes")
_LLVM_OF_ROCM = ("llvm/bin/clang", "lib/llvm/bin/clang")


@dataclass(frozen=True)
class CheckedBuild:
    """Compilation in two steps: the source to unoptimised IR, and the IR with checks to a code object.

    Args:
        compiler: A clang for AMD GPUs.
        architecture: Processor name.
        sandbox: Sandbox for untrusted sources.
        readable: Directories that a sandboxed compiler may read.
        directory: Directory for temporary files.
    """

    compiler: Compiler
    architecture: str
    sandbox: Sandbox | None
    readable: tuple[Path, ...]
    directory: Path

    def run(self, command: tuple[str, ...], source: Path, origin: Path) -> tuple[bytes, tuple[Path, ...], str]:
        """Compile a file with the flags of an ordinary build and return the code object, the files that were read, and the log.

        Args:
            command: Compiler and flags with `-c`, without source and output.
            source: The file to compile.
            origin: The user's source if `source` was generated from it.

        Raises:
            CompileError: The file does not compile.
        """
        ir = self.directory / "kernel.ll"
        to_ir = (*(word for word in command if word != "-c"), *_TO_IR)
        dependencies, log = run_compiler(to_ir, source, ir, sandbox=self.sandbox, readable=self.readable, origin=origin)
        checked = self.directory / "checked.ll"
        checked.write_text(with_promise_checks(ir.read_text(encoding="latin-1")), encoding="latin-1")
        return self._code_object(checked, origin), dependencies, log

    def _code_object(self, ir: Path, origin: Path) -> bytes:
        output, relocatable = self.directory / "kernel.hsaco", self.directory / "kernel.o"
        generator = (*self._clang(), "-x", "ir", "--target=amdgcn-amd-amdhsa", f"-mcpu={self.architecture}", "-nogpulib", "-O1")
        if self.compiler.linker is None:
            self._call((*generator, str(ir), "-o", str(output)), origin)
        else:
            self._call((*generator, "-c", str(ir), "-o", str(relocatable)), origin)
            linked = (*self.compiler.linker, "-shared", "--no-undefined", "-o", str(output), str(relocatable))
            run = subprocess.run(linked, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                raise CompileError("the build with checks of promises does not link", log=run.stderr, where=str(origin))
        return output.read_bytes()

    def _call(self, command: tuple[str, ...], origin: Path) -> None:
        returncode, log = call_compiler(command, origin, self.sandbox, self.directory, self.readable)
        if returncode != 0:
            raise CompileError("the build with checks of promises does not compile", log=log, where=str(origin))

    def _clang(self) -> tuple[str, ...]:
        """Return the clang that reads IR: the compiler itself, or the clang of ROCm if the compiler is its hipcc."""
        driver = Path(self.compiler.command[0])
        if driver.name != "hipcc":
            return (*self.compiler.command, *(flag for flag in self.compiler.flags if flag.startswith("-B")))
        found = (driver.resolve().parent.parent / clang for clang in _LLVM_OF_ROCM)
        return (next((str(path) for path in found if path.is_file()), str(driver)),)
