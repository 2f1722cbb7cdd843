"""`rocm-perf hipcc`: compile and link HIP sources without ROCm, with the options of hipcc."""

from __future__ import annotations

import click

from rocm_perf_lab.cli.exit_codes import answer

_DEBUG = "--debug"


@click.command(
    short_help="Compile HIP sources without ROCm.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]},
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED)
def hipcc(arguments: tuple[str, ...]) -> None:
    """Compile and link HIP sources with the compiler of the wheels, for rocm-perf-lab's HIP runtime.

    \b
    rocm-perf hipcc --offload-arch=gfx942 -O3 main.hip more.cpp -o app
    rocm-perf hipcc -shared kernels.hip -o libkernels.so
        a library, for example for ctypes
    rocm-perf hipcc -c main.hip && rocm-perf hipcc main.o -o app
        objects, which archives of ar may contain

    Run programs with rocm-perf run -- ./app. Objects have no device code for
    other objects (-fgpu-rdc); -S and -E are not available.
    """

    def run() -> None:
        from rocm_perf_lab.jobs.run.compilation import CompilationRequest, run_compilation

        run_compilation(CompilationRequest.parse([word for word in arguments if word != _DEBUG]))

    answer(run, debug=_DEBUG in arguments)
