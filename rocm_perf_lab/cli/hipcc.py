"""`rocm-perf hipcc`: compile and link HIP sources without ROCm, with the options of hipcc."""

from __future__ import annotations

import sys

import click

from rocm_perf_lab.cli.exit_codes import answer

_DEBUG, _PRINT_ROOT = "--debug", "--print-root"


@click.command(
    short_help="Compile HIP sources without ROCm.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]},
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED)
def hipcc(arguments: tuple[str, ...]) -> None:
    """Compile and link HIP sources for rocm-perf-lab's HIP runtime, with the compiler from the Python packages.

    \b
    rocm-perf hipcc --offload-arch=gfx942 -O3 main.hip more.cpp -o app
    rocm-perf hipcc -shared kernels.hip -o libkernels.so
        a library, for example for ctypes
    rocm-perf hipcc -c main.hip && rocm-perf hipcc main.o -o app
        objects, which may be collected in ar archives

    \b
    export PATH=$(rocm-perf hipcc --print-root)/bin:$PATH
        a directory tree like ROCm's, with hipcc, hipconfig and the
        CMake packages, including support for CMake's HIP language

    Run programs with rocm-perf run -- ./app.
    """

    def run() -> None:
        from rocm_perf_lab.jobs.run.compilation import CompilationRequest, is_query, run_compilation

        if arguments == (_PRINT_ROOT,):
            from rocm_perf_lab.jobs.run.hip_tree import make_hip_tree

            print(make_hip_tree())
            return
        if is_query(arguments):
            from rocm_perf_lab.toolchain.compilers import find_compiler
            from rocm_perf_lab.toolchain.hip_version import answer_query

            sys.exit(answer_query(find_compiler(("pip",)), arguments))
        run_compilation(CompilationRequest.parse([word for word in arguments if word != _DEBUG]))

    answer(run, debug=_DEBUG in arguments)
